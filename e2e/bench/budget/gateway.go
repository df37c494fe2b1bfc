package budget

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	names := bench.Names(fleet, func(c quotasim.Config) string { return c.Name })
	return harness.Start(ctx, harness.Options{
		Config: config, Endpoints: []harness.Endpoint{{Addr: addrs[0]}}, Redis: redis, Workers: workers,
		Edit: harness.OfFile("envoy.yaml", func(doc *yaml.Node) error { return bench.Quiet("envoy.yaml", doc) },
			bench.Clusters(names, addrs, "")),
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

	keyless bool // calls have no idempotency keys
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
			game: g, ttl: s.ttl, keyless: c.keyless,
			router: router{base: gateway.URL() + apiPath, token: apiToken, client: g.client},
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

// router is a client of whoever places tasks.
type router struct {
	base   string // that the paths of calls follow
	token  string // "" for none
	client *http.Client
}

// placement is where a task was placed, or how long to wait.
type placement struct {
	Model string `json:"model_backend_id"`
	Task  string `json:"task_id"`
	Wait  int    `json:"wait_for_ms"`
}

func (p *placement) admitted() bool { return p.Task != "" }

// schedule asks for a model. A key that is not "" has the same answer given to a call that is repeated.
func (r *router) schedule(ctx context.Context, tokens int, key string) (p placement, err error) {
	ask := map[string]any{"estimated_tokens": tokens}
	if key != "" {
		ask["idempotency_key"] = key
	}
	status, err := r.do(ctx, http.MethodPost, "/schedule", ask, &p)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("schedule: status %d", status)
	}
	return p, err
}

// unknown is how many tokens a task has used of which that is not said: it stays charged for its estimate.
const unknown = -1

// errLost means that a lease was over before it was renewed.
var errLost = errors.New("the lease is over")

// complete ends a task that has used so many tokens.
func (r *router) complete(ctx context.Context, task string, used int) error {
	end := map[string]any{"task_id": task}
	if used != unknown {
		end["actual_tokens"] = used
	}
	var answer struct {
		OK     bool   `json:"ok"`
		Reason string `json:"reason"`
	}
	status, err := r.do(ctx, http.MethodPost, "/complete", end, &answer)
	if err == nil && answer.Reason == "abandoned" {
		err = errLost
	} else if err == nil && !answer.OK {
		err = fmt.Errorf("complete: status %d %s", status, answer.Reason)
	}
	return err
}

// heartbeat renews a task, and reports whether there is such a task.
func (r *router) heartbeat(ctx context.Context, task string) (bool, error) {
	var answer struct {
		OK bool `json:"ok"`
	}
	_, err := r.do(ctx, http.MethodPost, "/heartbeat", map[string]any{"task_id": task}, &answer)
	return answer.OK, err
}

// advice returns how many tasks should be in flight.
func (r *router) advice(ctx context.Context) (int, error) {
	var answer struct {
		Parallelism int `json:"suggested_parallelism"`
	}
	status, err := r.do(ctx, http.MethodGet, "/advice", nil, &answer)
	if err == nil && answer.Parallelism <= 0 {
		err = fmt.Errorf("advice: status %d without a number of workers", status)
	}
	return answer.Parallelism, err
}

// inflight returns how many tasks are counted, over all models.
func (r *router) inflight(ctx context.Context) (sum int, err error) {
	var answer struct {
		Models []struct {
			Inflight int `json:"in_flight"`
		}
	}
	status, err := r.do(ctx, http.MethodGet, "/models", nil, &answer)
	if err == nil && len(answer.Models) == 0 {
		err = fmt.Errorf("models: status %d without models", status)
	}
	for _, m := range answer.Models {
		sum += m.Inflight
	}
	return sum, err
}

// repeats is how often a call is sent that gets no answer or a server's error, and repeatAfter how long before each
// repetition: every call may be repeated.
const repeats, repeatAfter = 5, 100 * time.Millisecond

// do sends a call and reads its answer.
func (r *router) do(ctx context.Context, method, path string, ask, answer any) (status int, err error) {
	var body []byte
	if ask != nil {
		if body, err = json.Marshal(ask); err != nil {
			return 0, err
		}
	}
	for range repeats {
		status, err = r.once(ctx, method, path, body, answer)
		if ctx.Err() != nil || err == nil && status < 500 {
			return status, err
		}
		time.Sleep(repeatAfter)
	}
	if err == nil {
		err = fmt.Errorf("%s: status %d, %d times", path, status, repeats)
	}
	return status, err
}

func (r *router) once(ctx context.Context, method, path string, body []byte, answer any) (int, error) {
	q, err := http.NewRequestWithContext(ctx, method, r.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	if r.token != "" {
		q.Header.Set("Authorization", "Bearer "+r.token)
	}
	resp, err := r.client.Do(q)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode < 500 {
		if err = json.Unmarshal(text, answer); err != nil {
			err = fmt.Errorf("%s: status %d: %w: %.200s", path, resp.StatusCode, err, text)
		}
	}
	return resp.StatusCode, err
}
