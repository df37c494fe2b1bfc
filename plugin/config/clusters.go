package config

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/push"
)

const (
	maxClusters    = 64
	maxClusterName = 256
)

// setClusters reads ["cluster"], or a name alone.
func setClusters(p *parser, c *Config, at string, v value) {
	names, place := v.items, func(i int) string { return at + "[" + strconv.Itoa(i) + "]" }
	if v.kind == kindString {
		names, place = []value{v}, func(int) string { return at }
	} else if v.kind != kindArray {
		p.badValue(at, v, `, want a list of clusters like ["outbound|80||llm.static"]`)
		return
	}
	if len(names) == 0 || len(names) > maxClusters {
		p.bad(at, "got "+strconv.Itoa(len(names))+" clusters, want 1 to "+strconv.Itoa(maxClusters))
		return
	}
	c.Clusters.List = make([]string, 0, len(names))
	for i, item := range names {
		switch {
		case item.kind != kindString || !isClusterName(item.text):
			p.bad(place(i), got(item)+wantCluster)
		case slices.Contains(c.Clusters.List, item.text):
			p.bad(place(i), "got "+quote(item.text)+" twice")
		default:
			c.Clusters.List = append(c.Clusters.List, strings.Clone(item.text))
		}
	}
}

// setFirst reads {"aggregate cluster": "cluster"}.
func setFirst(p *parser, c *Config, at string, v value) {
	if v.kind != kindObject {
		p.badValue(at, v, `, want an object like {"site-a-first": "site-a"}`)
		return
	}
	c.Clusters.First = make(map[string]string, len(v.names))
	for i, name := range v.names {
		place, item := at+"["+quote(name)+"]", v.items[i]
		switch _, twice := c.Clusters.First[name]; {
		case twice:
			p.bad(place, "written twice")
		case item.kind != kindString || !isClusterName(item.text):
			p.bad(place, got(item)+", want the name of a cluster")
		default:
			c.Clusters.First[strings.Clone(name)] = strings.Clone(item.text)
		}
	}
}

// Holds returns the cluster whose endpoints serve a cluster of the list, unless a retry goes elsewhere: itself, or the
// first one of an aggregate cluster.
func (c *Clusters) Holds(name string) string { return cmp.Or(c.First[name], name) }

var wantCluster = ", want the name of a cluster, 1 to " + strconv.Itoa(maxClusterName) +
	" printable characters without blanks and semicolons"

// isClusterName reports whether the text can be a header's value as it is. It is not inlined, for the size of the
// artifacts.
//
//go:noinline
func isClusterName(s string) bool {
	return s != "" && len(s) <= maxClusterName && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r > '~' || r == ';' // which separates the labels of statistics
	})
}

// clusterHeader returns a setter of the name of a header by which routes take clusters. As for ai-load-balancer, ""
// stands for the default.
func clusterHeader(field func(*Config) *string) setter {
	return func(p *parser, c *Config, at string, v value) {
		name, header := strings.ToLower(v.text), field(c)
		switch {
		case v.kind == kindString && name == "" && *header != "":
			p.takenAs(at, v, quote(*header))
		case !v.isClusterHeader():
			p.badValue(at, v, ", want the name of a header that no other part of a request is steered by")
		default:
			*header = strings.Clone(name)
		}
	}
}

// isClusterHeader reports whether the value is the name of a header by which a route may take its cluster.
func (v *value) isClusterHeader() bool {
	name := strings.ToLower(v.text)
	return v.kind == kindString && isHeaderName(name) && !strings.HasPrefix(name, "x-envoy-") && !ownHeaders[name]
}

func isHeaderName(name string) bool {
	return name != "" && len(name) <= maxHeader && strings.Trim(name, headerLetters) == ""
}

// ownHeaders carry something else.
var ownHeaders = map[string]bool{
	"host": true, "connection": true, "content-length": true, "transfer-encoding": true, "upgrade": true, "te": true,
	"x-warmgate-session": true, "x-gateway-destination-endpoint": true, "x-warmgate-redis-node": true,
	"x-warmgate-hop": true, "x-warmgate-probe": true, "x-warmgate-hop-new": true, "x-warmgate-probe-new": true,
}

// setNested keeps the object until the part around it is known.
func setNested(p *parser, c *Config, at string, v value) {
	if v.kind != kindObject {
		p.badValue(at, v, `, want an object like {"lb_policy": "global_least_request"}`)
		return
	}
	c.nested = &nested{at, v}
}

// setHashClusters reads [{"cluster": "name", "weight": 70}].
func setHashClusters(p *parser, c *Config, at string, v value) {
	if v.kind != kindArray || len(v.items) == 0 || len(v.items) > maxClusters {
		p.badValue(at, v, `, want a list of 1 to `+strconv.Itoa(maxClusters)+` like [{"cluster": "a", "weight": 100}]`)
		return
	}
	c.Clusters.List, c.shares = nil, map[string]float64{}
	sum := 0.0
	for i, item := range v.items {
		place := at + "[" + strconv.Itoa(i) + "]"
		name, share := hashCluster(p, place, item)
		switch _, twice := c.shares[name]; {
		case item.kind != kindObject || !isClusterName(name) || share == 0:
			p.bad(place, got(item)+`, want {"cluster": "name", "weight": 50}`)
		case twice:
			p.bad(place, "got "+quote(name)+" twice")
		default:
			c.Clusters.List = append(c.Clusters.List, name)
			c.shares[name] = share
			sum += share
		}
	}
	if len(c.Clusters.List) == len(v.items) && sum != 100 {
		p.bad(at, "got weights that sum to "+short(sum)+", want 100")
	}
}

// hashCluster reads {"cluster": "name", "weight": 70}.
func hashCluster(p *parser, at string, v value) (name string, share float64) {
	p.eachMember(at, v, func(member, place string, item value) {
		switch member {
		case "cluster":
			name = strings.Clone(item.text)
		case "weight":
			share = weight(p, place, item)
		default:
			p.unknownMember(member, place, []string{"cluster", "weight"})
		}
	})
	return name, share
}

// clusterHash is Higress's name for consistent_hash among clusters.
const clusterHash = "cluster_hash"

// hashedHeader is the header that cluster_hash goes by unless one is configured: Higress's name of a consumer.
const hashedHeader = "x-mse-consumer"

// checkHashed completes what cluster_hash means beside consistent_hash: a default header, and clusters that are kept
// however busy they are.
func (pt *part) checkHashed() {
	if pt.Policy != clusterHash {
		return
	}
	if pt.Clusters.Hashed = pt.AmongClusters(); !pt.Clusters.Hashed {
		pt.badKey("lb_policy", `got "cluster_hash", want lb_type "cluster" with it, or "consistent_hash"`)
	}
	if pt.hashHeader == "" && !pt.written[keySession] {
		pt.hashHeader = hashedHeader
	}
	if !pt.written["lb_config.session.load_factor"] {
		pt.ownSettings(policy.Describe(clusterHash)).(*policy.HashConfig).LoadFactor = math.Inf(1)
	}
}

// policiesFor returns the policies that can choose among what the level is.
func policiesFor(level policy.Level) (names []string) {
	for _, d := range policy.All() {
		if d.Among.Includes(level) {
			names = append(names, d.Name)
		}
	}
	return names
}

// checkClusters checks the keys for choosing among clusters.
func (pt *part) checkClusters() {
	if pt.shares != nil {
		pt.Weights, pt.shares = pt.shares, nil
	}
	switch hashed := pt.written[keyHashClusters]; {
	case hashed && pt.written["lb_config.weights"]:
		pt.badKey(keyHashClusters, "got it beside weights, want one of them")
	case hashed && pt.written[keyClusters]:
		pt.badKey(keyHashClusters, "got it beside service_list, want one of them")
	case hashed && !pt.Clusters.Hashed:
		pt.badKey(keyHashClusters, `got it with another policy than "cluster_hash", want service_list`)
	case !hashed && !pt.written[keyClusters] && !pt.needs().Budget:
		pt.badKey(keyClusters, `missing, want the clusters to choose among, as lb_type is "cluster"`)
	}
	for i, name := range pt.Clusters.List {
		if pt.calls(name) {
			pt.badKey(keyClusters+"["+strconv.Itoa(i)+"]", "got "+quote(name)+
				", through which the plugin makes its own calls")
		}
	}
	for _, name := range order.Keys(pt.Clusters.First) {
		if !slices.Contains(pt.Clusters.List, name) {
			pt.badKey(keyFirst+"["+quote(name)+"]", "not in service_list")
		}
	}
	pt.checkWeights(", and not in service_list", func(name string) bool {
		return slices.Contains(pt.Clusters.List, name)
	})
	if pt.Push == push.Pending {
		pt.badKey(keyPush, `got "pending", want "blind" or "outstanding" with lb_type "cluster": `+
			`what waits inside engines is not known of a cluster; endpoint.lb_config may have it`)
	}
	if pt.written["lb_config.envoy.endpoints"] {
		pt.badKey("lb_config.envoy.endpoints", `got endpoints, want admin_cluster with lb_type "cluster"`)
	}
	switch {
	case pt.host != Envoy:
		pt.idle([]string{keyFirst}, "has no effect in Higress, which does not show the endpoints of these clusters")
	case pt.EnvoyCfg.AdminCluster == "":
		pt.idle([]string{keyFirst}, "has no effect without envoy.admin_cluster: the endpoints of these clusters "+
			"are not known")
	}
	pt.idle([]string{"lb_config.health.panic_threshold", keyZones, keySubset, keyFromZero},
		`has no effect with lb_type "cluster"`)
	pt.Health.PanicThreshold, pt.SubsetHint = 0, SubsetNone
	if !pt.written["lb_config.health.max_ejection_percent"] {
		pt.Health.MaxEjectionPercent = 100
	}
}

// checkWeights checks the weights of what is no address.
func (pt *part) checkWeights(problem string, known func(name string) bool) {
	for _, name := range pt.named {
		if !known(name) {
			pt.badKey("lb_config.weights["+quote(name)+"]", "not an address"+problem)
		}
	}
	pt.named = nil
}

// lbType decodes what is chosen among.
func lbType(p *parser, c *Config, at string, v value) {
	if v.kind == kindNull || v.kind == kindString && v.text == "" {
		p.takenAs(at, v, strconv.Quote(typeEndpoint))
		return
	}
	if name, ok := p.oneOf([]string{typeEndpoint, typeCluster}, at, v); ok {
		c.Type = name
	}
}
