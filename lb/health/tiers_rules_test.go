package health

import (
	"math"
	"slices"
	"testing"

	"github.com/warmgate/warmgate/lb"
)

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
		{"degraded", []priorityCounts{{1, 1, 2}}, []tier{{load: 70}, {state: lb.Degraded, load: 30}}},
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
		cfg := Config{PanicThreshold: c.threshold}
		if cfg.markPanic(tiers, []priorityCounts{c.counts}); tiers[0].panics != c.want {
			t.Errorf("%+v: panics %v", c, tiers[0].panics)
		}
	}
}
