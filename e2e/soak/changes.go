package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// injected is the status that only servers with an injected failure answer with: such an answer is no failure of the
// gateway's.
const injected = 555

const (
	living   = 6 // clusters besides llm that requests are made to at a time
	lingered = 2 // turns between the last request to a cluster and its removal
)

// changer makes the changes of a run.
type changer struct {
	site *audit.Site
	rand *rand.Rand
	mix  *mix

	made   int // names so far
	failed int // servers made to fail so far
	sick   *vllmsim.Server
	since  time.Time // when it began to fail

	mu    sync.Mutex
	known []string // clusters besides llm that the gateway has, the oldest first
}

// edit makes the shipped files those of a run: a header names the cluster that serves a request.
func (c *changer) edit(file string, doc *yaml.Node) error {
	switch file {
	case "envoy.yaml":
		return addRoute(doc)
	case "clusters.yaml":
		return c.addClusters(doc)
	}
	return nil
}

// addRoute puts a route in front that leads to the cluster named in a header; all else is as on the shipped one.
func addRoute(doc *yaml.Node) error {
	routes, err := harness.Find(doc, harness.RoutesPath)
	if err != nil {
		return err
	}
	var list []map[string]any
	if err := routes.Decode(&list); err != nil {
		return err
	}
	var named map[string]any
	if err := routes.Content[0].Decode(&named); err != nil {
		return err
	}
	named["name"] = "named"
	present := map[string]any{"name": clusterHeader, "present_match": true}
	named["match"] = map[string]any{"prefix": "/", "headers": []any{present}}
	to := named["route"].(map[string]any)
	delete(to, "cluster")
	to["cluster_header"] = clusterHeader
	return harness.Set(doc, harness.RoutesPath, append([]map[string]any{named}, list...))
}

// addClusters adds the clusters that have come and not gone: like llm, with half of its servers.
func (c *changer) addClusters(doc *yaml.Node) error {
	list, err := harness.Find(doc, "resources")
	if err != nil {
		return err
	}
	for _, name := range c.names() {
		var cluster map[string]any
		if err := list.Content[0].Decode(&cluster); err != nil {
			return err
		}
		delete(cluster, "eds_cluster_config")
		cluster["name"], cluster["type"] = name, "STATIC"
		cluster["load_assignment"] = lab.Assignment(name, c.hosts(name)...)
		var node yaml.Node
		if err := node.Encode(cluster); err != nil {
			return err
		}
		list.Content = append(list.Content, &node)
	}
	return nil
}

// hosts returns the half of the servers that a cluster has, always the same.
func (c *changer) hosts(name string) (addrs []string) {
	for i, e := range c.site.Endpoints() {
		if (i+len(name)+int(name[len(name)-1]))%2 == 0 {
			addrs = append(addrs, e.Addr)
		}
	}
	return addrs
}

func (c *changer) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known
}

// turn brings one more cluster, and takes the oldest away once there are enough. It takes requests from it some time
// before.
func (c *changer) turn(ctx context.Context) error {
	c.made++
	list := append([]string(nil), c.names()...)
	if len(list) == living+lingered {
		list = list[1:]
	}
	list = append(list, fmt.Sprintf("llm-%d", c.made))
	c.mu.Lock()
	c.known = list
	c.mu.Unlock()
	if err := c.site.Gateway.PushCluster(ctx, harness.Warmgate); err != nil {
		return err
	}
	c.mix.use(list[max(0, len(list)-living):])
	return nil
}

// push replaces the plugin's configuration, or the list of the endpoints of llm.
func (c *changer) push(ctx context.Context) error {
	if c.rand.IntN(3) == 0 {
		return c.site.Gateway.PushPlugin(ctx, c.config())
	}
	all := c.site.Endpoints()
	return c.site.Gateway.PushEndpoints(ctx, lab.Pick(c.rand, all, 1+c.rand.IntN(len(all))))
}

const failing, failEvery = 3 * time.Second, 15 * time.Second

// fail makes one server after the other fail at once for a while.
func (c *changer) fail(now time.Time) error {
	switch {
	case c.sick == nil && now.Sub(c.since) >= failEvery:
		all := c.site.Servers()
		c.sick, c.since = all[c.rand.IntN(len(all))], now
		c.failed++
		return setMode(c.sick, vllmsim.ModeError)
	case c.sick != nil && now.Sub(c.since) >= failing:
		return c.heal()
	}
	return nil
}

func (c *changer) heal() error {
	if c.sick == nil {
		return nil
	}
	srv := c.sick
	c.sick = nil
	return setMode(srv, vllmsim.ModeOK)
}

func setMode(srv *vllmsim.Server, mode vllmsim.Mode) error {
	t := srv.Tuning()
	t.Mode, t.ErrorStatus = mode, injected
	return srv.SetTuning(t)
}

// parts are the policies and units that a configuration, or a rule of it, may have.
var parts = []struct{ policy, lines string }{
	{"global_least_request", `"unit":"requests"`},
	{"global_least_request", `"unit":"tokens"`},
	{"global_least_request", `"unit":"tokens","body_timeout":"30ms"`},
	{"global_least_request", `"shadow":true`},
	{"global_least_request", `"max_inflight":1000`},
	{"prefix_cache", `"prefix":{"tenant_header":"` + tenantHeader + `"}`},
	{"prefix_cache", `"prefix":{"tenant_header":"` + tenantHeader + `","credit":1}`},
	{"prefix_cache", `"unit":"tokens"`},
	{"endpoint_metrics", `"unit":"requests"`},
	{"endpoint_metrics", `"unit":"tokens"`},
	{"global_least_request", `"max_inflight":4,` + queue},
	{"global_least_request", `"max_inflight":4,"unit":"tokens",` + queue},
	{"prefix_cache", `"max_inflight":6,"push":"pending",` + queue},
}

// queue has requests wait that find no endpoint open, and never too long: few endpoints may be left for all of them.
const queue = `"queue":{"max_wait":"1h","max_length":20000,"tenant_header":"` + tenantHeader + `"}`

// config draws a configuration: one part for all, and two for some clusters.
func (c *changer) config() string {
	rules := make([]string, 0, 2)
	for _, name := range append(c.names(), "llm", "llm-0") {
		if len(rules) < 2 && c.rand.IntN(3) == 0 {
			rules = append(rules, `{"_match_service_":["`+name+`"],`+c.part()+`}`)
		}
	}
	text := `{` + c.part()
	if len(rules) > 0 {
		text += `,"_rules_":[` + strings.Join(rules, ",") + `]`
	}
	return text + `}`
}

func (c *changer) part() string {
	p := parts[c.rand.IntN(len(parts))]
	source := `"admin_cluster":"warmgate-admin"`
	if p.policy != "global_least_request" {
		source += `,"metrics_cluster":"warmgate-metrics"`
	}
	return `"lb_type":"endpoint","lb_policy":"` + p.policy +
		`","lb_config":{"debug_headers":true,"envoy":{` + source + `},` + p.lines + `}`
}
