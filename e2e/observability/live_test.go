package observability

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/faultproxy"
	"github.com/warmgate/warmgate/e2e/fleet"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// long says that there is time for a longer form: make e2e-alerts.
var long = os.Getenv("FAULTS_LONG") != ""

// conversations are so many that caches can hold all of them.
const conversations = 160

// stage is a gateway before engines under traffic.
type stage struct{ *fleet.Fleet }

// byPrompts is a configuration with counts in Redis and metrics of the engines. On a busy machine Redis may take longer
// than the default, which an alert says, and rightly so.
func byPrompts(password, page string) string {
	return fmt.Sprintf(`{"lb_policy": "prefix_cache", "lb_config": {"password": %q, "metrics": {"path": %q},
		"reserve_timeout": "500ms",
		"envoy": {"admin_cluster": "warmgate-admin", "metrics_cluster": "warmgate-metrics",
		"redis_cluster": "warmgate-redis"}}}`, password, page)
}

// withBudgets is one with budgets of tenants, prices and a queue, which is as long as given.
func (s *stage) withBudgets(length int) string {
	var targets []string
	for _, p := range s.Proxies {
		targets = append(targets, fmt.Sprintf("%q: {\"weight\": 1, \"max_concurrent_requests\": 4}", p.Addr()))
	}
	return fmt.Sprintf(`{"lb_policy": "token_budget", "lb_config": {"targets": {%s},
		"tenants": {"tenant_header": "x-tenant", "max_tokens_per_minute": 6000},
		"prices": {"currency": "EUR", "tenant_header": "x-tenant", "models": {"sim": {"input": 1, "cached": 0.1, "output": 4}}},
		"queue": {"max_wait": "2s", "max_length": %d}, "envoy": {"admin_cluster": "warmgate-admin"}}}`,
		strings.Join(targets, ", "), length)
}

// ask sends a request of some conversation, and reads the answer.
func (s *stage) ask(ctx context.Context, model string, stream bool, headers ...string) {
	s.Ask(ctx, model, rand.IntN(conversations), 40, 24, stream, headers...)
}

// goOn sends one request of each conversation, in their order, a few at a time.
func (s *stage) goOn() {
	var all sync.WaitGroup
	for first := range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := first; i < conversations; i += 8 {
				s.Ask(s.T.Context(), "sim", i, 40, 1, false)
			}
		}()
	}
	all.Wait()
}

// send has requests come at intervals until the function that it returns is called.
func (s *stage) send(every time.Duration, ask func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(s.T.Context())
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
	s.T.Cleanup(stop)
	return stop
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

// recordedT checks that there is data of each recording rule, but of those whose reason did not occur, and of the one
// that compares with an hour ago.
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
		if !found[r.record] && r.record != "warmgate:native:ratio_rate5m" && r.record != timesBefore {
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
	fleet.ProgramT(t, "prometheus")
	window, lasts := "10s", time.Duration(0)
	if long {
		window, lasts = "30s", 2*time.Minute
	}
	queries := panels(t)
	s := &stage{fleet.StartT(t, 1, byPrompts(fleet.Password, "/metrics"))}
	p := startPrometheus(t, s.Gateway, window)
	s.goOn()
	stopMost := s.send(40*time.Millisecond, s.asking("sim"))
	s.send(200*time.Millisecond, s.asking("adapter"))
	p.calm(lasts)
	p.healthy()
	drawn := p.drawn(queries)

	// What is cached is known from Redis, so that goes last.
	s.goOn()
	for _, e := range s.Engines {
		e.Reset()
	}
	s.goOn()
	s.Set(0, faultproxy.Refuse())
	s.Tune(1, vllmsim.ModeSlow)
	stopHalf := s.send(200*time.Millisecond, s.asking("half"))
	first := []planted{
		{"dead engine", "WarmgateServerUnhealthy", map[string]string{"cluster": "llm"}},
		{"slow engine", "WarmgateServerSlowToWrite", map[string]string{"endpoint": s.Proxies[1].Addr()}},
		{"cache lost", "WarmgateCacheLost", map[string]string{"cluster": "llm"}},
		{"adapter on half the pool", "WarmgateModelNotEverywhere", map[string]string{"model": "half"}},
	}
	p.await(first)
	s.Push(byPrompts("another", "/nothing"))
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
	s.Push(s.withBudgets(1000))
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
	s.Set(0, faultproxy.Pass())
	s.Tune(1, vllmsim.ModeOK)
	s.Push(s.withBudgets(1))
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
