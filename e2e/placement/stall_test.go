package placement

import (
	"slices"
	"testing"
	"time"
)

// When metrics of one server or of all do not come any more, the limits that they have shown hold: no server gets more
// than it can run, and all go on as before. Tries of other limits add one request, or an eighth, for a short time.
func TestLimitsHoldWithoutMetrics(t *testing.T) {
	eachLab(t, func(t *testing.T, l pushLab) {
		for name, gone := range map[string]int{"one server": 1, "all": 3} {
			if testing.Short() && gone == 1 {
				continue
			}
			x := l
			x.slots = []int{6, 8, 6}
			x.blind = func(now time.Duration, server int) bool { return now > time.Hour+time.Minute && server < gone }
			x.start().run(time.Minute)
			x.run(time.Minute)
			before := float64(x.done())
			x.run(4 * time.Second) // metrics count for so long
			for _, span := range []time.Duration{20 * time.Second, 4 * time.Minute} {
				bound := 1.0
				if span > time.Minute {
					bound = 1.2
				}
				x.run(span)
				mean, most := x.fills()
				t.Logf("%s, %v: %.2f of the slots, at most %.2f", name, span, mean, most)
				if slices.Max(most[:gone]) > bound || slices.Min(mean[:gone]) < 0.9 {
					t.Errorf("%s, %v: %.2f of the slots, at most %.2f", name, span, mean, most)
				}
				// Answers of some 20 s are longer than those before.
				if rate := float64(x.done()) / span.Minutes(); span > time.Minute && rate < 0.88*before {
					t.Errorf("%s, %v: %.0f answers a minute, %.0f with metrics", name, span, rate, before)
				}
			}
		}
	})
}

// Without any metrics servers settle near what they can run, whatever they had at first, and equal ones at equal
// limits.
func TestLimitsConvergeWithoutMetrics(t *testing.T) {
	eachLab(t, func(t *testing.T, l pushLab) {
		l.slots = []int{6, 8, 8}
		l.start().run(6 * time.Minute)
		l.run(4 * time.Minute)
		mean, most := l.fills()
		t.Logf("%.2f of the slots, at most %.2f", mean, most)
		if slices.Max(mean) > 1.25 || slices.Min(mean) < 0.8 || max(mean[1], mean[2]) > 1.25*min(mean[1], mean[2]) {
			t.Errorf("%.2f of the slots, at most %.2f", mean, most)
		}
	})
}

// A server that can run three times as many requests as another one gets them soon, without metrics.
func TestLargeServerGetsItsShare(t *testing.T) {
	eachLab(t, func(t *testing.T, l pushLab) {
		l.slots = []int{16, 48}
		l.start().run(2 * time.Minute)
		at := l.servers[1].fullAt - time.Hour
		t.Logf("after %v", at)
		if at < 0 || at > time.Minute {
			t.Errorf("three quarters of it are used after %v", at)
		}
	})
}
