package regions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/router"
	"github.com/warmgate/warmgate/e2e/faultproxy"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/wait"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// regions is their number, and names are what they are called. The first has the most users on the skewed load, and the
// central gateway.
const regions = 3

var names = [regions]string{"us", "eu", "asia"}

// stage is servers in each region, with a gateway there, and a central gateway in front of all of them. What goes from
// one region to another goes over a wire.
type stage struct {
	regions [regions]*compare.Stage
	central *compare.Stage
	fleet   *vllmsim.Fleet           // all servers
	servers []*vllmsim.Server        // likewise, by region
	seen    []string                 // ip:port of the servers for one in the first region
	peers   [regions][regions]string // ip:port of the gateway of a region for those in another; "" before it is there
	oneWay  time.Duration            // of each wire
	wires   []*faultproxy.Proxy      // from the first region to the servers of the others
	stop    context.CancelFunc
}

// newStage starts everything. Close ends it.
func newStage(ctx context.Context, s *settings, server vllmsim.Config) (st *stage, err error) {
	st = &stage{fleet: vllmsim.NewFleet(), oneWay: s.rtt / 2}
	wires, stop := context.WithCancel(ctx)
	st.stop = stop
	defer func() {
		if err != nil {
			err = errors.Join(err, st.close())
		}
	}()
	for i := range regions {
		st.regions[i], err = compare.NewStage(ctx, compare.Options{
			Workers: s.Workers, Servers: slices.Repeat([]vllmsim.Config{server}, servers),
			First: compare.RoundRobin, Fleet: st.fleet, Index: i * servers, Edit: st.edit(i),
		})
		if err != nil {
			return st, err
		}
		for _, srv := range st.regions[i].Servers {
			st.servers = append(st.servers, srv)
			if i == 0 {
				st.seen = append(st.seen, srv.Addr())
				continue
			}
			wire, err := faultproxy.Start(wires, srv.Addr())
			if err != nil {
				return st, err
			}
			st.seen, st.wires = append(st.seen, wire.Addr()), append(st.wires, wire)
		}
	}
	if err := st.connect(wires); err != nil {
		return st, err
	}
	st.central, err = compare.NewStage(ctx, compare.Options{
		Workers: s.Workers, Behind: st.seen, First: compare.RoundRobin,
	})
	return st, err
}

// from returns where one region finds what listens at addr in another: behind a wire, which ends with ctx, or, in the
// same region, right there.
func (st *stage) from(ctx context.Context, region, other int, addr string) (string, error) {
	if region == other {
		return addr, nil
	}
	wire, err := faultproxy.Start(ctx, addr)
	if err != nil {
		return "", err
	}
	return wire.Addr(), wire.Set(faultproxy.Wire(st.oneWay))
}

// lengthen sets how long the servers of the other regions are away from the first, one way.
func (st *stage) lengthen(oneWay time.Duration) error {
	var errs []error
	for _, w := range st.wires {
		errs = append(errs, w.Set(faultproxy.Wire(oneWay)))
	}
	return errors.Join(errs...)
}

func (st *stage) close() error {
	var errs []error
	for _, s := range append(st.regions[:], st.central) {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	st.stop()
	return errors.Join(errs...)
}

// gateways returns all, whether they are used or not.
func (st *stage) gateways() []*harness.Gateway {
	all := []*harness.Gateway{st.central.Gateway}
	for _, s := range st.regions {
		all = append(all, s.Gateway)
	}
	return all
}

// reset empties the servers.
func (st *stage) reset() {
	for _, s := range st.servers {
		s.Reset()
	}
	st.fleet.Reset()
}

// front is where the users of each region send to.
type front struct {
	urls [regions]string
	stop func() error
	log  func() string // what a router has logged
}

// begin has the contender take the requests of all regions. Gateways that it does not use rest without a plugin.
func (st *stage) begin(ctx context.Context, c *contender) (*front, error) {
	for i, s := range st.regions {
		p := compare.RoundRobin
		if !c.central {
			p = c.policy(i)
		}
		if err := errors.Join(s.Use(ctx, c.servers[i]), s.Switch(ctx, p)); err != nil {
			return nil, err
		}
	}
	if c.central {
		return st.beginCentral(ctx, c)
	}
	at := &front{stop: func() error { return nil }, log: func() string { return "" }}
	for i, s := range st.regions {
		at.urls[i] = s.Gateway.URL()
	}
	return at, st.central.Switch(ctx, compare.RoundRobin)
}

// beginCentral starts the one gateway or router, and the wires to it.
func (st *stage) beginCentral(ctx context.Context, c *contender) (*front, error) {
	var p compare.Policy
	if c.router == nil {
		p = c.policy(0)
	}
	oneWay := st.oneWay
	if c.near {
		oneWay = 0
	}
	if err := st.lengthen(oneWay); err != nil {
		return nil, err
	}
	center, err := router.Begin(ctx, st.central, p, c.router)
	if err != nil {
		return nil, err
	}
	wires, stop := context.WithCancel(ctx)
	at := &front{log: center.Log, stop: func() error { stop(); return center.Stop() }}
	if c.near {
		at.urls = [regions]string{center.URL, center.URL, center.URL}
		return at, nil
	}
	for i := range at.urls {
		addr, err := st.from(wires, i, 0, strings.TrimPrefix(center.URL, "http://"))
		if err != nil {
			return nil, errors.Join(err, at.stop())
		}
		at.urls[i] = "http://" + addr
	}
	return at, nil
}

// peerCluster is the cluster that leads to the gateway of another region.
func peerCluster(region int) string { return "warmgate-peer-" + names[region] }

// connect lays the wires from each gateway to those of the other regions. They are in its clusters from the next policy
// on.
func (st *stage) connect(ctx context.Context) (err error) {
	for from := range regions {
		for to := range regions {
			if from == to {
				continue
			}
			if st.peers[from][to], err = st.from(ctx, from, to, st.regions[to].Gateway.Addr()); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitPeers waits until each gateway can forward to the others.
func (st *stage) awaitPeers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, harness.Patience)
	defer cancel()
	return wait.Until(ctx, 100*time.Millisecond, func() error {
		for i, s := range st.regions {
			switch n, err := s.Gateway.Sum(ctx, "warmgate_region_available"); {
			case err != nil:
				return err
			case n != regions-1:
				return fmt.Errorf("%s: %v of %d peers are available", names[i], n, regions-1)
			}
		}
		return nil
	})
}

// edit prepares the files of a region's gateway, for all contenders: a route that takes the cluster from the header in
// front of the one that leads to the region's servers, and clusters that lead to the other gateways.
func (st *stage) edit(region int) func(file string, doc *yaml.Node) error {
	return func(file string, doc *yaml.Node) error {
		switch file {
		case "envoy.yaml":
			return addRoute(doc)
		case "clusters.yaml":
			for other, addr := range st.peers[region] {
				if addr == "" {
					continue
				}
				if err := addPeer(doc, peerCluster(other), addr); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// addRoute copies the route to the servers, with cluster_header in place of the cluster.
func addRoute(doc *yaml.Node) error {
	shipped, err := harness.Find(doc, harness.RoutesPath+"[name=llm]")
	if err != nil {
		return err
	}
	text, err := yaml.Marshal([]*yaml.Node{shipped})
	if err != nil {
		return err
	}
	if err := harness.Insert(doc, harness.RoutesPath, "", 0, string(text)); err != nil {
		return err
	}
	route := harness.RoutesPath + "[0]"
	if err := harness.Remove(doc, route+".route.cluster"); err != nil {
		return err
	}
	if err := harness.Set(doc, route+".route.cluster_header", bench.TargetHeader); err != nil {
		return err
	}
	return harness.Set(doc, route+".match.headers", []any{map[string]any{
		"name":          bench.TargetHeader,
		"present_match": true,
	}})
}

// addPeer adds a cluster with one gateway.
func addPeer(doc *yaml.Node, name, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	return harness.Insert(doc, "resources", "", 0, fmt.Sprintf(`
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: %[1]s
  type: STATIC
  connect_timeout: 1s
  load_assignment:
    cluster_name: %[1]s
    endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: %[2]s, port_value: %[3]s}}}}]}]
`, name, host, port))
}

// counts is how many requests were forwarded, by what [key] returns.
type counts map[string]float64

const forwardedStat = "warmgate_region_forwarded_total"

// forwarded reads how many requests the gateways have forwarded so far, by where from, where to and why.
func (st *stage) forwarded(ctx context.Context) (counts, error) {
	all := counts{}
	for i, s := range st.regions {
		stats, err := s.Gateway.Stats(ctx, forwardedStat)
		if err != nil {
			return nil, err
		}
		for name, n := range stats {
			all[key(names[i], name)] += n
		}
	}
	return all, nil
}

// key returns "us>eu prefix" for a region and the name of one of its gateway's counters.
func key(from, stat string) string {
	parts := strings.Split(stat, ";")
	for i := range parts {
		_, parts[i], _ = strings.Cut(parts[i], "=")
	}
	return from + ">" + strings.Join(parts[1:], " ")
}

// since returns what was added to earlier counts.
func (c counts) since(before counts) counts {
	added := counts{}
	for k, n := range c {
		if n > before[k] {
			added[k] = n - before[k]
		}
	}
	return added
}

// allForwarded sums up what was forwarded in several runs.
func allForwarded(runs []result) counts {
	sum := counts{}
	for i := range runs {
		for k, n := range runs[i].forwarded {
			sum[k] += n
		}
	}
	return sum
}

// String lists the counts.
func (c counts) String() string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(c)) {
		list = append(list, fmt.Sprintf("%s %.0f", k, c[k]))
	}
	return strings.Join(list, ", ")
}
