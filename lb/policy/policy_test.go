package policy_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/cache"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/health/healthtest"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/lb/memstore/memstoretest"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/storetest"
)

func newPolicy(t testing.TB, unit lb.Unit) lb.Policy {
	t.Helper()
	p, err := policy.New("global_least_request", policy.Config{
		Unit: unit, Cluster: *healthtest.Cluster, Health: health.New(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// settingsOf returns the settings for the policy, for [policy.Config.Settings]: of the two, those that have its type.
func settingsOf(name string, cache policy.CacheConfig, engine engines.Config) any {
	if d := policy.Describe(name); d.Settings != nil {
		switch d.Settings().(type) {
		case *policy.CacheConfig:
			return &cache
		case *engines.Config:
			return &engine
		}
	}
	return nil
}

func TestLeastRequestPlan(t *testing.T) {
	v := healthtest.View(3)
	r := &lb.Request{PromptTokens: 100, OutputTokens: 20, Random: 5}
	plan, reason := newPolicy(t, lb.Tokens).Plan(0, r, v)
	if reason != lb.ReasonChosen || plan.Scope != "llm" || plan.Unit != lb.Tokens || plan.Tokens != 120 ||
		plan.Random != 5 {
		t.Fatalf("%+v, %s", plan, reason)
	}
	for i, c := range plan.Candidates {
		if c.Addr != v.Endpoints[i].Addr || c.Slope != 1 || c.Base != 0 {
			t.Errorf("candidate %d is %+v", i, c)
		}
	}
	if _, reason = newPolicy(t, lb.Requests).Plan(0, r, &lb.View{}); reason != lb.ReasonNoEndpoints {
		t.Errorf("a view without endpoints: %s", reason)
	}
}

func TestLeastRequestObserves(t *testing.T) {
	p, v := newPolicy(t, lb.Requests), healthtest.View(3)
	p.Plan(0, &lb.Request{}, v)
	for range 5 {
		p.Observe(0, lb.Outcome{Addr: v.Endpoints[0].Addr, Verdict: lb.Failure})
	}
	if plan, _ := p.Plan(time.Second, &lb.Request{}, v); len(plan.Candidates) != 2 {
		t.Fatalf("%d candidates after five failures of one of three", len(plan.Candidates))
	}
}

// A plan depends on its inputs and on what was observed only.
func TestPlanIsPure(t *testing.T) {
	p, v := newPolicy(t, lb.Requests), healthtest.View(5)
	a, _ := p.Plan(0, &lb.Request{Random: 9}, v)
	b, _ := p.Plan(0, &lb.Request{Random: 9}, v)
	for i := range a.Candidates {
		if a.Candidates[i] != b.Candidates[i] {
			t.Fatalf("candidate %d: %+v and %+v", i, a.Candidates[i], b.Candidates[i])
		}
	}
	if a.Random != b.Random {
		t.Fatal("the tie differs")
	}
}

// prefix_cache is least request in tokens, with the prompt and its credit added; without blocks it is the same.
func TestPrefixCachePlan(t *testing.T) {
	caching := policy.CacheConfig{Credit: 1.5, TTL: time.Minute, IndexMemory: lb.IndexMemory{Local: 1 << 20}}
	p, err := policy.New("prefix_cache", policy.Config{
		Unit: lb.Requests, Cluster: *healthtest.Cluster, Health: health.New(),
		Caches: cache.NewTracker(), Engines: engines.New(), Settings: &caching,
	})
	if err != nil {
		t.Fatal(err)
	}
	v := healthtest.View(3)
	blocks := storetest.Blocks(1)
	plan, reason := p.Plan(0, &lb.Request{PromptTokens: 100, OutputTokens: 20, Blocks: blocks, PromptBytes: 900}, v)
	if reason != lb.ReasonChosen || plan.Unit != lb.Tokens || plan.Tokens != 120 || len(plan.Candidates) != 3 {
		t.Fatalf("%+v, %s", plan, reason)
	}
	want := lb.Prefix{
		Blocks: blocks, Bytes: 900, Tokens: 100, Takes: 20 * time.Millisecond, Credit: 150,
		CreditBytes: []uint32{100, 200, 300, 400},
		TTL:         time.Minute, IndexMemory: lb.IndexMemory{Local: 1 << 20},
	}
	if !reflect.DeepEqual(plan.Prefix, want) {
		t.Errorf("%+v, want %+v", plan.Prefix, want)
	}
	for n, tokens := range map[int]int64{0: 120, 1: 120 - 11, 4: 120 - 44} {
		if got := plan.AddedTokens(n); got != tokens {
			t.Errorf("with %d blocks cached it adds %d tokens, want %d", n, got, tokens)
		}
	}
	if plan, reason = p.Plan(0, &lb.Request{PromptTokens: 100}, v); reason != lb.ReasonChosen ||
		plan.AddedTokens(0) != 100 {
		t.Errorf("without blocks: %+v, %s", plan, reason)
	}
	plan, _ = p.Plan(0, &lb.Request{PromptTokens: 100, Blocks: blocks, PromptBytes: 900, BypassCache: true}, v)
	if plan.Prefix.Credit != 0 || plan.AddedTokens(4) != 100 {
		t.Errorf("a match saves tokens although it is not used: %+v", plan)
	}
	if _, reason = p.Plan(0, &lb.Request{Blocks: blocks}, &lb.View{}); reason != lb.ReasonNoEndpoints {
		t.Errorf("a view without endpoints: %s", reason)
	}
}

// The TTL is limited, whatever is configured: the clocks of stores wrap.
func TestPrefixCacheTTL(t *testing.T) {
	for configured, want := range map[time.Duration]time.Duration{
		time.Minute: time.Minute, lb.MaxTTL: lb.MaxTTL,
		262144 * time.Second: lb.MaxTTL,
	} {
		p, err := policy.New("prefix_cache", policy.Config{
			Cluster: *healthtest.Cluster, Health: health.New(), Caches: cache.NewTracker(), Engines: engines.New(),
			Settings: &policy.CacheConfig{Credit: 1, TTL: configured, IndexMemory: lb.IndexMemory{Local: 1 << 20}},
		})
		if err != nil {
			t.Fatal(err)
		}
		store, cached := memstore.New(memstoretest.NewProcess(t), 1, storetest.TTL), 0
		for id := range lb.LeaseID(2) {
			plan, _ := p.Plan(time.Hour, &lb.Request{PromptTokens: 900, Blocks: storetest.Blocks(1), PromptBytes: 900},
				healthtest.View(1))
			if plan.Prefix.TTL != want {
				t.Errorf("%v: a TTL of %v, want %v", configured, plan.Prefix.TTL, want)
			}
			store.Reserve(time.Hour+time.Duration(id)*30*time.Second, id+1, &plan,
				func(g lb.Grant, _ error) { cached = g.Cached })
		}
		if cached == 0 {
			t.Errorf("%v: nothing is known half a minute later", configured)
		}
	}
}

func TestUnknownPolicy(t *testing.T) {
	_, err := policy.New("roulette", policy.Config{})
	if err == nil || !strings.Contains(err.Error(), "roulette") ||
		!strings.Contains(err.Error(), "global_least_request") {
		t.Fatalf("the error should name the policy and the known ones: %v", err)
	}
}

func TestNamesOfReasonsAndStates(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range lb.Reasons() {
		if n := r.String(); n == "" || n == "unknown" || seen[n] {
			t.Errorf("reason %d is called %q", r, n)
		}
		seen[r.String()] = true
	}
	if lb.Reason(200).String() != "unknown" || lb.State(200).String() != "unknown" {
		t.Error("unknown values must have a name")
	}
	for s := lb.Healthy; s <= lb.Ejected; s++ {
		if s.String() == "unknown" {
			t.Errorf("state %d has no name", s)
		}
	}
}
