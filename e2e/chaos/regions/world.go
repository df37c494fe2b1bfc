package regions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/faultproxy"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/lab"
)

// world is regions that help each other. Most clients are in the first one.
type world struct {
	regions []*region
	wires   [][]wires // from one region to another; none from one to itself
	liar    *liar
	parts   *lab.Parts
	// What holds in the scene that is played: there is little to forward, or nothing may be.
	little, alone bool

	traffic []*audit.Traffic // of each region's clients, in that scene

	mu      sync.Mutex
	excuses []excuse // in that scene
}

// region is a gateway, at the same port after a restart, and the servers of its own.
type region struct {
	*audit.Site
	name    string
	addr    string         // of the gateway
	addrs   []string       // of its servers
	streams *audit.Streams // nil while none are open
	// base is where counters stood when the scene began, less what gateways have counted that have ended since.
	base map[string]float64
	// ownHops and otherHops count hops that have reached one of its servers: that it has signed, and any others.
	ownHops, otherHops atomic.Int64
}

// wires are the ways from one region to another.
type wires struct {
	gateway *faultproxy.Proxy
	servers []*faultproxy.Proxy // one for each: what adopts them reaches them by these
}

var regionNames = []string{"us", "eu", "ap"}

const (
	// Servers is how many servers a region has.
	Servers = 2
	// Takes is how many requests a server takes at once, the streams that are open during a scene included.
	Takes         = 6
	regionStreams = 4
	// goneAfter is after what time a region's gateways count as gone, steadyAfter when they have their servers back.
	// Those that live must not be so late on a busy machine.
	goneAfter, steadyAfter = 5 * time.Second, 3 * time.Second
	// The third region is far from the second, so that the first one adopts the servers of that.
	farName         = "ap"
	nearRTT, farRTT = 20 * time.Millisecond, 120 * time.Millisecond
)

// regionConfig is the plugin's in a region with the given peers, or the other regions without any. No request waits too
// long.
func regionConfig(name string, peers ...string) string {
	return regionConfigWith(goneAfter, name, peers...)
}

// regionConfigWith is the same where gateways count as gone after another time.
func regionConfigWith(gone time.Duration, name string, peers ...string) string {
	if len(peers) == 0 {
		peers = regionNames
	}
	var list []string
	for _, peer := range peers {
		if peer != name {
			adopt := fmt.Sprintf(`,"adopt":{"cluster":%q}`, adoptedFrom(peer))
			if peer == liarName {
				adopt = ""
			}
			rtt := nearRTT
			if name == farName && peer == regionNames[1] {
				rtt = farRTT
			}
			list = append(list, fmt.Sprintf(
				`{"name":"%[1]s","cluster":"to-%[1]s","forward_cluster":"%[1]s-or-home","rtt":"%[2]s"%[3]s}`, peer, rtt, adopt))
		}
	}
	return fmt.Sprintf(`{"lb_policy":"prefix_cache","lb_config":{"debug_headers":true,"max_inflight":%d,`+
		`"queue":{"max_wait":"1h","max_length":20000},"regions":{"name":%q,"cluster":"llm","peers":[%s],"secret":%q,`+
		`"gone":"%s","steady":"%s"},`+
		`"envoy":{"admin_cluster":"warmgate-admin","poll_interval":"200ms"}}}`,
		Takes, name, strings.Join(list, ","), regionSecret, gone, steadyAfter)
}

// allow changes such a configuration so that requests may leave for the given regions only.
func allow(config string, names ...string) string {
	list := lab.Must(json.Marshal(append([]string{}, names...)))
	return strings.Replace(config, `"secret"`, `"allowed":`+string(list)+`,"secret"`, 1)
}

// adoptedFrom is the cluster of a region's servers in other regions.
func adoptedFrom(name string) string { return name + "-servers" }

// push gives a region's plugin a configuration.
func (r *region) push(a *lab.Act, config string) { lab.Check(r.Gateway.PushPlugin(a.Ctx, config)) }

// open starts the regions, each of which reaches each other one by a wire of its own, and waits until they have found
// each other.
func (w *world) open(ctx context.Context, s *lab.Settings) *audit.Site {
	w.parts, w.liar = lab.ReadParts("regions.yaml"), newLiar()
	clusters := []string{"llm"}
	for _, name := range regionNames {
		w.regions = append(w.regions, &region{
			name: name, addr: lab.FreeAddrs(1)[0], addrs: lab.FreeAddrs(Servers),
		})
		clusters = append(clusters, adoptedFrom(name))
	}
	w.openWires(ctx)
	lab.All(len(w.regions), func(i int) {
		r := w.regions[i]
		r.Site = s.Site(ctx, audit.Options{
			Servers: Servers, Addrs: r.addrs, Clusters: clusters, Config: regionConfig(r.name), Watch: r.sees,
			Edit: w.edit(i),
		})
	})
	w.meet(&lab.Act{Ctx: ctx})
	return w.regions[0].Site
}

// meet waits until each region has heard each other one for so long without a gap that it takes none for gone: those
// that were started first may have done so, and who has adopted servers gives them back only then.
func (w *world) meet(a *lab.Act) {
	began := time.Now()
	a.Until(func() {
		for _, by := range w.regions {
			for _, of := range w.regions {
				if by != of && !by.hears(a.Ctx, of) {
					began = time.Now()
				}
			}
		}
		// What a region hears it says each second, and an answer may take as long.
		together := time.Since(began)
		lab.FailIf(together < steadyAfter+3*time.Second, "the regions have heard each other for %v", together)
	})
}

// edit returns an edit that adds what is shipped for regions.
func (w *world) edit(i int) func(file string, doc *yaml.Node) error {
	return func(file string, doc *yaml.Node) error {
		switch file {
		case "envoy.yaml":
			const at = "static_resources.listeners[name=main].address.socket_address.port_value"
			_, port, _ := strings.Cut(w.regions[i].addr, ":")
			n, err := strconv.Atoi(port)
			return errors.Join(err, harness.Set(doc, at, n), w.parts.AddRoutes(doc))
		case "clusters.yaml":
			all := w.peerClusters(liarName, w.liar.addr(), nil)
			for to, way := range w.wires[i] {
				if to != i {
					all = append(all, w.peerClusters(w.regions[to].name, way.gateway.Addr(), way.servers)...)
				}
			}
			return lab.AddClusters(doc, all, "")
		}
		return nil
	}
}

// peerClusters returns the clusters of another region: of its gateway, of that and home, and of its servers.
func (w *world) peerClusters(name, gateway string, servers []*faultproxy.Proxy) []map[string]any {
	to := w.parts.Cluster(0, "to-"+name, gateway)
	orHome := maps.Clone(w.parts.Clusters[1])
	orHome["name"] = name + "-or-home"
	kind := maps.Clone(orHome["cluster_type"].(map[string]any))
	typed := maps.Clone(kind["typed_config"].(map[string]any))
	typed["clusters"] = []string{"to-" + name, "llm"}
	kind["typed_config"], orHome["cluster_type"] = typed, kind
	var addrs []string
	for _, wire := range servers {
		addrs = append(addrs, wire.Addr())
	}
	return []map[string]any{to, orHome, w.parts.Cluster(2, adoptedFrom(name), addrs...)}
}

// heal repairs all wires and puts the usual configuration in force everywhere.
func (w *world) heal(a *lab.Act) {
	w.mend()
	lab.All(len(w.regions), func(i int) {
		r := w.regions[i]
		r.push(a, regionConfig(r.name))
		lab.Check(r.AwaitReady(a.Ctx))
	})
}

func (w *world) close() error {
	var errs []error
	for _, r := range w.regions {
		if r.Site != nil {
			errs = append(errs, r.Site.Close())
		}
	}
	for _, from := range w.wires {
		for _, way := range from {
			for _, wire := range way.all() {
				wire.Stop()
			}
		}
	}
	if w.liar != nil {
		w.liar.Close()
	}
	return errors.Join(errs...)
}

// openWires starts the ways from each region to each other one.
func (w *world) openWires(ctx context.Context) {
	start := func(addr string) *faultproxy.Proxy { return lab.Must(faultproxy.Start(ctx, addr)) }
	for _, from := range w.regions {
		ways := make([]wires, len(w.regions))
		w.wires = append(w.wires, ways)
		for i, to := range w.regions {
			if from == to {
				continue
			}
			ways[i].gateway = start(to.addr)
			for _, addr := range to.addrs {
				ways[i].servers = append(ways[i].servers, start(addr))
			}
		}
	}
}

// all returns the wires to a region's gateway and to its servers.
func (way *wires) all() []*faultproxy.Proxy {
	if way.gateway == nil {
		return nil
	}
	return append([]*faultproxy.Proxy{way.gateway}, way.servers...)
}

// setWires changes the wires between the gateways of the first region and of the second: to it, and back.
func (w *world) setWires(there, back faultproxy.Mode) {
	lab.Check(w.wires[0][1].gateway.Set(there), w.wires[1][0].gateway.Set(back))
}

// cutOff has nothing come through between a region's gateway and the others'. With servers, those of others are not
// reached from either side.
func (w *world) cutOff(i int, servers bool) {
	for j := range w.regions {
		if j == i {
			continue
		}
		there, back := &w.wires[i][j], &w.wires[j][i]
		lab.Check(there.gateway.Set(faultproxy.Stall()), back.gateway.Set(faultproxy.Stall()))
		for _, wire := range slices.Concat(there.servers, back.servers) {
			if servers {
				lab.Check(wire.Set(faultproxy.Refuse()))
			}
		}
	}
}

// mend repairs all wires. The one from the third region to the second is long.
func (w *world) mend() {
	for i := range w.wires {
		for j := range w.wires[i] {
			for _, wire := range w.wires[i][j].all() {
				lab.Check(wire.Set(faultproxy.Pass()))
			}
		}
	}
	lab.Check(w.wires[2][1].gateway.Set(faultproxy.Wire(farRTT / 2)))
}
