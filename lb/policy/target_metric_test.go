package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb/engines"
)

var targetChoices = []struct {
	name  string
	order engines.Order
	by    string
	pages [3]string
	loads []int64
	want  int
}{
	{
		"least of a gauge", engines.LowestTarget, "my_gauge",
		[3]string{"my_gauge 5", "my_gauge 2", "my_gauge 3"},
		[]int64{1, 1, 1},
		1,
	},
	{
		"most of a gauge", engines.HighestTarget, "my_gauge",
		[3]string{"my_gauge 5", "my_gauge 2", "my_gauge 3"},
		[]int64{1, 1, 1},
		0,
	},
	{
		"what came since counts", engines.LowestTarget, "my_gauge",
		[3]string{"my_gauge 5", "my_gauge 2", "my_gauge 3"},
		[]int64{1, 4, 1},
		2,
	},
	{
		"most, too", engines.HighestTarget, "my_gauge",
		[3]string{"my_gauge 5", "my_gauge 2", "my_gauge 4"},
		[]int64{3, 1, 1},
		2,
	},
	{
		"an engine without it has the mean", engines.LowestTarget, "my_gauge",
		[3]string{"my_gauge 5", running(0), "my_gauge 3"},
		[]int64{1, 1, 1},
		2,
	},
	{
		"no engine reports it", engines.LowestTarget, "my_gauge",
		[3]string{running(1), running(1), running(1)},
		[]int64{1, 1, 1},
		-1,
	},
	{
		"not looked for", engines.LowestTarget, "other",
		[3]string{"my_gauge 5", "my_gauge 2", "my_gauge 3"},
		[]int64{1, 1, 1},
		-1,
	},
	{
		"requests that have ended are not subtracted", engines.LowestTarget, "my_gauge",
		[3]string{"my_gauge 3", "my_gauge 1", "my_gauge 3"},
		[]int64{0, 1, 0},
		1,
	},
	{
		"all alike is least request", engines.LowestTarget, "my_gauge",
		[3]string{"my_gauge 0", "my_gauge 0", "my_gauge 0"},
		[]int64{2, 2, 1},
		2,
	},
}

func TestTargets(t *testing.T) {
	for _, c := range targetChoices {
		t.Run(c.name, func(t *testing.T) {
			w := newEngineCluster(t, 3, func(cfg *engines.Config) { cfg.Order, cfg.Target = c.order, c.by })
			for i, page := range c.pages {
				w.report(i, 1, page)
			}
			w.update()
			if got := w.choice("", c.loads...); got != c.want {
				t.Errorf("chose %d, want %d", got, c.want)
			}
		})
	}
}

// No reported value attracts all requests: negative values count as 0, high ones as at most eight times the median.
func TestTargetsAreBounded(t *testing.T) {
	for _, c := range []struct {
		order engines.Order
		pages []string
		least float64 // base cost of the first endpoint
	}{
		{engines.LowestTarget, []string{"my_gauge -9007199254740992", "my_gauge 9", "my_gauge 8"}, 0},
		{engines.LowestTarget, []string{"my_gauge -9007199254740992", "my_gauge -9", "my_gauge -8"}, -72},
		{engines.HighestTarget, []string{"my_gauge 9007199254740992", "my_gauge 2", "my_gauge 3"}, -24},
		{engines.HighestTarget, []string{"my_gauge 5", "my_gauge 0", "my_gauge 0"}, -5}, // the only one that has any
	} {
		w := newEngineCluster(t, len(c.pages), func(cfg *engines.Config) {
			cfg.Order, cfg.Target = c.order, "my_gauge"
		})
		for i, page := range c.pages {
			w.report(i, 1, page)
		}
		w.update()
		p, _ := w.plan("")
		if got := p.Candidates[0].Base; got != c.least {
			t.Errorf("%v: cost %v, want %v", c.pages, got, c.least)
		}
	}
}

// A counter counts by its growth: the engine with the longest uptime is not the busiest.
func TestCounterTarget(t *testing.T) {
	w := newEngineCluster(t, 2, func(cfg *engines.Config) {
		cfg.Order, cfg.Target = engines.LowestTarget, "my_counter"
	})
	for i := range 3 {
		w.now += time.Second
		w.report(0, 1, fmt.Sprintf("my_counter_total %d", 1_000_000+10*i))
		w.report(1, 1, fmt.Sprintf("my_counter_total %d", 500*i))
		w.update()
	}
	if got := w.choice("", 1, 1); got != 0 {
		t.Errorf("chose %d, want the one that counts slowly", got)
	}
}
