package lb

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb/prompt"
)

// A prompt is looked up if it has blocks and a length, and endpoints retain it for a millisecond or longer.
func TestNeedsLookup(t *testing.T) {
	blocks := []prompt.Block{{End: 1}}
	for _, c := range []struct {
		p    Prefix
		want bool
	}{
		{Prefix{Blocks: blocks, Bytes: 1, TTL: time.Millisecond}, true},
		{Prefix{Blocks: blocks, Bytes: 1, TTL: time.Millisecond - 1}, false},
		{Prefix{Blocks: blocks, Bytes: 0, TTL: time.Hour}, false},
		{Prefix{Bytes: 1, TTL: time.Hour}, false},
	} {
		if got := c.p.NeedsLookup(); got != c.want {
			t.Errorf("%+v: %v", c.p, got)
		}
	}
}

// A match of n blocks is their part of the prompt, and is credited with their bytes unless fewer are.
func TestFractions(t *testing.T) {
	p := Prefix{Blocks: []prompt.Block{{End: 100}, {End: 250}}, Bytes: 1000}
	credited := p
	credited.CreditBytes = []uint32{100, 150}
	for n, want := range [][2]float64{{0, 0}, {0.1, 0.1}, {0.25, 0.15}} {
		if p.Fraction(n) != want[0] || p.creditFraction(n) != want[0] || credited.creditFraction(n) != want[1] {
			t.Errorf("%d blocks are %v, credited %v and %v", n, p.Fraction(n), p.creditFraction(n),
				credited.creditFraction(n))
		}
	}
	plan := Plan{Tokens: 90, Prefix: p}
	plan.Prefix.Tokens = 80
	for n, want := range []int64{90, 82, 70} {
		if got := plan.AddedTokens(n); got != want {
			t.Errorf("a match of %d blocks adds %d tokens, want %d", n, got, want)
		}
	}
	for tokens, want := range map[int64]int64{-5: 0, 0: 0, MaxTokens: MaxTokens, MaxTokens + 1: MaxTokens} {
		p := Plan{Unit: Tokens, Tokens: tokens}
		if p.AddedTokens(0) != want || p.Added() != float64(want) {
			t.Errorf("%d tokens add %d, %v", tokens, p.AddedTokens(0), p.Added())
		}
	}
}

// Without the remote store a gateway has its share of the caps, at least 1 request and 1 token.
func TestShareOfCaps(t *testing.T) {
	cs := []Candidate{{Cap: 0, TokenCap: 10}, {Cap: 1}, {Cap: 10, TokenCap: 1}}
	for share, want := range map[float64][3]int64{1: {0, 1, 10}, 2: {0, 1, 10}, 0.5: {0, 1, 5}, 0.39: {0, 1, 3}} {
		var s shareOfCaps
		got := s.apply(time.Hour, NewList(cs), share).Candidates
		if [3]int64{got[0].Cap, got[1].Cap, got[2].Cap} != want {
			t.Errorf("a share of %v: %v", share, got)
		}
		if tokens := [3]int64{got[0].TokenCap, got[1].TokenCap, got[2].TokenCap}; tokens != [3]int64{want[2], 0, 1} {
			t.Errorf("a share of %v in tokens: %v", share, got)
		}
	}
}

func TestNamesOfReasons(t *testing.T) {
	for r := range reasonCount {
		if r.String() != reasonNames[r] || r.String() == "" {
			t.Errorf("reason %d is %q", r, r)
		}
	}
	if got := reasonCount.String(); got == "" {
		t.Error("an unknown reason has no text")
	}
}

// The cost of a request in the plan's unit, with the load of each request in flight beside its tokens.
func TestCost(t *testing.T) {
	for _, c := range []struct {
		p    Plan
		c    Candidate
		l    Load
		want float64
	}{
		{Plan{}, Candidate{Slope: 1, Weight: 1}, Load{}, 1},
		{Plan{}, Candidate{Base: 3, Slope: 2, Weight: 4}, Load{Requests: 5}, 3 + 2*6/4.0},
		{Plan{Unit: Tokens, Tokens: 10}, Candidate{Slope: 1, Weight: 1}, Load{2, 1000}, 1010},
		{Plan{Unit: Tokens, Tokens: 10, PerRequest: 100}, Candidate{Slope: 1, Weight: 2}, Load{2, 1000}, 655},
		{Plan{PerRequest: 2}, Candidate{Slope: 1, Weight: 1}, Load{Requests: 4}, 5 + 10},
		{Plan{Stall: 3}, Candidate{Slope: 2, Weight: 4}, Load{Requests: 4}, 2 * (5 + 3*4) / 4.0},
		{Plan{Stall: 3}, Candidate{Slope: 1, Weight: 1}, Load{Requests: 40}, 41 + 3*32},
		{Plan{Stall: 3}, Candidate{Slope: 1, Weight: 1, OverSlope: 8, Capacity: 5}, Load{Requests: 6}, 7 + 3*5 + 16},
		{Plan{Stall: 3}, Candidate{Slope: 1, Weight: 1, OverSlope: 1, Capacity: -2}, Load{}, 1 + 3},
		{Plan{Stall: -3}, Candidate{Slope: 1, Weight: 1}, Load{Requests: 4}, 5},
		{Plan{}, Candidate{Slope: 1, Weight: 2, OverSlope: 8, Capacity: 5}, Load{Requests: 4}, 2.5},
		{Plan{}, Candidate{Slope: 1, Weight: 2, OverSlope: 8, Capacity: 5}, Load{Requests: 6}, 3.5 + 8},
		{Plan{PerRequest: 2}, Candidate{Slope: 1, Weight: 1, OverSlope: 8, Capacity: 5}, Load{Requests: 4}, 15},
	} {
		if got := c.p.cost(&c.c, c.l, c.p.Added(), c.p.stall(nil, 0)); !near(got, c.want) {
			t.Errorf("%+v at %+v: %v, want %v", c.c, c.l, got, c.want)
		}
	}
}

// Of endpoints with the same tag the last entry counts, as in Redis.
func TestTTLOfEqualTags(t *testing.T) {
	p := Prefix{TTL: time.Hour, ShortTTL: []EndpointTTL{{7, time.Minute}, {8, time.Second}, {7, 2 * time.Minute}}}
	if got := p.TTLOf(7); got != 2*time.Minute {
		t.Errorf("a TTL of %v", got)
	}
	if got := p.TTLOf(9); got != time.Hour {
		t.Errorf("another has a TTL of %v", got)
	}
}
