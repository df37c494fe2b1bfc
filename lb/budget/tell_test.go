package budget_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb/budget"
)

// Callers whom nobody remembers are told the times at which the targets take one after the other, also if they are
// refused at once.
func TestCallersAreToldDifferentTimes(t *testing.T) {
	ts := []budget.Target{
		{Limits: budget.Limits{Weight: 1}, State: budget.State{At: 1, TakenAt: 1, Interval: 200}, Full: true},
		{Limits: budget.Limits{Weight: 1}, State: budget.State{At: 1, TakenAt: 1, Interval: 300}, Full: true},
	}
	for i, want := range []float64{200, 300, 400, 600, 600, 800, 900, 1000} {
		if _, wait := budget.Tell(ts, 10); wait != want {
			t.Errorf("caller %d is told %g ms, want %g", i, wait, want)
		}
	}
	for i := range ts {
		ts[i].Advance(501)
	}
	if _, wait := budget.Tell(ts, 10); wait != 700 {
		t.Errorf("half a second later the next is told %g ms, want 700", wait)
	}
	s := of(1, budget.Limits{Weight: 1, Tokens: 60_000})
	s.MissingTokens = 60_000
	ts = []budget.Target{{Limits: budget.Limits{Weight: 1, Tokens: 60_000}, State: s}}
	for i, want := range []float64{100, 200, 300} {
		if _, wait := budget.Tell(ts, 100); wait != want {
			t.Errorf("tokens: caller %d is told %g ms, want %g", i, wait, want)
		}
	}
}

// However many callers there are, in a tenth of the span that they are spread over are little more than a tenth of
// them, and no one waits for longer than that beyond when a target is open.
func TestCallersAreSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ts := make([]budget.Target, rapid.IntRange(1, 10).Draw(t, "targets"))
		for i := range ts {
			interval := rapid.Float64Range(1, 500).Draw(t, "interval")
			ts[i] = budget.Target{State: budget.State{At: 1, TakenAt: 1, Interval: interval}, Full: true}
		}
		n := rapid.IntRange(1, 3000).Draw(t, "callers")
		bins, slots := [120]int{}, [120]int{}
		for range n {
			_, wait := budget.Tell(ts, 1)
			if wait > 5500 {
				t.Fatalf("a caller is told %g ms", wait)
			}
			bins[int(wait/50)]++
		}
		all := 0
		open := ts[0].Interval
		for i := range ts {
			open = min(open, ts[i].Interval)
		}
		for i := range ts { // what the targets take in each part of the span
			for at := ts[i].Interval; at <= open+5000; at += ts[i].Interval {
				slots[int(at/50)]++
				all++
			}
		}
		for i := range bins {
			// Each time around, a target's first time and its last may be in another part than here.
			if most := (n/all + 2) * (slots[i] + len(ts)); bins[i] > most {
				t.Fatalf("%d of %d callers are told %d to %d ms, when %d of %d are taken", bins[i], n, 50*i, 50*i+50,
					slots[i], all)
			}
		}
	})
}
