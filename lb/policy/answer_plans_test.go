package policy

import (
	"math"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/cache"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/prompt"
)

var fourBlocks = []prompt.Block{{Key: 1, End: 100}, {Key: 2, End: 200}, {Key: 3, End: 300}, {Key: 4, End: 400}}

// answerAt returns an answer whose TTFT is the given part of its duration.
func answerAt(addr string, part float64) lb.Outcome {
	return lb.Outcome{
		Addr: addr, Verdict: lb.Success, CountedTokens: 400, TTFT: time.Duration(part * 2e9), Duration: 2 * time.Second,
	}
}

// The growth of a request's credit depends on the candidates of its tier: while a priority that has failed in part is
// saturated, its prompts stay where they are cached, although the next priority's endpoints are not.
func TestCreditGrowthIsThatOfTheTier(t *testing.T) {
	policy, err := New("prefix_cache", Config{
		Health: health.New(), Caches: cache.NewTracker(), Engines: engines.New(),
		Settings: &CacheConfig{Credit: 2, TTL: time.Minute, IndexMemory: lb.IndexMemory{Local: 1 << 20}},
	})
	if err != nil {
		t.Fatal(err)
	}
	v := &lb.View{Cluster: "llm", Endpoints: []lb.Endpoint{
		{Addr: "busy"}, {Addr: "failed", State: lb.Unhealthy}, {Addr: "idle", Priority: 1},
	}}
	for range 100 {
		policy.Observe(0, answerAt("busy", 0.5))
		policy.Observe(0, answerAt("idle", 0.1))
	}
	counts := map[string]int{}
	for draw := range uint64(64) {
		r := &lb.Request{PromptTokens: 100, Blocks: fourBlocks, PromptBytes: 400, Random: draw << 42}
		plan, _ := policy.Plan(0, r, v)
		loads := make([]lb.Load, len(plan.Candidates))
		addr, want := plan.Candidates[lb.Choose(&plan, loads, nil)].Addr, 1.0
		if addr == "idle" {
			want = 0.04
		}
		if got := plan.Prefix.CreditGrowth; got < want-1e-6 || got > want+1e-6 {
			t.Fatalf("for a request to %s: %.3f, want %.3f", addr, got, want)
		}
		counts[addr]++
	}
	if counts["busy"] == 0 || counts["idle"] == 0 {
		t.Errorf("requests: %v", counts)
	}
}

// A plan contains the load per request and the growth of the credit.
func TestPlanHasAnswerStats(t *testing.T) {
	policy, err := New("prefix_cache", Config{
		Health: health.New(), Caches: cache.NewTracker(), Engines: engines.New(),
		Settings: &CacheConfig{Credit: 2, TTL: time.Minute, IndexMemory: lb.IndexMemory{Local: 1 << 20}},
	})
	if err != nil {
		t.Fatal(err)
	}
	v := &lb.View{Cluster: "llm", Endpoints: []lb.Endpoint{{Addr: "10.0.0.1:80"}}}
	r := &lb.Request{PromptTokens: 100, OutputTokens: 20, Blocks: fourBlocks, PromptBytes: 400}
	before, _ := policy.Plan(0, r, v)
	for range 100 {
		policy.Observe(0, answerAt("10.0.0.1:80", 0.5))
	}
	after, _ := policy.Plan(time.Second, r, v)
	if before.PerRequest != 0 || before.Prefix.CreditGrowth != 0 || before.Prefix.Credit != 200 {
		t.Errorf("before any answer: %+v", before)
	}
	if wait := after.Prefix.CreditGrowth; after.PerRequest != 100 || wait < 0.999 || wait > 1.001 ||
		after.Prefix.Credit != 200 {
		t.Errorf("after answers: %d tokens a request, wait %.3f, want 100 and 1", after.PerRequest, wait)
	}
	if after.Tokens != before.Tokens {
		t.Errorf("the request adds %d tokens, and %d before", after.Tokens, before.Tokens)
	}
}

// The credit is higher where caches evict before the configured TTL.
func TestPlanHasDisplacement(t *testing.T) {
	const longest = time.Hour
	caches := cache.NewTracker()
	policy, err := New("prefix_cache", Config{
		Health: health.New(), Caches: caches, Engines: engines.New(),
		Settings: &CacheConfig{Credit: 2, TTL: longest, IndexMemory: lb.IndexMemory{Local: 1 << 20}},
	})
	if err != nil {
		t.Fatal(err)
	}
	v := &lb.View{Cluster: "llm", Endpoints: []lb.Endpoint{{Addr: "10.0.0.1:80"}}}
	r := &lb.Request{PromptTokens: 100, Blocks: fourBlocks, PromptBytes: 400}
	missed := lb.Outcome{Addr: "10.0.0.1:80", PromptTokens: 1000, ExpectedTokens: 1000, CachedTokens: 100}
	for i := range 3 {
		missed.PlannedAt = time.Duration(i+1) * time.Millisecond
		policy.Observe(missed.PlannedAt, missed)
	}
	plan, _ := policy.Plan(4*time.Millisecond, r, v)
	ttl, _ := caches.Retention()
	want := 200 * (2 - float64(ttl)/float64(longest))
	if got := plan.Prefix.Credit; ttl > longest*6/10 || math.Abs(got-want) > 1e-6 {
		t.Errorf("credit %.3f, want %.3f; a TTL of %v", got, want, ttl)
	}
}
