package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/cache"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/metrics"
)

// snapshot parses a page with these lines of vLLM's metrics.
func snapshot(t testing.TB, lines ...string) metrics.Snapshot {
	t.Helper()
	p, err := metrics.New(metrics.AnyEngine, "my_gauge", "my_counter")
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, l := range lines {
		text += l + "\n"
	}
	var load metrics.Snapshot
	p.Parse([]byte(text), &load)
	return load
}

func running(n int) string { return fmt.Sprintf("vllm:num_requests_running %d", n) }
func waiting(n int) string { return fmt.Sprintf("vllm:num_requests_waiting %d", n) }
func kvUse(u float64) string {
	return fmt.Sprintf("vllm:kv_cache_usage_perc %g", u)
}

func adapters(slots int, names string) string {
	return fmt.Sprintf(`vllm:lora_requests_info{max_lora="%d",running_lora_adapters="%s",waiting_lora_adapters="%s"} 1.5`,
		slots, names, names)
}

// engineCluster is a cluster of engines under endpoint_metrics.
type engineCluster struct {
	t             testing.TB
	now           time.Duration
	engines       *engines.Samples
	shares        *policy.RequestShares
	view          *lb.View
	samples       map[string]engines.Sample
	policy        lb.Policy
	cfg           engines.Config
	clusterConfig health.ClusterConfig
}

func newEngineCluster(t testing.TB, n int, change func(c *engines.Config)) *engineCluster {
	t.Helper()
	w := &engineCluster{
		t: t, now: time.Hour, engines: engines.New(), shares: policy.NewRequestShares(),
		samples: map[string]engines.Sample{},
		cfg: engines.Config{
			StaleAfter: 3 * time.Second, Learn: true,
			Weights: engines.Weights{Running: 1, Queue: 4, KVCache: 1, LoRA: 16},
		},
	}
	if change != nil {
		change(&w.cfg)
	}
	w.view = &lb.View{Cluster: "llm"}
	for i := range n {
		w.view.Endpoints = append(w.view.Endpoints, lb.Endpoint{Addr: w.addr(i), Weight: 1})
	}
	w.build("endpoint_metrics")
	return w
}

func (w *engineCluster) build(name string) {
	w.t.Helper()
	caching := policy.CacheConfig{TTL: time.Hour, IndexMemory: lb.IndexMemory{Local: 1 << 20}}
	var err error
	w.policy, err = policy.New(name, policy.Config{
		Cluster: w.clusterConfig, Health: health.New(), Caches: cache.NewTracker(),
		Engines: w.engines, Shares: w.shares, Engine: w.cfg, Settings: settingsOf(name, caching, w.cfg),
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *engineCluster) addr(i int) string { return fmt.Sprintf("10.0.0.%d:8000", i+1) }

// report sets the sample of engine i, with the given number of counted requests in flight.
func (w *engineCluster) report(i int, inflight int64, lines ...string) {
	w.samples[w.addr(i)] = engines.Sample{
		Snapshot: snapshot(w.t, lines...), At: w.now, ScrapedAt: w.now, FreshAt: w.now,
		Counted: true, Inflight: lb.Load{Requests: inflight, Tokens: 100 * inflight},
	}
}

func (w *engineCluster) update() {
	w.engines.Update(w.now, []string{"my_gauge", "my_counter"}, w.samples)
}

func (w *engineCluster) plan(model string) (lb.Plan, lb.Reason) {
	return w.policy.Plan(w.now, &lb.Request{Model: model, PromptTokens: 100}, w.view)
}

// choice returns which endpoint gets a request with that many in flight at each, -1 for none.
func (w *engineCluster) choice(model string, inflight ...int64) int {
	w.t.Helper()
	p, reason := w.plan(model)
	if reason != lb.ReasonChosen {
		return -1
	}
	loads := make([]lb.Load, len(p.Candidates))
	for i, c := range p.Candidates {
		for k := range w.view.Endpoints {
			if w.addr(k) == c.Addr {
				loads[i] = lb.Load{Requests: inflight[k], Tokens: 100 * inflight[k]}
			}
		}
	}
	at := lb.Choose(&p, loads, nil)
	for k := range w.view.Endpoints {
		if p.Candidates[at].Addr == w.addr(k) {
			return k
		}
	}
	return -1
}
