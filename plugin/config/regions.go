package config

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/warmgate/warmgate/lb/push"
	"github.com/warmgate/warmgate/lb/region"
)

// Target returns the cluster that requests for the gateways of the region are sent to.
func (p *Peer) Target() string { return cmp.Or(p.Forward, p.Cluster) }

// clusters returns those that lead to the region.
func (p *Peer) clusters() []string {
	return slices.DeleteFunc([]string{p.Cluster, p.Forward, p.Adopt}, func(name string) bool { return name == "" })
}

// Enabled reports whether this gateway is one of a region.
func (r *Regions) Enabled() bool { return r.Name != "" }

// Forwards reports whether requests may be forwarded to a peer.
func (r *Regions) Forwards() bool {
	return len(r.Peers) > 0 && (r.Allowed == nil || len(r.Allowed) > 0)
}

// Adopts reports whether the servers of a peer may be served from here.
func (r *Regions) Adopts() bool {
	return slices.ContainsFunc(r.Peers, func(p Peer) bool { return p.Adopt != "" })
}

// Board returns what the regions are for package region.
func (r *Regions) Board() region.Config {
	c := region.Config{Name: r.Name, Interval: r.Interval, Buffer: r.Buffer, Gone: r.Gone, Steady: r.Steady}
	for _, p := range r.Peers {
		c.Peers = append(c.Peers, region.Peer{Name: p.Name, Distance: p.RTT, Adopt: p.Adopt != ""})
	}
	return c
}

// SameBoard reports whether the workers of both configurations share what they know of the peers.
func (r *Regions) SameBoard(other *Regions) bool {
	return r.Name == other.Name && r.Cluster == other.Cluster && r.Interval == other.Interval &&
		r.Buffer == other.Buffer && r.Secret == other.Secret && r.Previous == other.Previous &&
		r.Memory == other.Memory && r.Gone == other.Gone && r.Steady == other.Steady &&
		slices.Equal(r.Peers, other.Peers)
}

// takesAsMuch reports whether by both configurations the endpoints of a cluster take as much, and are counted in one
// place.
func (c *Config) takesAsMuch(other *Config) bool {
	return c.Policy == other.Policy && c.Unit == other.Unit && c.MaxInflight == other.MaxInflight &&
		c.MaxInflightTokens == other.MaxInflightTokens && c.Push == other.Push && c.PushAhead == other.PushAhead &&
		maps.Equal(c.Weights, other.Weights) && c.Health == other.Health && c.MetricsID() == other.MetricsID() &&
		c.EnvoyCfg.AdminCluster == other.EnvoyCfg.AdminCluster &&
		slices.Equal(c.EnvoyCfg.Endpoints, other.EnvoyCfg.Endpoints) && c.Store == other.Store &&
		(!c.UsesRedis() || c.Redis == other.Redis && c.ReserveTimeout == other.ReserveTimeout)
}

// RegionHeader returns the request header by whose value the route takes the cluster, at home or of a peer, in lower
// case; "" without regions.
func (c *Config) RegionHeader() string {
	if !c.Regions.Enabled() {
		return ""
	}
	return c.Regions.Header
}

var (
	wantRegion = ", want a name of 1 to " + strconv.Itoa(region.MaxName) +
		" printable characters without blanks and semicolons"
	wantPeers = ", want a list of 1 to " + strconv.Itoa(region.MaxPeers) +
		` regions like {"name": "eu", "cluster": "warmgate-peer-eu", "rtt": "80ms"}`
	wantAllowed = `, want a list of names of regions.peers like ["eu"], or [] for none`
)

// isRegionName reports whether the text can name a region, in labels of statistics too.
func isRegionName(v value) bool {
	return v.kind == kindString && len(v.text) <= region.MaxName && isClusterName(v.text)
}

// setRegionName reads the name of this region.
func setRegionName(p *parser, c *Config, at string, v value) {
	if !isRegionName(v) {
		p.badValue(at, v, wantRegion)
		return
	}
	c.Regions.Name = strings.Clone(v.text)
}

// setRegionCluster reads the cluster of this region's own servers.
func setRegionCluster(p *parser, c *Config, at string, v value) {
	c.Regions.Cluster = p.clusterName(at, v)
}

// setRegionSecret reads the secret, which no message repeats.
func setRegionSecret(p *parser, c *Config, at string, v value) {
	if secret, ok := p.longSecret(at, v, "random and the same in all regions"); ok {
		c.Regions.Secret = secret
	}
}

// setRegionBefore reads the secret that is being replaced.
func setRegionBefore(p *parser, c *Config, at string, v value) {
	if secret, ok := p.longSecret(at, v, "the one that regions.secret replaces"); ok {
		c.Regions.Previous = secret
	}
}

// setPeers reads [{"name": "eu", "cluster": "warmgate-peer-eu", "rtt": "80ms"}].
func setPeers(p *parser, c *Config, at string, v value) {
	if v.kind != kindArray {
		p.badValue(at, v, wantPeers)
		return
	}
	if n := len(v.items); n == 0 || n > region.MaxPeers {
		p.bad(at, "got "+strconv.Itoa(n)+" regions"+wantPeers)
		return
	}
	c.Regions.Peers = make([]Peer, 0, len(v.items))
	for i, item := range v.items {
		place := at + "[" + strconv.Itoa(i) + "]"
		peer, ok := p.peer(place, item)
		if !ok {
			continue
		}
		sameName := func(other Peer) bool { return other.Name == peer.Name }
		sameCluster := func(other Peer) bool { return other.Cluster == peer.Cluster }
		switch {
		case slices.ContainsFunc(c.Regions.Peers, sameName):
			p.bad(place+".name", "got "+quote(peer.Name)+" twice")
		case slices.ContainsFunc(c.Regions.Peers, sameCluster):
			p.bad(place+".cluster", "got "+quote(peer.Cluster)+" twice, want a cluster for each region")
		default:
			c.Regions.Peers = append(c.Regions.Peers, peer)
		}
	}
}

// peer reads another region. It returns false if its name or its cluster is not known.
func (p *parser) peer(at string, v value) (Peer, bool) {
	var peer Peer
	p.setDefault(&peerRTT, &peer, at)
	if v.kind != kindObject {
		p.badValue(at, v, `, want an object like {"name": "eu", "cluster": "warmgate-peer-eu", "rtt": "80ms"}`)
		return peer, false
	}
	seen := p.eachMember(at, v, func(name, place string, item value) {
		switch name {
		case "name":
			if isRegionName(item) {
				peer.Name = strings.Clone(item.text)
			} else {
				p.bad(place, got(item)+wantRegion)
			}
		case "cluster":
			peer.Cluster = p.clusterName(place, item)
		case "forward_cluster":
			peer.Forward = p.clusterName(place, item)
		case "rtt":
			p.decode(&peerRTT, &peer, place, item)
		case "adopt":
			peer.Adopt = p.adopted(place, item)
		default:
			p.unknownMember(name, place, []string{"name", "cluster", "rtt", "forward_cluster", "adopt"})
		}
	})
	if !seen["name"] {
		p.bad(at+".name", "missing"+wantRegion)
	}
	if !seen["cluster"] {
		p.bad(at+".cluster", "missing, want the name of the cluster that leads to the gateways of that region")
	}
	return peer, peer.Name != "" && peer.Cluster != ""
}

// adopted reads {"cluster": "eu-servers"}.
func (p *parser) adopted(at string, v value) (cluster string) {
	if v.kind != kindObject || len(v.names) != 1 || v.names[0] != "cluster" {
		p.badValue(at, v, `, want {"cluster": "eu-servers"}, the cluster of that region's servers`)
		return ""
	}
	return p.clusterName(at+".cluster", v.items[0])
}

// clusterName reads the name of a cluster, "" for a value that is none.
func (p *parser) clusterName(at string, v value) string {
	if v.kind != kindString || !isClusterName(v.text) {
		p.badValue(at, v, wantCluster)
		return ""
	}
	return strings.Clone(v.text)
}

// setAllowed reads ["eu"], or [] for no peer.
func setAllowed(p *parser, c *Config, at string, v value) {
	if v.kind != kindArray {
		p.badValue(at, v, wantAllowed)
		return
	}
	c.Regions.Allowed = make([]string, 0, len(v.items))
	for i, item := range v.items {
		place := at + "[" + strconv.Itoa(i) + "]"
		switch {
		case !isRegionName(item):
			p.bad(place, got(item)+", want the name of one of regions.peers")
		case slices.Contains(c.Regions.Allowed, item.text):
			p.bad(place, "got "+quote(item.text)+" twice")
		default:
			c.Regions.Allowed = append(c.Regions.Allowed, strings.Clone(item.text))
		}
	}
}

// checkRegions compares the keys of regions with each other, and with others.
func (pt *part) checkRegions() {
	if pt.AmongClusters() {
		pt.refuseRegions(pt.prefix+"lb_config.regions", `got regions with lb_type "cluster", want one of them: either `+
			"a cluster is chosen for a request, or a region")
		return
	}
	if !pt.written[keyRegionName] {
		for _, name := range []string{keyPeers, keyAllowed} {
			if pt.written[name] {
				pt.badKey(keyRegionName, "missing, want the name of this region, as there is "+name)
				return
			}
		}
		pt.idle(ownRegionKeys, "has no effect without regions.name")
		return
	}
	if !pt.written[keyRegionSecret] {
		pt.badKey(keyRegionSecret, "missing, want a string of "+strconv.Itoa(minSecret)+
			" bytes or more that all regions share, by which their gateways know each other")
	}
	if r := &pt.Regions; r.Previous != "" && r.Previous == r.Secret {
		pt.badKey(keyRegionBefore, "got the same as secret, want the one that it replaces")
	}
	if !pt.written[keyRegionCluster] {
		pt.badKey(keyRegionCluster, "missing, want the name of the cluster of this region's own servers")
	}
	pt.checkPeers()
	adopts := func(p Peer) bool { return p.Adopt != "" }
	switch {
	case pt.written[keyPeers] && !pt.invalid[keyPeers] && !slices.ContainsFunc(pt.Regions.Peers, adopts):
		pt.idle(adoptingKeys, "has no effect without adopt in regions.peers")
	}
	switch {
	case !pt.written[keyPeers]:
		pt.idle(forwardingKeys, "has no effect without regions.peers, since nothing is forwarded")
	case pt.Shadow:
		pt.idle([]string{keyPeers}, "has no effect with shadow: nothing is forwarded that the gateway routes")
	case pt.Push == push.Blind && !pt.hasCap():
		pt.idle([]string{keyPeers}, "has no effect with push blind and without max_inflight and "+
			"max_inflight_tokens, unless no endpoint is healthy: none is ever full")
	}
}

// refuseRegions reports one problem if keys of regions are written, and goes on as if they were not.
func (pt *part) refuseRegions(at, why string) {
	written := false
	for i := range regionKeys {
		written = written || pt.written[regionKeys[i].Name]
		delete(pt.written, regionKeys[i].Name)
	}
	if pt.Regions = pt.base.Regions; written {
		pt.bad(at, why)
	}
}

// checkPeers compares the peers with the name of this region, with clusters of other keys, and with regions.allowed.
func (pt *part) checkPeers() {
	if pt.invalid[keyPeers] {
		return
	}
	r, names := &pt.Regions, []string{}
	taken := map[string]string{r.Cluster: "the cluster of this region's own servers"}
	if r.Cluster != "" && pt.calls(r.Cluster) {
		pt.badKey(keyRegionCluster, "got "+quote(r.Cluster)+", through which the plugin makes its own calls")
	}
	for i := range r.Peers {
		peer, at := &r.Peers[i], pt.prefix+keyPeers+"["+strconv.Itoa(i)+"]"
		names = append(names, peer.Name)
		if peer.Name == r.Name {
			pt.bad(at+".name", "got "+quote(peer.Name)+", the name of this region itself, want only others")
		}
		pt.checkPeer(at, peer, taken)
	}
	for i, name := range r.Allowed {
		if pt.invalid[keyAllowed] || slices.Contains(names, name) {
			continue
		}
		want := ", which is none of regions.peers, and there are none"
		if len(names) > 0 {
			want = ", want " + oneOf(names) + ", of regions.peers" + DidYouMean(name, names)
		}
		pt.badKey(keyAllowed+"["+strconv.Itoa(i)+"]", "got "+quote(name)+want)
	}
}

// checkPeer compares the clusters of a peer with those that are taken, by what for: each leads somewhere else.
func (pt *part) checkPeer(at string, peer *Peer, taken map[string]string) {
	for _, of := range [...]struct{ member, name string }{
		{".cluster", peer.Cluster}, {".forward_cluster", peer.Forward}, {".adopt.cluster", peer.Adopt},
	} {
		switch name := of.name; {
		case name == "":
		case pt.calls(name):
			pt.bad(at+of.member, "got "+quote(name)+", through which the plugin makes its own calls")
		case taken[name] != "":
			pt.bad(at+of.member, "got "+quote(name)+", "+taken[name])
		default:
			taken[name] = "which " + strings.TrimPrefix(at, pt.prefix) + of.member + " is already"
		}
	}
	if peer.Adopt != "" && len(pt.EnvoyCfg.Endpoints) > 0 {
		pt.bad(at+".adopt", "got it beside envoy.endpoints, want envoy.admin_cluster: the endpoints of two clusters "+
			"have to be known")
	}
}

// differs names what two descriptions of a region differ in, as SameBoard compares them.
func (r *Regions) differs(other *Regions) string {
	switch {
	case r.Secret != other.Secret:
		return "secret"
	case r.Previous != other.Previous:
		return "previous_secret"
	case r.Cluster != other.Cluster:
		return "cluster"
	case r.Interval != other.Interval:
		return "probe_interval"
	case r.Buffer != other.Buffer:
		return "queue_buffer"
	case r.Memory != other.Memory:
		return "snapshot_bytes"
	case r.Gone != other.Gone:
		return "gone"
	case r.Steady != other.Steady:
		return "steady"
	}
	return "list of peers"
}
