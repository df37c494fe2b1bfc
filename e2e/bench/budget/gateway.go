package budget

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/quotasim"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/wait"
)

const (
	adminCluster = "warmgate-admin"
	target       = "x-higress-target-cluster" // the header that the route takes the cluster from
	apiPath      = "/warmgate/v1"
	apiToken     = "only-for-this-benchmark"
	ageBonus     = 5300 // tokens a second
)

// pluginConfig returns the configuration of token_budget for the models, with more members of lb_config.
func pluginConfig(fleet []quotasim.Config, more map[string]any) string {
	targets := map[string]any{}
	for i := range fleet {
		c := &fleet[i]
		targets[c.Name] = map[string]any{
			"weight": weightOf(c), "max_concurrent_requests": c.Slots,
			"max_tokens_per_minute": c.TokensPerMinute, "max_requests_per_minute": c.RequestsPerMinute,
		}
	}
	cfg := map[string]any{
		"targets": targets, "age_bonus": ageBonus, "envoy": map[string]any{"admin_cluster": adminCluster},
	}
	for name, value := range more {
		cfg[name] = value
	}
	text, err := json.Marshal(map[string]any{"lb_type": "cluster", "lb_policy": "token_budget", "lb_config": cfg})
	if err != nil {
		panic(err) // of names and numbers only
	}
	return string(text)
}

// apiConfig is with the admission API.
func apiConfig(fleet []quotasim.Config, ttl time.Duration, redis bool) string {
	more := map[string]any{"api": map[string]any{"path": apiPath, "token": apiToken, "lease_ttl": ttl.String()}}
	if redis {
		more["envoy"] = map[string]any{"admin_cluster": adminCluster, "redis_cluster": "warmgate-redis"}
		more["reserve_timeout"] = "2s" // this machine is busy with the callers, too
	}
	return pluginConfig(fleet, more)
}

// proxyConfig is for requests that the gateway forwards: they wait there for a model.
func proxyConfig(fleet []quotasim.Config) string {
	return pluginConfig(fleet, map[string]any{"queue": map[string]any{"max_wait": "30s"}, "debug_headers": true})
}

// startGateway starts a gateway before the servers of the models, whose clusters have the models' names.
func startGateway(ctx context.Context, fleet []quotasim.Config, addrs []string, config, redis string, workers int) (
	*harness.Gateway, error,
) {
	clusters := ""
	for i := range fleet {
		host, port, err := net.SplitHostPort(addrs[i])
		if err != nil {
			return nil, err
		}
		clusters += fmt.Sprintf(`
- name: %s
  type: STATIC
  connect_timeout: 1s
  circuit_breakers: {thresholds: [{max_connections: 65536, max_pending_requests: 65536, max_requests: 65536}]}
  load_assignment:
    cluster_name: %s
    endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: %s, port_value: %s}}}}]}]
`, fleet[i].Name, fleet[i].Name, host, port)
	}
	const routes = harness.ManagerPath + ".route_config.virtual_hosts[name=llm].routes"
	return harness.Start(ctx, harness.Options{
		Config: config, Endpoints: []harness.Endpoint{{Addr: addrs[0]}}, Redis: redis, Workers: workers,
		Edit: func(file string, doc *yaml.Node) error {
			if file != "envoy.yaml" {
				return nil
			}
			return errors.Join(bench.Quiet(file, doc), harness.Insert(doc, routes, "", 0, `
- match: {prefix: /, headers: [{name: `+target+`, present_match: true}]}
  name: llm
  route: {cluster_header: `+target+`, timeout: 120s}
`), harness.Insert(doc, "static_resources.clusters", "", 0, clusters))
		},
	})
}

func (g *game) fleet() (list []quotasim.Config) {
	for _, m := range g.models {
		list = append(list, m.Config)
	}
	return list
}

func (g *game) addrs() (list []string) {
	for _, s := range g.servers {
		list = append(list, s.Listener.Addr().String())
	}
	return list
}

// restart begins the run's time anew, when what it needs is there.
func (g *game) restart() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.start = time.Now()
}

// callersOf is how the admission API of a gateway is called.
type callersOf struct {
	redis bool // the gateway's store is in Redis
	kill  bool // a third of the workers dies twice
	crowd int  // number of workers, regardless of the advice; 0: as many as advised
}

// play has a pool of workers ask a gateway's admission API.
func (c callersOf) play() func(ctx context.Context, s settings, g *game) error {
	return func(ctx context.Context, s settings, g *game) (err error) {
		addr := ""
		if c.redis {
			server, err := redisserver.Start(ctx, redisserver.Options{})
			if err != nil {
				return err
			}
			defer server.Stop()
			addr = server.Addr()
		}
		gateway, err := startGateway(ctx, g.fleet(), g.addrs(), apiConfig(g.fleet(), s.ttl, c.redis), addr, 2)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, gateway.Stop()) }()
		p := &pool{
			game: g, ttl: s.ttl, router: router{base: gateway.URL() + apiPath, token: apiToken, client: g.client},
		}
		if err := p.awaitOpen(ctx); err != nil {
			return err
		}
		g.restart()
		killed := make(chan error, 1)
		if c.kill {
			go func() { killed <- p.killThirds(ctx, s.deathTimes()) }()
		} else {
			killed <- nil
		}
		advice := p.advice
		if c.crowd > 0 {
			advice = func(context.Context) (int, error) { return c.crowd, nil }
		}
		if err := p.run(ctx, advice); err != nil {
			return err
		}
		if err := <-killed; err != nil {
			return err
		}
		g.counted, err = p.inflight(ctx)
		return err
	}
}

// awaitOpen waits until every worker of the gateway admits tasks.
func (r *router) awaitOpen(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	fresh := *r
	fresh.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // any worker may get a connection
	return wait.Until(ctx, 50*time.Millisecond, func() error {
		for range 8 {
			at, err := fresh.schedule(ctx, 1, "")
			if err != nil {
				return err
			}
			if !at.admitted() {
				return fmt.Errorf("nothing is admitted for %d ms", at.Wait)
			}
			if err := fresh.complete(ctx, at.Task, 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// playProxy has workers send tasks to the gateway, which forwards each to a model when one has room: more workers than
// there are slots, so that some always wait.
func playProxy(ctx context.Context, _ settings, g *game) (err error) {
	gateway, err := startGateway(ctx, g.fleet(), g.addrs(), proxyConfig(g.fleet()), "", 2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, gateway.Stop()) }()
	if err := g.awaitProxy(ctx, gateway.URL()); err != nil {
		return err
	}
	workers := 0
	for _, m := range g.models {
		workers += m.Slots
	}
	g.restart()
	where := func() string { return gateway.URL() }
	return bench.SideBySide(ctx, workers*3/2, len(g.tasks), func(ctx context.Context, _, i int) error {
		return g.callUntil(ctx, i, where)
	})
}

// awaitProxy waits until every worker of the gateway places requests.
func (g *game) awaitProxy(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // any worker may get a connection
	return wait.Until(ctx, 50*time.Millisecond, func() error {
		for range 16 {
			r, err := g.request(ctx, url, &task{number: none, prompt: 1, limit: 1, output: 1})
			if err != nil {
				return err
			}
			resp, err := client.Do(r)
			if err != nil {
				return err
			}
			resp.Body.Close()
			if reason := resp.Header.Get("x-warmgate-reason"); reason != "chosen" {
				return fmt.Errorf("the gateway does not place requests: status %d, reason %q", resp.StatusCode, reason)
			}
		}
		return nil
	})
}
