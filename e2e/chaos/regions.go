package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/faultproxy"
	"github.com/warmgate/warmgate/e2e/freeport"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/wait"
)

// world is regions that help each other. Most clients are in the first one.
type world struct {
	regions []*region
	wires   [][]*faultproxy.Proxy // from the gateway of one region to that of another; nil from one to itself
	liar    *liar
	sites   *shippedSites
	leaked  atomic.Int64 // hops that have reached a server
}

// region is a gateway, at the same port after a restart, and the servers of its own.
type region struct {
	*audit.Site
	name    string
	port    int
	addrs   []string       // of its servers
	streams *audit.Streams // nil while none are open
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
	goneAfter, steadyAfter = 2 * time.Second, 3 * time.Second
	regionCluster          = `
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: to-%[1]s
  type: STATIC
  connect_timeout: 1s
  load_assignment:
    cluster_name: to-%[1]s
    endpoints:
    - lb_endpoints:
      - endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %[2]s}}}`
)

// regionConfig is the plugin's in a region with the given peers. No request waits too long.
func regionConfig(name string, peers ...string) string {
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
			list = append(list, fmt.Sprintf(`{"name":%q,"cluster":"to-%[1]s","rtt":"%s"%s}`, peer, rtt, adopt))
		}
	}
	return fmt.Sprintf(`{"lb_policy":"prefix_cache","lb_config":{"debug_headers":true,"max_inflight":%d,`+
		`"queue":{"max_wait":"1h","max_length":20000},"regions":{"name":%q,"cluster":%q,"peers":[%s],"secret":%q,`+
		`"gone":"%s","steady":"%s"},`+
		`"envoy":{"admin_cluster":"warmgate-admin","poll_interval":"200ms"}}}`,
		regionTakes, name, scope, strings.Join(list, ","), regionSecret, goneAfter, steadyAfter)
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

// openWorld starts the regions, each of which reaches each other one by a wire of its own. What it has started comes
// with an error, too.
func openWorld(ctx context.Context, s settings) (w *world, err error) {
	w = &world{}
	if w.sites, err = readSites(); err != nil {
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
	for _, from := range w.regions {
		var wires []*faultproxy.Proxy
		for _, to := range w.regions {
			var wire *faultproxy.Proxy
			if from != to {
				if wire, err = faultproxy.Start(ctx, "127.0.0.1:"+strconv.Itoa(to.port)); err != nil {
					return w, err
				}
			}
			wires = append(wires, wire)
		}
		w.wires = append(w.wires, wires)
	}
	clusters := []string{scope}
	for _, name := range regionNames {
		clusters = append(clusters, adoptedFrom(name))
	}
	err = wait.All(len(w.regions), func(i int) (err error) {
		r := w.regions[i]
		r.Site, err = audit.Open(ctx, audit.Options{
			Servers: regionServers, Addrs: r.addrs, Workers: s.workers, Version: s.version, Clusters: clusters,
			Config: regionConfig(r.name, regionNames...), Watch: w.watch, Edit: w.edit(i),
		})
		return err
	})
	return w, err
}

// watch is called with what reaches a server.
func (w *world) watch(r *http.Request) func() {
	if len(r.Header.Values(hopHeader)) > 0 {
		w.leaked.Add(1)
	}
	return func() {}
}

// edit returns an edit that adds to the shipped files what docs/regions.md says.
func (w *world) edit(i int) func(file string, doc *yaml.Node) error {
	return func(file string, doc *yaml.Node) error {
		switch file {
		case "envoy.yaml":
			const at = "static_resources.listeners[name=main].address.socket_address.port_value"
			return errors.Join(harness.Set(doc, at, w.regions[i].port), w.sites.routes(doc))
		case "clusters.yaml":
			_, port, err := net.SplitHostPort(w.liar.addr)
			if err != nil {
				return err
			}
			more := fmt.Sprintf(regionCluster, liarName, port)
			var servers []map[string]any
			for to, wire := range w.wires[i] {
				if wire == nil {
					continue
				}
				c, err := w.sites.cluster(adoptedFrom(w.regions[to].name), w.regions[to].addrs)
				if err != nil {
					return err
				}
				servers = append(servers, c)
				if _, port, err = net.SplitHostPort(wire.Addr()); err != nil {
					return err
				}
				more += fmt.Sprintf(regionCluster, w.regions[to].name, port)
			}
			text, err := yaml.Marshal(servers)
			if err != nil {
				return err
			}
			return harness.Insert(doc, "resources", "", 1, string(text)+more)
		}
		return nil
	}
}

// The third region is far from the second, so that the first one adopts the servers of that.
const (
	farName         = "ap"
	nearRTT, farRTT = 20 * time.Millisecond, 120 * time.Millisecond
)

// heal repairs all wires and puts the usual configuration in force everywhere.
func (w *world) heal(ctx context.Context) error {
	for _, wires := range w.wires {
		for _, wire := range wires {
			if wire == nil {
				continue
			}
			if err := wire.Set(faultproxy.Pass()); err != nil {
				return err
			}
		}
	}
	if err := w.wires[2][1].Set(faultproxy.Wire(farRTT / 2)); err != nil {
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
	for _, wires := range w.wires {
		for _, wire := range wires {
			if wire != nil {
				wire.Stop()
			}
		}
	}
	if w.liar != nil {
		errs = append(errs, w.liar.Close())
	}
	return errors.Join(errs...)
}

// sum adds up a statistic of the plugin in all regions.
func (w *world) sum(ctx context.Context, name string) (sum float64, err error) {
	for _, r := range w.regions {
		n, err := r.stat(ctx, name)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// stat returns a statistic of the plugin in a region, all labels together that begin with those given.
func (r *region) stat(ctx context.Context, name string) (float64, error) {
	return r.Gateway.Sum(ctx, `^wasmcustom\.warmgate_region_`+name)
}

// forwarded returns how many requests a region has forwarded to another one, "" for all others.
func (r *region) forwarded(ctx context.Context, to string) (float64, error) {
	name := "forwarded_total;"
	if to != "" {
		name += "region=" + to + ";"
	}
	return r.stat(ctx, name)
}
