package lb

import (
	"testing"
	"time"
)

// answerOf is the answer to a request that found so many at its endpoint and had its first part after half of its time.
func answerOf(inflight int64) Outcome {
	return Outcome{Work: 400, Inflight: inflight, First: time.Second, Took: 2 * time.Second}
}

// The credit rises with the requests that wait for the first part of their answer, once there is more than one at an
// endpoint, and not without end.
func TestGainFollowsWaiting(t *testing.T) {
	for _, tc := range []struct {
		inflight int64
		want     float64
	}{{0, 1}, {1, 1}, {2, 1}, {8, 4}, {1000, mostGain}} {
		var p pressure
		for range 100 {
			o := answerOf(tc.inflight)
			p.observe(&o)
		}
		if got := p.gain(); got < tc.want*0.999 || got > tc.want*1.001 {
			t.Errorf("%d in flight: %.2f times, want %.0f", tc.inflight, got, tc.want)
		}
	}
}

// What waited once is forgotten.
func TestGainFalls(t *testing.T) {
	var p pressure
	for _, inflight := range []int64{40, 0} {
		for range 10 * pressureOver {
			o := answerOf(inflight)
			p.observe(&o)
		}
	}
	if got := p.gain(); got != 1 {
		t.Errorf("%.2f times as much long after the last has waited, want 1", got)
	}
}

// Answers of which the work or the times are not known change nothing, and answers in one piece have no first part.
func TestPressureOfUnknown(t *testing.T) {
	var p pressure
	p.observe(&Outcome{Inflight: 100, First: time.Second, Took: time.Second})
	if p != (pressure{}) {
		t.Errorf("%+v after an answer that says nothing", p)
	}
	for range 100 {
		p.observe(&Outcome{Work: 400, Inflight: 100})
	}
	if p.gain() != 1 || p.slot() != 100 {
		t.Errorf("after answers in one piece: %.1f times, a slot of %d tokens, want 1 and 100", p.gain(), p.slot())
	}
}

// A plan says what a request costs beside its tokens, and raises what its prompt's cache is worth.
func TestPlanKnowsPressure(t *testing.T) {
	policy, err := New("prefix_cache", Config{
		Health: NewHealth(), Caches: NewCaches(), Engines: NewEngines(),
		Cache: CacheConfig{Credit: 2, TTL: time.Minute, Room: 1 << 20},
	})
	if err != nil {
		t.Fatal(err)
	}
	v := &View{Cluster: "llm", Endpoints: []Endpoint{{Addr: "10.0.0.1:80"}}}
	r := &Request{PromptTokens: 100, OutputTokens: 20, Blocks: chainOf(1, 4), Length: 400}
	before, _ := policy.Plan(0, r, v)
	for range 100 {
		o := answerOf(8)
		o.Addr, o.Verdict = "10.0.0.1:80", Success
		policy.Observe(0, o)
	}
	after, _ := policy.Plan(0, r, v)
	if before.Slot != 0 || before.Prefix.Credit != 200 {
		t.Errorf("before any answer: %d tokens for a slot, credit %.0f", before.Slot, before.Prefix.Credit)
	}
	if credit := after.Prefix.Credit; after.Slot != 100 || credit < 799 || credit > 801 {
		t.Errorf("with four waiting: %d tokens for a slot, credit %.0f, want 100 and 800", after.Slot, credit)
	}
	if after.Tokens != before.Tokens {
		t.Errorf("the request adds %d tokens, and %d before", after.Tokens, before.Tokens)
	}
}

// Of two endpoints with as many tokens in flight the one with fewer requests is taken, unless it has as many more
// tokens as the slots of the others cost.
func TestSlotsCost(t *testing.T) {
	p := &Plan{Unit: Tokens, Tokens: 10, Candidates: []Candidate{{Slope: 1, Weight: 1}, {Slope: 1, Weight: 1}}}
	for _, tc := range []struct {
		slot   int64
		second Load
		want   int
	}{
		{100, Load{Requests: 2, Tokens: 1000}, 1},
		{100, Load{Requests: 2, Tokens: 1299}, 1},
		{100, Load{Requests: 2, Tokens: 1301}, 0},
		{0, Load{Requests: 2, Tokens: 1001}, 0},
	} {
		p.Slot = tc.slot
		if got := Choose(p, []Load{{Requests: 5, Tokens: 1000}, tc.second}, nil); got != tc.want {
			t.Errorf("a slot of %d, %+v: endpoint %d, want %d", tc.slot, tc.second, got, tc.want)
		}
	}
	p.Slot = 100
	p.Candidates[1].Room, p.Candidates[1].Steep = 1010, 1 // of tokens: slots are none
	if got := Choose(p, []Load{{Requests: 2, Tokens: 1001}, {Requests: 2, Tokens: 1000}}, nil); got != 1 {
		t.Error("slots count against the room for tokens")
	}
}
