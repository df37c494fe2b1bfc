package measured

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The quantile is that of the sorted times, to 7 %.
func TestGaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g Gaps
		var all []time.Duration
		for range rapid.IntRange(1, 400).Draw(t, "n") {
			us := math.Pow(10, rapid.Float64Range(0, 8).Draw(t, "log")) // to 100 s
			d := time.Duration(us * float64(time.Microsecond))
			g.Add(d)
			all = append(all, d)
		}
		slices.Sort(all)
		for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 1} {
			want := all[max(0, int(math.Ceil(q*float64(len(all))))-1)]
			got := g.Quantile(q)
			off := max(got-want, want-got)
			if off > max(gapUnit/gapParts, want*7/100) || got > all[len(all)-1] {
				t.Fatalf("the %g quantile of %d is %s, want %s", q, len(all), got, want)
			}
		}
	})
}

// Whatever a clock says is counted.
func TestOddGaps(t *testing.T) {
	var none *Gaps
	var g Gaps
	if none.Quantile(0.99) != 0 || g.Quantile(0.99) != 0 {
		t.Error("there is a quantile of nothing")
	}
	g.Add(-time.Hour)
	if got := g.Quantile(1); got != 0 {
		t.Errorf("%s of one below zero", got)
	}
	g.Add(time.Hour)
	if got := g.Quantile(1); got != time.Hour {
		t.Errorf("the longest is %s, want 1h", got)
	}
}

func TestGapsAllocateNothing(t *testing.T) {
	var g Gaps
	if n := testing.AllocsPerRun(100, func() { g.Add(25 * time.Millisecond) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}
