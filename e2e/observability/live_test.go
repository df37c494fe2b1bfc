package observability

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/faultproxy"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/internal/vllmsim"
	"github.com/warmgate/warmgate/internal/vllmsim/vllmsimtest"
)

// long says that there is time for a longer form: make e2e-alerts.
var long = os.Getenv("FAULTS_LONG") != ""

const (
	engines       = 6
	conversations = 160
	password      = "a password of the test's own"
)

// stage is a gateway before engines, each behind a proxy, with counts in Redis.
type stage struct {
	t       *testing.T
	engines []*vllmsim.Server
	proxies []*faultproxy.Proxy
	redis   *redisserver.Server
	gateway *harness.Gateway
}

func newStage(t *testing.T) *stage {
	s := &stage{t: t, redis: redisserver.StartT(t, redisserver.Options{
		Config: []string{"requirepass \"" + password + "\""},
	})}
	o := harness.Options{Workers: 1, Redis: s.redis.Addr()}
	for i := range engines {
		c := vllmsim.Config{Index: i, Adapters: []string{"adapter"}}
		if i%2 == 1 {
			c.Adapters = append(c.Adapters, "half")
		}
		c.NumBlocks = 4096
		c.MaxLoras = 4
		s.engines = append(s.engines, vllmsimtest.StartT(t, c))
		proxy, err := faultproxy.Start(t.Context(), s.engines[i].Addr())
		if err != nil {
			t.Fatal(err)
		}
		s.proxies = append(s.proxies, proxy)
		o.Endpoints = append(o.Endpoints, harness.Endpoint{Addr: proxy.Addr()})
	}
	o.Config = byPrompts(password, "/metrics")
	s.gateway = harness.StartT(t, o)
	return s
}

// byPrompts is a configuration with counts in Redis and metrics of the engines.
func byPrompts(password, page string) string {
	return fmt.Sprintf(`{"lb_policy": "prefix_cache", "lb_config": {"password": %q, "metrics": {"path": %q},
		"envoy": {"admin_cluster": "warmgate-admin", "metrics_cluster": "warmgate-metrics",
		"redis_cluster": "warmgate-redis"}}}`, password, page)
}

// withBudgets is one with budgets of tenants, prices and a queue, which is as long as given.
func (s *stage) withBudgets(length int) string {
	var targets []string
	for _, p := range s.proxies {
		targets = append(targets, fmt.Sprintf("%q: {\"weight\": 1, \"max_concurrent_requests\": 4}", p.Addr()))
	}
	return fmt.Sprintf(`{"lb_policy": "token_budget", "lb_config": {"targets": {%s},
		"tenants": {"tenant_header": "x-tenant", "max_tokens_per_minute": 6000},
		"prices": {"currency": "EUR", "tenant_header": "x-tenant", "models": {"sim": {"input": 1, "cached": 0.1, "output": 4}}},
		"queue": {"max_wait": "2s", "max_length": %d}, "envoy": {"admin_cluster": "warmgate-admin"}}}`,
		strings.Join(targets, ", "), length)
}

// clients have addresses of their own: what one of them alone finds is held against no server.
var clients = func() (list []*http.Client) {
	for i := range 16 {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(i+1))}}
		list = append(list, &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}})
	}
	return list
}()

// ask sends a request of some conversation, and reads the answer.
func (s *stage) ask(ctx context.Context, model string, stream bool, headers ...string) {
	s.asks(ctx, rand.IntN(conversations), model, stream, 24, headers...)
}

// asks sends a request of a conversation for an answer of so many tokens.
func (s *stage) asks(ctx context.Context, conversation int, model string, stream bool, tokens int, headers ...string) {
	system := strings.Repeat(fmt.Sprintf("Conversation %d has rules of its own. ", conversation), 40)
	body := fmt.Sprintf(`{"model": %q, "max_tokens": %d, "stream": %t, "stream_options": {"include_usage": true},
		"messages": [{"role": "system", "content": %q}, {"role": "user", "content": "question %d"}]}`,
		model, tokens, stream, system, rand.Int())
	if !stream {
		body = strings.Replace(body, `"stream_options": {"include_usage": true},`, "", 1)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.gateway.URL()+"/v1/chat/completions",
		strings.NewReader(body))
	if err != nil {
		return
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	resp, err := clients[rand.IntN(len(clients))].Do(r)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
}

// goOn sends one request of each conversation, in their order, a few at a time.
func (s *stage) goOn() {
	var all sync.WaitGroup
	for first := range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := first; i < conversations; i += 8 {
				s.asks(s.t.Context(), i, "sim", false, 1)
			}
		}()
	}
	all.Wait()
}

// send has requests come at intervals until the function that it returns is called.
func (s *stage) send(every time.Duration, ask func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		var asked sync.WaitGroup
		defer asked.Wait()
		for tick := time.NewTicker(every); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
				asked.Add(1)
				go func() {
					defer asked.Done()
					ask(ctx)
				}()
			}
		}
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	s.t.Cleanup(stop)
	return stop
}

func (s *stage) push(config string) {
	s.t.Helper()
	if err := s.gateway.PushPlugin(s.t.Context(), config); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) set(i int, m faultproxy.Mode) {
	s.t.Helper()
	if err := s.proxies[i].Set(m); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) tune(i int, mode vllmsim.Mode) {
	s.t.Helper()
	if err := s.engines[i].SetMode(mode); err != nil {
		s.t.Fatal(err)
	}
}

// planted is what has to be said of a fault.
type planted struct {
	fault, alert string
	labels       map[string]string
}

// await waits until alerts fire for all faults, and tells when each did.
func (p *prometheus) await(faults []planted) {
	p.t.Helper()
	began, seen := time.Now(), map[string]bool{}
	harness.Await(p.t, func() error {
		list := p.firing()
		for _, f := range faults {
			if a := find(list, f.alert, f.labels); a != nil && !seen[f.fault] {
				seen[f.fault] = true
				p.t.Logf("%s after %.0f s: %s: %s", f.fault, time.Since(began).Seconds(), f.alert,
					a.Annotations["summary"])
			}
		}
		for _, f := range faults {
			if !seen[f.fault] {
				return fmt.Errorf("no %s %v after a fault: %s; there are %q", f.alert, f.labels, f.fault, names(list))
			}
		}
		return nil
	})
}

// over waits until alerts are over.
func (p *prometheus) over(faults []planted) {
	p.t.Helper()
	began := time.Now()
	harness.Await(p.t, func() error {
		list := p.firing()
		for _, f := range faults {
			if find(list, f.alert, f.labels) != nil {
				return fmt.Errorf("%s goes on after this was mended: %s", f.alert, f.fault)
			}
		}
		return nil
	})
	p.t.Logf("all over after %.0f s", time.Since(began).Seconds())
}

// recordedT checks that there is data of each recording rule, but of those whose reason did not occur.
func (p *prometheus) recordedT() {
	p.t.Helper()
	found := map[string]bool{}
	for _, s := range p.query(`count by (__name__) (last_over_time({__name__=~"warmgate:.+|gen_ai_.+"}[10m]))`) {
		found[s.Metric["__name__"]] = true
	}
	want := slices.Clone(own)
	for _, g := range conventions {
		want = append(want, g.rules()...)
	}
	for _, r := range want {
		if !found[r.record] && r.record != "warmgate:native:ratio_rate5m" {
			p.t.Errorf("there is nothing of %s", r.record)
		}
	}
	for _, expr := range []string{
		`gen_ai_server_request_duration_seconds_bucket{gen_ai_request_model="sim",server_address="llm",le="+Inf",error_type=""}`,
		`gen_ai_server_time_to_first_token_seconds_count{gen_ai_request_model="sim",server_address="llm"}`,
		`gen_ai_server_time_per_output_token_seconds_sum{gen_ai_request_model="adapter"}`,
		`gen_ai_client_token_usage_bucket{gen_ai_token_type="input",le="1024"}`,
		`gen_ai_client_token_usage_count{gen_ai_token_type="output"}`,
		`histogram_quantile(0.9, sum by (le) (gen_ai_server_request_duration_seconds_bucket)) > 0.005`,
	} {
		if len(p.query(expr)) == 0 {
			p.t.Errorf("there is no %s", expr)
		}
	}
}

// TestFaults plants eight faults in a gateway under traffic, and sees alerts of each begin and end.
func TestFaults(t *testing.T) {
	programT(t, "prometheus")
	window, lasts := "10s", time.Duration(0)
	if long {
		window, lasts = "30s", 2*time.Minute
	}
	queries := panels(t)
	s := newStage(t)
	p := startPrometheus(t, s.gateway, window)
	s.goOn()
	stopMost := s.send(40*time.Millisecond, s.asking("sim"))
	s.send(200*time.Millisecond, s.asking("adapter"))
	p.calm(lasts)
	p.healthy()
	drawn := p.drawn(queries)

	// What is cached is known from Redis, so that goes last.
	s.goOn()
	for _, e := range s.engines {
		e.Reset()
	}
	s.goOn()
	s.set(0, faultproxy.Refuse())
	s.tune(1, vllmsim.ModeSlow)
	stopHalf := s.send(200*time.Millisecond, s.asking("half"))
	first := []planted{
		{"dead engine", "WarmgateServerUnhealthy", map[string]string{"cluster": "llm"}},
		{"slow engine", "WarmgateServerSlowToWrite", map[string]string{"endpoint": s.proxies[1].Addr()}},
		{"cache lost", "WarmgateCacheLost", map[string]string{"cluster": "llm"}},
		{"adapter on half the pool", "WarmgateModelNotEverywhere", map[string]string{"model": "half"}},
	}
	p.await(first)
	s.push(byPrompts("another", "/nothing"))
	then := []planted{
		{"wrong Redis password", "WarmgateRedisLogin", map[string]string{"cause": "auth"}},
		{"scrapes answered 404", "WarmgateScrapesFail", map[string]string{"result": "status"}},
	}
	p.await(then)
	maps.Copy(drawn, p.drawn(queries))

	// What mends these faults makes way for the next.
	stopHalf()
	stopMost()
	stop := s.crowd(s.asking("sim"))
	second := []planted{
		{"tenant flood", "WarmgateTenantFlood", nil},
		{"mis-sized queue", "WarmgateQueueMissized", map[string]string{"cluster": "llm"}},
	}
	p.await(second)
	p.recordedT()
	p.scaled()
	maps.Copy(drawn, p.drawn(queries))
	p.empty(queries, drawn)
	p.over(append(first[:3], then...)) // a model counts as asked for until 10 minutes after its last request

	stop()
	s.push(s.withBudgets(1000))
	p.over(second)
}

// asking returns what sends a request for a model, of one of very many tenants.
func (s *stage) asking(model string) func(ctx context.Context) {
	return func(ctx context.Context) {
		s.ask(ctx, model, rand.IntN(4) > 0, fmt.Sprintf("x-tenant: %d", rand.IntN(1000)))
	}
}

// crowd mends servers, and has one tenant use up its budget, and more come at once than fit into the queue.
func (s *stage) crowd(ask func(context.Context)) (stop func()) {
	s.set(0, faultproxy.Pass())
	s.tune(1, vllmsim.ModeOK)
	s.push(s.withBudgets(1))
	stopFlood := s.send(50*time.Millisecond, func(ctx context.Context) { s.ask(ctx, "sim", true, "x-tenant: flood") })
	stopBursts := s.send(3*time.Second, func(ctx context.Context) {
		var all sync.WaitGroup
		for range 80 {
			all.Add(1)
			go func() {
				defer all.Done()
				ask(ctx)
			}()
		}
		all.Wait()
	})
	return func() { stopFlood(); stopBursts() }
}
