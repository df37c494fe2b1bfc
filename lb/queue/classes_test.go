package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// mix adds visits of both classes that come between two times, so many of each a second.
func (t *traffic) mix(from, until time.Duration, strict bool, high, low float64, size int64) {
	for _, part := range []struct {
		class lb.Class
		n     float64
		size  int64
	}{{interactive, high, 1}, {batch, low, size}} {
		if part.n == 0 {
			continue
		}
		t.comes(t.rng, from, until, part.n, func() visit {
			v := t.visit(part.class, func(w *lb.Wait) { w.Strict = strict })
			v.tokens *= part.size
			return v
		})
	}
}

func orderName(strict bool) string {
	if strict {
		return "strict"
	}
	return "weighted"
}

// A class that another one passes is let in by what it gets: few wait in vain, however its requests differ in size from
// those that pass them, and of those that are refused few could have been placed beside all others. Where nothing but
// the rest of the servers is left to it, and that is a tenth, nobody knows what comes in 20 s.
func TestRefusalsOfTwoClasses(t *testing.T) {
	for _, c := range []struct {
		high, low float64
		size      int64
		most      float64 // in per cent
		seeds     uint64
	}{
		{1.3, 0.1, 1, 2, 2},
		{1.3, 0.1, 10, 2, 4},
		{1.3, 0.1, 50, 2, 4},
		{0.6, 2, 1, 2, 4},
		{0.6, 2, 50, 2, 4},
		{0.9, 1, 1, 2, 2},
		{0.9, 1, 10, 3, 8},
		{0.9, 1, 50, 3, 8},
		{0.12, 2, 1, 2, 2},
		{0.12, 2, 50, 2, 2},
	} {
		for _, strict := range []bool{false, true} {
			name := fmt.Sprintf("%g and %g, sizes 1 and %d, %s", c.high, c.low, c.size, orderName(strict))
			t.Run(name, func(t *testing.T) {
				var high, low tally
				for seed := range c.seeds {
					traffic, capacity := newTraffic(seed, 3*time.Second, 0.9)
					traffic.mix(0, 2*time.Minute, strict, c.high*capacity, c.low*capacity, c.size)
					high.add(traffic.judge(0, func(v *visit) bool {
						return measured(v) && v.wait.Class == interactive
					}))
					low.add(traffic.judge(0, func(v *visit) bool { return measured(v) && v.wait.Class == batch }))
				}
				checkTally(t, "the higher class", high, c.most)
				checkTally(t, "the lower class", low, c.most)
			})
		}
	}
}

// checkTally fails the test if more per cent were late of those let in, or placeable of those refused.
func checkTally(t *testing.T, of string, sum tally, most float64) {
	t.Helper()
	t.Logf("%s: %v", of, sum)
	if late, beside := sum.percent(); late > most || beside > most {
		t.Errorf("of %s %.1f %% of those let in were late, %.1f %% of those refused could have been placed", of, late,
			beside)
	}
}

// When the overload by a higher class ends, the lower one is not refused by what it got before.
func TestRefusalsWhenAnOverloadEnds(t *testing.T) {
	for _, strict := range []bool{false, true} {
		for _, pause := range []time.Duration{0, 5 * time.Second, 15 * time.Second} {
			for _, before := range []float64{0.5, 0.8} {
				t.Run(fmt.Sprintf("%s, %v after, %g before", orderName(strict), pause, before), func(t *testing.T) {
					var sum tally
					for seed := range uint64(2) {
						traffic, capacity := newTraffic(seed, 3*time.Second, 0.9)
						traffic.mix(0, time.Minute, strict, 1.5*capacity, before*capacity, 1)
						from := time.Minute + pause
						traffic.mix(from, from+time.Minute, strict, 0, 0.8*capacity, 1)
						sum.add(traffic.judge(0, func(v *visit) bool { return v.at >= from && v.wait.Class == batch }))
					}
					checkTally(t, "the lower class", sum, 2)
				})
			}
		}
	}
}
