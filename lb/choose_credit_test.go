package lb

import (
	"testing"

	"github.com/warmgate/warmgate/lb/prompt"
)

// The credit grows with the lowest number of requests at a candidate, up to a bound. A candidate at its cap does not
// count; an idle one does, as when it has just been added.
func TestCreditFollowsLowestLoad(t *testing.T) {
	plan := &Plan{
		Unit:   Tokens,
		Prefix: Prefix{Blocks: []prompt.Block{{Key: 1, End: 100}}, Bytes: 100, Credit: 100, CreditGrowth: 0.5},
		List:   NewList([]Candidate{{Slope: 1, Weight: 1}, {Slope: 1, Weight: 1}, {Slope: 1, Weight: 1, Cap: 1}}),
	}
	full := Load{Requests: 1}
	for _, tc := range []struct {
		others, load int64 // requests at the other endpoint; tokens at the one that has the prompt
		want         int
	}{
		{0, 99, 0},
		{0, 101, 1},
		{4, 299, 0},
		{4, 301, 1},
		{1000, maxCreditGain*100 - 1, 0},
		{1000, maxCreditGain*100 + 1, 1},
	} {
		loads := []Load{{Requests: 2000, Tokens: tc.load}, {Requests: tc.others}, full}
		if got := Choose(plan, loads, []int{1, 0, 0}); got != tc.want {
			t.Errorf("%+v: endpoint %d", tc, got)
		}
	}
}

// Of two endpoints with equal tokens in flight the one with fewer requests is chosen, unless its tokens exceed the
// other's by more than the load of the additional requests.
func TestPerRequestLoad(t *testing.T) {
	p := &Plan{Unit: Tokens, Tokens: 10, List: NewList([]Candidate{{Slope: 1, Weight: 1}, {Slope: 1, Weight: 1}})}
	for _, tc := range []struct {
		each   int64
		second Load
		want   int
	}{
		{100, Load{Requests: 2, Tokens: 1000}, 1},
		{100, Load{Requests: 2, Tokens: 1299}, 1},
		{100, Load{Requests: 2, Tokens: 1301}, 0},
		{0, Load{Requests: 2, Tokens: 1001}, 0},
	} {
		p.PerRequest = tc.each
		if got := Choose(p, []Load{{Requests: 5, Tokens: 1000}, tc.second}, nil); got != tc.want {
			t.Errorf("%d a request, %+v: endpoint %d, want %d", tc.each, tc.second, got, tc.want)
		}
	}
}

// A prompt that has to be computed stalls those in flight there: it goes where fewer wait, though more tokens are in
// flight there. What is cached stalls nobody, also when it is worth no credit.
func TestStall(t *testing.T) {
	p := &Plan{
		Unit: Tokens, Tokens: 100, Stall: 50,
		Prefix: Prefix{
			Blocks: []prompt.Block{{Key: 1, End: 60}, {Key: 2, End: 100}}, Bytes: 100, CreditBytes: []uint32{0, 0},
		},
		List: NewList([]Candidate{{Slope: 1, Weight: 1}, {Slope: 1, Weight: 1}}),
	}
	busy := Load{Requests: 5, Tokens: 1000}
	for _, tc := range []struct {
		stall   float64
		second  Load
		matched []int
		want    int
	}{
		{50, Load{Requests: 1, Tokens: 1199}, nil, 1},
		{50, Load{Requests: 1, Tokens: 1201}, nil, 0},
		{50, Load{Requests: 1, Tokens: 1201}, []int{0, 0}, 0},
		{50, Load{Requests: 1, Tokens: 1051}, []int{1, 0}, 0}, // 100 there, and 50
		{50, Load{Requests: 1, Tokens: 1049}, []int{1, 0}, 1},
		{50, Load{Requests: 1, Tokens: 951}, []int{2, 0}, 0}, // wholly cached: none
		{50, Load{Requests: 1, Tokens: 949}, []int{2, 0}, 1},
		{0, Load{Requests: 1, Tokens: 1001}, []int{0, 0}, 0},
		{0, Load{Requests: 1, Tokens: 999}, []int{2, 0}, 1},
	} {
		p.Stall = tc.stall
		if got := Choose(p, []Load{busy, tc.second}, tc.matched); got != tc.want {
			t.Errorf("%+v: endpoint %d", tc, got)
		}
	}
}
