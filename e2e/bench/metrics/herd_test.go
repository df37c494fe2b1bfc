package metrics

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
)

// picks makes a run of so many windows of n requests each; choose returns where the k-th of a window goes.
func picks(windows, n int, choose func(w, k int) int) []loadgen.Sample {
	var out []loadgen.Sample
	for w := range windows {
		for k := range n {
			at := time.Duration(w)*window + window*time.Duration(k)/time.Duration(n)
			out = append(out, loadgen.Sample{Endpoint: strconv.Itoa(choose(w, k)), Sent: at, Due: at})
		}
	}
	return out
}

func near(a, b, by float64) bool { return math.Abs(a-b) <= by }

func TestHerdOf(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	weighted := func() int { // shares 4/10, 3/10, 2/10, 1/10
		return []int{0, 0, 0, 0, 1, 1, 1, 2, 2, 3}[r.IntN(10)]
	}
	byChance := math.Sqrt(3. / 100)
	for _, c := range []struct {
		name       string
		samples    []loadgen.Sample
		cv, chance float64
		windows    int
	}{
		{"in turn", picks(50, 100, func(_, k int) int { return k % 4 }), 0, byChance, 50},
		{
			"shares that last are no herd", picks(50, 100, func(_, k int) int { return min(k/40, 3) }), 0,
			math.Sqrt(2. / 100), 50,
		},
		{"at random", picks(4000, 100, func(int, int) int { return r.IntN(4) }), byChance, byChance, 4000},
		{
			"at random, with unequal shares", picks(4000, 100, func(int, int) int { return weighted() }), byChance,
			byChance, 4000,
		},
		{
			"all to another one every time", picks(40, 100, func(w, _ int) int { return w % 4 }), math.Sqrt(3),
			byChance, 40,
		},
		{"half of them to another one every time", picks(40, 100, func(w, k int) int {
			if k%2 == 0 {
				return w % 4
			}
			return k / 2 % 4
		}), math.Sqrt(3) / 2, byChance, 40},
		{"windows with too few", picks(50, 4*fewest-1, func(_, k int) int { return k % 4 }), 0, 0, 0},
		{"nothing served", picks(50, 100, func(int, int) int { return -1 }), 0, 0, 0},
	} {
		h := herdOf(c.samples, 4)
		if !near(h.CV, c.cv, 0.011) || !near(h.Chance, c.chance, 1e-9) || h.Windows != c.windows {
			t.Errorf("%s: %+v, want %.3f, %.3f by chance, %d windows", c.name, h, c.cv, c.chance, c.windows)
		}
	}
}

func TestHerdBeyondChance(t *testing.T) {
	for _, c := range []struct {
		h    herd
		want float64
	}{{herd{CV: 0.5, Chance: 0.3}, 0.4}, {herd{CV: 0.2, Chance: 0.3}, 0}, {herd{}, 0}} {
		if got := c.h.excess(); !near(got, c.want, 1e-9) {
			t.Errorf("%+v: %v, want %v", c.h, got, c.want)
		}
	}
}
