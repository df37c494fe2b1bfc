package policy

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/cache"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/health"
)

func TestObjective(t *testing.T) {
	for _, tc := range []struct {
		of           Objective
		token, stall float64 // of a prompt of 1,000 tokens
	}{
		{Objective{}, 1, 0},
		{Objective{1, 1}, 1, 0},
		{Objective{3, 3}, 1, 0},
		{Objective{4, 1}, 1, 0},
		{Objective{1, 0}, 1, 0},
		{Objective{1, 2}, 2, 100},
		{Objective{0.5, 2}, 4, 300},
		{Objective{0, 1}, 16, 1500},
		{Objective{1, 1000}, 16, 1500},
		{Objective{5e-324, 1}, 16, 1500},
	} {
		if got := tc.of.token(); got != tc.token {
			t.Errorf("%+v: a token weighs %v, want %v", tc.of, got, tc.token)
		}
		if got := tc.of.stall(1000); math.Abs(got-tc.stall) > 1e-9 {
			t.Errorf("%+v: a stall of %v, want %v", tc.of, got, tc.stall)
		}
	}
}

// Whatever the weights, the terms of plans are finite and not negative, and grow with that of the time per token.
func TestObjectiveIsMonotonic(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		weight := rapid.Float64Range(0, 1000)
		o, tokens := Objective{weight.Draw(rt, "ttft"), weight.Draw(rt, "tpot")}, rapid.Int64().Draw(rt, "tokens")
		more := o
		more.TPOT += rapid.Float64Range(0, 1000).Draw(rt, "more")
		for _, o := range []Objective{o, more} {
			if w := o.token(); !(w >= 1 && w <= maxTimeWeight) {
				rt.Fatalf("%+v: a token weighs %v", o, w)
			}
			if s := o.stall(tokens); !(s >= 0) || math.IsInf(s, 0) {
				rt.Fatalf("%+v: a stall of %v", o, s)
			}
		}
		if more.token() < o.token() || more.stall(tokens) < o.stall(tokens) {
			rt.Fatalf("%+v weighs less than %+v", more, o)
		}
	})
}

// The plan stalls by the prompt, and only where the time per token weighs more.
func TestPlanStalls(t *testing.T) {
	view := &lb.View{Cluster: "llm", Endpoints: []lb.Endpoint{{Addr: "a:1", Weight: 1}, {Addr: "b:1", Weight: 1}}}
	for of, want := range map[Objective]float64{{}: 0, {1, 1}: 0, {4, 1}: 0, {1, 4}: 300} {
		p, err := newPrefixCache(Config{
			Health: health.New(), Caches: cache.NewTracker(), Engines: engines.New(),
			Settings: &CacheConfig{
				Credit: 2, TTL: time.Minute, IndexMemory: lb.IndexMemory{Local: 1 << 20}, Objective: of,
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		plan, _ := p.Plan(time.Hour, &lb.Request{PromptTokens: 1000, OutputTokens: 10}, view)
		if len(plan.Candidates) != 2 || math.Abs(plan.Stall-want) > 1e-9 {
			t.Errorf("%+v: %d candidates, a stall of %v, want %v", of, len(plan.Candidates), plan.Stall, want)
		}
	}
}
