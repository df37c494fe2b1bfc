package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/freeport"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/wait"
	lbregion "github.com/warmgate/warmgate/lb/region"
)

// world is regions that help each other. Most clients are in the first one.
type world struct {
	regions []*region
	wires   [][]wires // from one region to another; none from one to itself
	liar    *liar
	parts   *shippedParts
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
	port    int
	addrs   []string       // of its servers
	streams *audit.Streams // nil while none are open
	// base is where counters stood when the scene began, less what gateways have counted that have ended since.
	base map[string]float64
	// ownHops and otherHops count hops that have reached one of its servers: that it has signed, and any others.
	ownHops, otherHops atomic.Int64
}

var regionNames = []string{"us", "eu", "ap"}

const (
	liarName      = "liar" // a region that is a peer in some scenes only
	regionSecret  = "0123456789abcdef"
	regionServers = 2
	// regionTakes is how many requests a server takes at once, the streams that are open during a scene included.
	regionTakes   = 6
	regionStreams = 4
	// goneAfter is after what time a region's gateways count as gone, steadyAfter when they have their servers back.
	// Those that live must not be so late on a busy machine.
	goneAfter, steadyAfter = 5 * time.Second, 3 * time.Second
)

// regionConfig is the plugin's in a region with the given peers. No request waits too long.
func regionConfig(name string, peers ...string) string {
	return regionConfigWith(goneAfter, name, peers...)
}

// regionConfigWith is the same where gateways count as gone after another time.
func regionConfigWith(gone time.Duration, name string, peers ...string) string {
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
		`"queue":{"max_wait":"1h","max_length":20000},"regions":{"name":%q,"cluster":%q,"peers":[%s],"secret":%q,`+
		`"gone":"%s","steady":"%s"},`+
		`"envoy":{"admin_cluster":"warmgate-admin","poll_interval":"200ms"}}}`,
		regionTakes, name, scope, strings.Join(list, ","), regionSecret, gone, steadyAfter)
}

// allow changes such a configuration so that requests may leave for the given regions only.
func allow(config string, names ...string) string {
	list, err := json.Marshal(append([]string{}, names...))
	if err != nil {
		panic(err) // strings always marshal
	}
	return strings.Replace(config, `"secret"`, `"allowed":`+string(list)+`,"secret"`, 1)
}

// adoptedFrom is the cluster of a region's servers in other regions.
func adoptedFrom(name string) string { return name + "-servers" }

// openWorld starts the regions, and ends them if that fails.
func (p *place) openWorld(ctx context.Context, s settings) (err error) {
	if p.world, err = openWorld(ctx, s); err != nil {
		return errors.Join(err, p.close())
	}
	p.site = p.world.regions[0].Site
	return nil
}

// openWorld starts the regions, each of which reaches each other one by a wire of its own, and waits until they have
// found each other. What it has started comes with an error, too.
func openWorld(ctx context.Context, s settings) (w *world, err error) {
	w = &world{}
	if w.parts, err = readParts("regions.yaml"); err != nil {
		return w, err
	}
	if w.liar, err = newLiar(); err != nil {
		return w, err
	}
	for _, name := range regionNames {
		port, err := freeport.Get()
		if err != nil {
			return w, err
		}
		addrs, err := freeAddrs(regionServers)
		if err != nil {
			return w, err
		}
		w.regions = append(w.regions, &region{name: name, port: port, addrs: addrs})
	}
	if err := w.openWires(ctx); err != nil {
		return w, err
	}
	clusters := []string{scope}
	for _, name := range regionNames {
		clusters = append(clusters, adoptedFrom(name))
	}
	err = wait.All(len(w.regions), func(i int) (err error) {
		r := w.regions[i]
		r.Site, err = audit.Open(ctx, audit.Options{
			Servers: regionServers, Addrs: r.addrs, Workers: s.workers, Version: s.version, Clusters: clusters,
			Config: regionConfig(r.name, regionNames...), Watch: r.watch, Edit: w.edit(i),
		})
		return err
	})
	if err == nil {
		err = w.meet(ctx)
	}
	return w, err
}

// meet waits until each region has heard each other one for so long without a gap that it takes none for gone: those
// that were started first may have done so, and who has adopted servers gives them back only then.
func (w *world) meet(ctx context.Context) error {
	began := time.Now()
	return wait.Until(ctx, 50*time.Millisecond, func() error {
		for _, by := range w.regions {
			for _, of := range w.regions {
				if by == of {
					continue
				}
				hears, err := by.hears(ctx, of)
				if err != nil {
					return err
				}
				if !hears {
					began = time.Now()
				}
			}
		}
		// What a region hears it says each second, and an answer may take as long.
		if together := time.Since(began); together < steadyAfter+3*time.Second {
			return fmt.Errorf("the regions have heard each other for %v", together)
		}
		return nil
	})
}

// edit returns an edit that adds what is shipped for regions.
func (w *world) edit(i int) func(file string, doc *yaml.Node) error {
	return func(file string, doc *yaml.Node) error {
		switch file {
		case "envoy.yaml":
			const at = "static_resources.listeners[name=main].address.socket_address.port_value"
			return errors.Join(harness.Set(doc, at, w.regions[i].port), w.parts.routes(doc))
		case "clusters.yaml":
			all, err := w.peerClusters(liarName, w.liar.addr, nil)
			if err != nil {
				return err
			}
			for to := range w.regions {
				if to == i {
					continue
				}
				way := &w.wires[i][to]
				more, err := w.peerClusters(w.regions[to].name, way.gateway.Addr(), way.addrs())
				if err != nil {
					return err
				}
				all = append(all, more...)
			}
			text, err := yaml.Marshal(all)
			if err != nil {
				return err
			}
			return harness.Insert(doc, "resources", "", 1, string(text))
		}
		return nil
	}
}

// peerClusters returns the clusters of another region: of its gateway, of that and home, and of its servers.
func (w *world) peerClusters(name, gateway string, servers []string) ([]map[string]any, error) {
	to, err := w.parts.cluster(0, "to-"+name, gateway)
	if err != nil {
		return nil, err
	}
	orHome := maps.Clone(w.parts.Clusters[1])
	orHome["name"] = name + "-or-home"
	kind := maps.Clone(orHome["cluster_type"].(map[string]any))
	typed := maps.Clone(kind["typed_config"].(map[string]any))
	typed["clusters"] = []string{"to-" + name, scope}
	kind["typed_config"], orHome["cluster_type"] = typed, kind
	own, err := w.parts.cluster(2, adoptedFrom(name), servers...)
	return []map[string]any{to, orHome, own}, err
}

// The third region is far from the second, so that the first one adopts the servers of that.
const (
	farName         = "ap"
	nearRTT, farRTT = 20 * time.Millisecond, 120 * time.Millisecond
)

// heal repairs all wires and puts the usual configuration in force everywhere.
func (w *world) heal(ctx context.Context) error {
	if err := w.mend(); err != nil {
		return err
	}
	return wait.All(len(w.regions), func(i int) error {
		r := w.regions[i]
		if err := r.Gateway.PushPlugin(ctx, regionConfig(r.name, regionNames...)); err != nil {
			return err
		}
		return r.AwaitReady(ctx)
	})
}

func (w *world) close() error {
	var errs []error
	for _, r := range w.regions {
		if r.Site != nil {
			errs = append(errs, r.Site.Close())
		}
	}
	for i := range w.wires {
		for j := range w.wires[i] {
			for _, wire := range w.wires[i][j].all() {
				wire.Stop()
			}
		}
	}
	if w.liar != nil {
		errs = append(errs, w.liar.Close())
	}
	return errors.Join(errs...)
}

// stat returns a statistic of the plugin in a region, all labels together that begin with those given.
func (r *region) stat(ctx context.Context, name string) (float64, error) {
	return r.Gateway.Sum(ctx, `^wasmcustom\.warmgate_region_`+name)
}

// age returns how long ago a region has heard another one, as it last said: each second.
func (r *region) age(ctx context.Context, of *region) (time.Duration, error) {
	ms, err := r.stat(ctx, "probe_age_ms;region="+of.name+"$")
	return time.Duration(ms) * time.Millisecond, err
}

// hears reports whether a region hears another one's gateway, and leaves its servers to it.
func (r *region) hears(ctx context.Context, of *region) (bool, error) {
	age, err := r.age(ctx, of)
	adopted, err2 := r.stat(ctx, "adopted;region="+of.name+"$")
	open, err3 := r.stat(ctx, "available;region="+of.name+"$")
	return open == 1 && adopted == 0 && age < lbregion.Timeout, errors.Join(err, err2, err3)
}

// forwarded returns how many requests a region has forwarded to another one, "" for all others.
func (r *region) forwarded(ctx context.Context, to string) (float64, error) {
	name := "forwarded_total;"
	if to != "" {
		name += "region=" + to + ";"
	}
	return r.stat(ctx, name)
}
