package main

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/freeport"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/vllmsim"
)

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

// shippedParts is a file of envoy-config by which a route takes its cluster from a header: sites.yaml or regions.yaml.
type shippedParts struct {
	Early    yaml.Node `yaml:"early_header_mutation_extensions"`
	Routes   yaml.Node
	Clusters []map[string]any
}

func readParts(name string) (*shippedParts, error) {
	root, err := harness.Root()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, "envoy-config", name))
	if err != nil {
		return nil, err
	}
	s := new(shippedParts)
	return s, yaml.Unmarshal(text, s)
}

// routes adds the route, and removes the header of clients before it is selected.
func (s *shippedParts) routes(doc *yaml.Node) error {
	if err := harness.Set(doc, harness.ManagerPath+".early_header_mutation_extensions", &s.Early); err != nil {
		return err
	}
	text, err := yaml.Marshal(&s.Routes)
	if err != nil {
		return err
	}
	return harness.Insert(doc, harness.RoutesPath, "", 0, string(text))
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

// cluster returns a cluster of the addresses, in everything else like one of those that are shipped.
func (s *shippedParts) cluster(like int, name string, addrs ...string) (map[string]any, error) {
	c := maps.Clone(s.Clusters[like])
	var hosts []any
	for _, addr := range addrs {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, map[string]any{"endpoint": map[string]any{"address": map[string]any{
			"socket_address": map[string]any{"address": host, "port_value": port},
		}}})
	}
	c["name"] = name
	c["load_assignment"] = map[string]any{
		"cluster_name": name, "endpoints": []any{map[string]any{"lb_endpoints": hosts}},
	}
	return c, nil
}

// clusters adds the sites, each with its servers, and those that begin with one of them.
func (s *shippedParts) clusters(doc *yaml.Node, addrs []string) error {
	var all []map[string]any
	more := ""
	for i, name := range siteNames {
		c, err := s.cluster(0, name, addrs[i*serversOfSite:(i+1)*serversOfSite]...)
		if err != nil {
			return err
		}
		all = append(all, c)
		more += fmt.Sprintf(aggregate, name, strings.Join(slices.Concat(siteNames[i:], siteNames[:i]), ", "))
	}
	text, err := yaml.Marshal(all)
	if err != nil {
		return err
	}
	return harness.Insert(doc, "resources", "", 1, string(text)+more)
}

// freeAddrs returns addresses for servers that come back at the same ones.
func freeAddrs(n int) (addrs []string, err error) {
	for range n {
		port, err := freeport.Get()
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, "127.0.0.1:"+strconv.Itoa(port))
	}
	return addrs, nil
}

// addSites makes of a site one whose gateway chooses among the clusters.
func addSites(o *audit.Options) error {
	sites, err := readParts("sites.yaml")
	if err != nil {
		return err
	}
	o.Servers = len(siteNames) * serversOfSite
	if o.Addrs, err = freeAddrs(o.Servers); err != nil {
		return err
	}
	o.Clusters = append([]string{scope}, siteNames...)
	beside, addrs := o.Edit, o.Addrs
	o.Edit = func(file string, doc *yaml.Node) error {
		switch file {
		case "envoy.yaml":
			if err := sites.routes(doc); err != nil {
				return err
			}
			at := harness.RoutesPath + "[0].route.retry_policy.retry_priority"
			if err := harness.Set(doc, at, retryElsewhere); err != nil {
				return err
			}
		case "clusters.yaml":
			if err := sites.clusters(doc, addrs); err != nil {
				return err
			}
		}
		return beside(file, doc)
	}
	return nil
}

// serversOf returns the servers of a cluster.
func (a *act) serversOf(i int) []*vllmsim.Server {
	return a.site.Servers()[i*serversOfSite : (i+1)*serversOfSite]
}

// setSite changes all servers of a cluster.
func (a *act) setSite(i int, m vllmsim.Mode) error {
	for _, srv := range a.serversOf(i) {
		if err := srv.SetMode(m); err != nil {
			return err
		}
	}
	return nil
}

// auditClusters waits until each cluster counts the streams that clients have open there, and nothing else.
func (a *act) auditClusters() error {
	want := map[string]float64{}
	if a.streams != nil {
		for addr, n := range a.streams.Open() {
			i := slices.IndexFunc(a.site.Servers(), func(srv *vllmsim.Server) bool { return srv.Addr() == addr })
			want[siteNames[i/serversOfSite]] += float64(n.Counted)
		}
	}
	return a.until(agreeWithin, func() error {
		stats, err := a.site.Gateway.Stats(a.ctx, `^wasmcustom\.warmgate_inflight_requests;cluster=clusters/`)
		if err != nil {
			return err
		}
		got := map[string]float64{}
		for name, n := range stats {
			got[name[strings.LastIndexByte(name, '=')+1:]] += n
		}
		for _, name := range siteNames {
			if got[name] != want[name] || got[name+"-first"] != 0 {
				return fmt.Errorf("the plugin counts %v in the clusters, their clients %v", got, want)
			}
		}
		return nil
	})
}
