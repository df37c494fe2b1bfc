// Package clusters has the scenes at a gateway that chooses among three clusters: one of them dies, is slow or fails.
package clusters

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/chaos/gateway"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// Stage returns the gateway with its scenes.
func Stage() lab.Stage {
	s := &gateway.Stage{Usual: choosing(leastBusy, inside)}
	return lab.Stage{
		Heal: s.Heal, Audit: audited, Close: s.Close,
		Open: func(ctx context.Context, set *lab.Settings) *audit.Site { return s.Open(ctx, set, options()) },
		Scenes: []lab.Scene{
			{Name: "cluster dies", Play: dies},
			{Name: "cluster slow", Play: slow},
			{Name: "cluster fails at once", Play: fails},
			{Name: "target cluster forged", Play: func(a *lab.Act) { forged(a, s.Beside) }},
			{Name: "clusters and policies at random", Play: atRandom},
		},
	}
}

// siteNames are the clusters that are chosen among. Each has so many servers; the route's own cluster has all of them.
var siteNames = []string{"llm-a", "llm-b", "llm-c"}

const (
	serversOfSite = 2
	// agreeWithin is after what time gauges, which are up to a second old, are right on a busy machine.
	agreeWithin = 20 * time.Second
)

// Members of a configuration that chooses among the clusters: how, and what happens inside the one that is chosen.
const (
	leastBusy     = `"lb_policy":"cluster_metrics","lb_config":{"mode":"LeastBusy",`
	adaptiveScore = `"lb_policy":"cluster_metrics","lb_config":{"mode":"AdaptiveScore",`
	leastLatency  = `"lb_policy":"cluster_metrics","lb_config":{"mode":"LeastTotalLatency",`
	leastRequest  = `"lb_policy":"global_least_request","lb_config":{`
	byPrefix      = `"lb_policy":"prefix_cache","lb_config":{`
	bySession     = `"lb_policy":"consistent_hash","lb_config":{"session":{"key":["client_address"]},`
	inside        = `"endpoint":{"lb_policy":"global_least_request"},`
	// elsewhere has retries go to another cluster: each name is that of clusters of which it is the first.
	elsewhere = `"first_clusters":{"llm-a-first":"llm-a","llm-b-first":"llm-b","llm-c-first":"llm-c"},`
)

// choosing returns a configuration that chooses among the clusters. One that has failed is tried again after a second.
func choosing(how, then string) string {
	names := `["llm-a","llm-b","llm-c"]`
	if then == elsewhere {
		names = `["llm-a-first","llm-b-first","llm-c-first"]`
	}
	return `{"lb_type":"cluster",` + how + `"service_list":` + names + `,"health":{"ejection_time":"1s"},` + then +
		`"debug_headers":true,"envoy":{"admin_cluster":"warmgate-admin","poll_interval":"200ms"}}}`
}

// aggregate is the cluster that begins with one of the sites, as docs/clusters.md has it.
const aggregate = `
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: %s-first
  connect_timeout: 1s
  lb_policy: CLUSTER_PROVIDED
  circuit_breakers: {thresholds: [{max_retries: 65536}]}
  cluster_type:
    name: envoy.clusters.aggregate
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.clusters.aggregate.v3.ClusterConfig
      clusters: [%s]`

// retryElsewhere is the member of a retry policy with which a retry goes to another cluster of an aggregate.
var retryElsewhere = map[string]any{
	"name":         "envoy.retry_priorities.previous_priorities",
	"typed_config": map[string]any{"@type": "type.googleapis.com/" + previousPriorities, "update_frequency": 1},
}

const previousPriorities = "envoy.extensions.retry.priority.previous_priorities.v3.PreviousPrioritiesConfig"

// options are those of a site whose gateway chooses among the clusters.
func options() audit.Options {
	parts := lab.ReadParts("sites.yaml")
	addrs := lab.FreeAddrs(len(siteNames) * serversOfSite)
	return audit.Options{
		Servers: len(addrs), Addrs: addrs, Clusters: append([]string{"llm"}, siteNames...),
		Edit: func(file string, doc *yaml.Node) error {
			switch file {
			case "envoy.yaml":
				if err := parts.AddRoutes(doc); err != nil {
					return err
				}
				return harness.Set(doc, harness.RoutesPath+"[0].route.retry_policy.retry_priority", retryElsewhere)
			case "clusters.yaml":
				return addSites(doc, parts, addrs)
			}
			return nil
		},
	}
}

// addSites adds the sites, each with its servers, and those that begin with one of them.
func addSites(doc *yaml.Node, parts *lab.Parts, addrs []string) error {
	var all []map[string]any
	more := ""
	for i, name := range siteNames {
		all = append(all, parts.Cluster(0, name, addrs[i*serversOfSite:(i+1)*serversOfSite]...))
		more += fmt.Sprintf(aggregate, name, strings.Join(slices.Concat(siteNames[i:], siteNames[:i]), ", "))
	}
	return lab.AddClusters(doc, all, more)
}

// serversOf returns the servers of a cluster.
func serversOf(a *lab.Act, i int) []*vllmsim.Server {
	return a.Site.Servers()[i*serversOfSite : (i+1)*serversOfSite]
}

// setSite changes all servers of a cluster.
func setSite(a *lab.Act, i int, m vllmsim.Mode) {
	for _, srv := range serversOf(a, i) {
		lab.Check(srv.SetMode(m))
	}
}

// audited waits until each cluster counts the streams that clients have open there, and nothing else.
func audited(a *lab.Act) {
	want := map[string]float64{}
	for addr, n := range a.Streams.Open() {
		i := slices.IndexFunc(a.Site.Servers(), func(srv *vllmsim.Server) bool { return srv.Addr() == addr })
		want[siteNames[i/serversOfSite]] += float64(n.Counted)
	}
	a.Within(agreeWithin, func() {
		got := map[string]float64{}
		for name, n := range lab.Must(a.Site.Gateway.Stats(a.Ctx,
			`^wasmcustom\.warmgate_inflight_requests;cluster=clusters/`)) {
			got[name[strings.LastIndexByte(name, '=')+1:]] += n
		}
		for _, name := range siteNames {
			lab.FailIf(got[name] != want[name] || got[name+"-first"] != 0,
				"the plugin counts %v in the clusters, their clients %v", got, want)
		}
	})
}
