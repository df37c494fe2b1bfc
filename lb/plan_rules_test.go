package lb

import (
	"math"
	"slices"
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
		if p.AddedTokens(0) != want || p.added() != float64(want) {
			t.Errorf("%d tokens add %d, %v", tokens, p.AddedTokens(0), p.added())
		}
	}
}

// Endpoints of other tiers cost more than any of the request's tier does at any load, in the order that they have
// without that. Crossing zones costs as much as that many requests.
func TestCostsOfTiers(t *testing.T) {
	cs := []Candidate{
		{Base: 5, Slope: 2, OverSlope: 1, Weight: 0.5},
		{Base: -3, Slope: 1, Weight: 2, Tier: 1},
		{Base: 9, Slope: 1, Weight: 1, Tier: 1, ZonePenalty: 2},
		{Base: 1, Slope: 1, Weight: 1},
	}
	const huge = 1 << 32 * 6 // 6 is the largest slope by weight
	got := tierCosts{tier: 0, requestLoad: 10}.apply(cs)
	for i, want := range []float64{5, -3 + 29 + 3 + huge, 29 + 29 + 3 + huge, 1} {
		if !near(got[i].Base, want) {
			t.Errorf("candidate %d has a base cost of %v, want %v", i, got[i].Base, want)
		}
	}
	if cs[1].Base != -3 {
		t.Error("the candidates have changed")
	}
}

// A tier is drawn in proportion to its load.
func TestDrawTier(t *testing.T) {
	tiers := []tier{{load: 25}, {load: 0}, {load: 75}}
	for draw, want := range map[uint64]uint8{0: 0, 1<<14 - 1: 0, 1 << 14: 2, 1<<16 - 1: 2} {
		if got := drawTier(tiers, draw<<32|math.MaxUint32); got != want {
			t.Errorf("a draw of %d of 65536: tier %d, want %d", draw, got, want)
		}
	}
	if got := drawTier([]tier{{load: 10}}, 1<<48-1); got != 0 {
		t.Errorf("above all loads: tier %d", got)
	}
}

// Priorities below 1 % get no tier, but for the first one if all are.
func TestSplitLoad(t *testing.T) {
	for _, c := range []struct {
		name       string
		priorities []priorityCounts
		want       []tier
	}{
		{"none", []priorityCounts{{0, 0, 0}}, nil},
		{"nothing usable", []priorityCounts{{0, 0, 9}}, nil},
		{"all healthy", []priorityCounts{{3, 0, 3}, {3, 0, 3}}, []tier{{load: 100}}},
		{"half of them", []priorityCounts{{1, 0, 2}, {2, 0, 2}}, []tier{{load: 70}, {priority: 1, load: 30}}},
		{"half of both", []priorityCounts{{1, 0, 2}, {1, 0, 2}}, []tier{{load: 70}, {priority: 1, load: 30}}},
		{"few of both", []priorityCounts{{1, 0, 10}, {1, 0, 10}}, []tier{{load: 50}, {priority: 1, load: 50}}},
		{"a third", []priorityCounts{{1, 0, 3}}, []tier{{load: 100}}},
		{"degraded", []priorityCounts{{1, 1, 2}}, []tier{{load: 70}, {state: Degraded, load: 30}}},
		{"all below 1 %", []priorityCounts{{1, 0, 1000}, {1, 0, 1000}}, []tier{{load: 100}}},
		{"rounding", []priorityCounts{{1, 0, 8}, {1, 0, 8}, {1, 0, 8}}, []tier{
			{load: 34}, {priority: 1, load: 33}, {priority: 2, load: 33},
		}},
	} {
		if got := splitLoad(c.priorities); !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// A tier panics below the threshold, unless all priorities together can take all requests.
func TestMarkPanic(t *testing.T) {
	for _, c := range []struct {
		threshold int
		counts    priorityCounts
		want      bool
	}{
		{50, priorityCounts{5, 0, 10}, false},
		{51, priorityCounts{5, 0, 10}, true},
		{50, priorityCounts{4, 1, 10}, false},
		{60, priorityCounts{4, 1, 10}, true},
		{0, priorityCounts{1, 0, 10}, false},
		{100, priorityCounts{9, 0, 10}, false}, // 9 of 10 can take all
	} {
		tiers := []tier{{}}
		cfg := HealthConfig{PanicThreshold: c.threshold}
		if cfg.markPanic(tiers, []priorityCounts{c.counts}); tiers[0].panics != c.want {
			t.Errorf("%+v: panics %v", c, tiers[0].panics)
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

// A policy without settings gets their zero value; given ones stay.
func TestSettingsOfAPolicy(t *testing.T) {
	before := registry
	defer func() { registry = before }()
	var got any
	registry = append(slices.Clone(before), &Descriptor{
		Name: "test", Settings: func() any { return new(int) },
		New: func(c Config) (Policy, error) { got = c.Settings; return nil, nil },
	})
	if _, err := New("test", Config{}); err != nil || got == nil || *got.(*int) != 0 {
		t.Errorf("settings %v, %v", got, err)
	}
	given := new(int)
	if _, err := New("test", Config{Settings: given}); err != nil || got != any(given) {
		t.Errorf("settings %v, %v", got, err)
	}
}

// Where crossing zones costs nothing, a plan has the candidates of the cluster's health.
func TestPlanWithoutZones(t *testing.T) {
	for penalty, want := range map[float64]bool{0: true, 1: false} {
		h, v := NewHealth(), viewOf(0, 2)
		v.Zone, v.Endpoints[0].Zone = Zone{Name: "a"}, Zone{Name: "b"}
		cluster := ClusterConfig{ZonePenalty: penalty}
		p, err := New("global_least_request", Config{Health: h, Cluster: cluster, Engines: NewEngines()})
		if err != nil {
			t.Fatal(err)
		}
		plan, reason := p.Plan(0, &Request{}, v)
		list, _ := h.Candidates(0, v, p.(*leastRequest).cluster, 0)
		if same := plan.Digest() == list.Digest(); reason != ReasonChosen || same != want {
			t.Errorf("a penalty of %v: %v, the same candidates %v", penalty, reason, same)
		}
	}
}
