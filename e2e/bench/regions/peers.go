package regions

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/wait"
)

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
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
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

// targetHeader names the cluster that the plugin wants.
const targetHeader = "x-higress-target-cluster"

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
	if err := harness.Set(doc, route+".route.cluster_header", targetHeader); err != nil {
		return err
	}
	return harness.Set(doc, route+".match.headers", []any{map[string]any{"name": targetHeader, "present_match": true}})
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
