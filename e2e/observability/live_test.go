package observability

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
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

const (
	engines  = 6
	password = "a password of the test's own"
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
	s := &stage{t: t, redis: redisserver.StartT(t, redisserver.Options{Config: []string{"requirepass \"" + password + "\""}})}
	o := harness.Options{Workers: 1, Redis: s.redis.Addr()}
	for i := range engines {
		c := vllmsim.Config{Index: i, Adapters: []string{"adapter"}}
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
		targets = append(targets, fmt.Sprintf("%q: {\"max_concurrent_requests\": 4}", p.Addr()))
	}
	return fmt.Sprintf(`{"lb_policy": "token_budget", "lb_config": {"targets": {%s},
		"tenants": {"tenant_header": "x-tenant", "max_tokens_per_minute": 60000},
		"prices": {"currency": "EUR", "models": {"sim": {"input": 1, "cached": 0.1, "output": 4}}},
		"queue": {"max_wait": "2s", "max_length": %d}, "envoy": {"admin_cluster": "warmgate-admin"}}}`,
		strings.Join(targets, ", "), length)
}

// ask sends a request with a prompt of one of a few conversations, and reads the answer.
func (s *stage) ask(ctx context.Context, model string, stream bool, headers ...string) {
	system := strings.Repeat(fmt.Sprintf("Conversation %d has rules of its own. ", rand.IntN(24)), 60)
	body := fmt.Sprintf(`{"model": %q, "max_tokens": 24, "stream": %t, "stream_options": {"include_usage": true},
		"messages": [{"role": "system", "content": %q}, {"role": "user", "content": "question %d"}]}`,
		model, stream, system, rand.Int())
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
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
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

// TestFaults plants eight faults in a gateway under traffic, and sees alerts of each begin and end.
func TestFaults(t *testing.T) {
	programT(t, "prometheus")
	s := newStage(t)
	p := startPrometheus(t, s.gateway, "10s")
	s.send(40*time.Millisecond, func(ctx context.Context) {
		s.ask(ctx, "sim", rand.IntN(4) > 0, fmt.Sprintf("x-tenant: %d", rand.IntN(20)))
	})
	s.send(100*time.Millisecond, func(ctx context.Context) { s.ask(ctx, "adapter", true) })
	began := time.Now()
	p.calm(5 * time.Second)
	t.Logf("calm after %.0f s", time.Since(began).Seconds())
	p.healthy()

	s.set(0, faultproxy.Refuse())
	s.tune(1, vllmsim.ModeSlow)
	s.engines[2].Reset()
	s.push(byPrompts("another", "/nothing"))
	time.Sleep(25 * time.Second)
	p.t.Logf("all: %q", names(p.firing()))
	p.dump(`{__name__=~"warmgate_endpoint.*"}`, `{__name__=~"warmgate_requests_total|warmgate_decisions_total|warmgate_.*cached.*|warmgate_prefix.*|warmgate_eject.*|warmgate_owners"}`,
		`{__name__=~"warmgate:.*"}`, `rate(warmgate_decisions_total[10s])`)
	t.FailNow()
	p.await([]planted{
		{"dead engine", "WarmgateServerFails", map[string]string{"endpoint": s.proxies[0].Addr()}},
		{"slow engine", "WarmgateServerSlowToWrite", map[string]string{"endpoint": s.proxies[1].Addr()}},
		{"wrong Redis password", "WarmgateRedisLogin", map[string]string{"cause": "auth"}},
		{"scrapes answered 404", "WarmgateScrapesFail", map[string]string{"result": "status"}},
		{"cache lost", "WarmgateCacheLost", nil},
	})
	p.t.Logf("all: %q", names(p.firing()))
}
