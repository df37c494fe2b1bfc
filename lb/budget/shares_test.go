package budget_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/warmgate/warmgate/lb/budget"
)

// tenTargets returns a simulation of n tasks at ten targets of unequal weight and speed. Their rates are in proportion
// to the weights, and the callers are more than the rates allow.
func tenTargets(seed uint64, n int) *simulation {
	s := &simulation{random: rand.New(rand.NewPCG(seed, 1)), closed: -1, workers: 400}
	speeds := []float64{1000, 120e3, 5000, 60e3, 2000, 30e3, 10e3, 4000, 20e3, 8000}
	for i, weight := range []float64{1, 1, 2, 2, 3, 3, 4, 5, 6, 8} {
		s.limits = append(s.limits, budget.Limits{Weight: weight, Tokens: 60_000 * weight})
		s.caps = append(s.caps, 40+int(40*weight))
		s.speed = append(s.speed, speeds[i])
	}
	s.sizes = logNormal(s.random, n, 1800, 1)
	return s
}

// unlimited returns a simulation in which only the number of callers limits the work.
func unlimited(seed uint64, n int) *simulation {
	s := tenTargets(seed, n)
	s.workers = 60
	for i := range s.limits {
		s.limits[i].Tokens = 0
		s.speed[i] /= 10
	}
	return s
}

const seeds = 4

// longRun is how many tasks take a quarter of an hour at these rates: what is in a bucket at the end is at most a
// minute of them.
const longRun = 12_000

// worst returns the largest value over some seeds, and their mean.
func worst(value func(seed uint64) float64) (most, mean float64) {
	for seed := range uint64(seeds) {
		v := value(seed)
		most = max(most, v)
		mean += v / seeds
	}
	return most, mean
}

func TestSharesAreTheWeightsWhileSaturated(t *testing.T) {
	cases := map[string]func(seed uint64) float64{
		"rates limit the work": func(seed uint64) float64 {
			s := tenTargets(seed, longRun)
			s.bonus = 20_000
			s.run()
			return s.shareError(0, 0.95*s.ended)
		},
		"estimates are wrong by a third": func(seed uint64) float64 {
			s := tenTargets(seed, longRun)
			s.noise, s.bonus = 0.3, 20_000
			s.run()
			return s.shareError(0, 0.95*s.ended)
		},
		"callers limit the work": func(seed uint64) float64 {
			s := unlimited(seed, 12_000)
			s.run()
			return s.shareError(0, s.ended)
		},
		"caps are often reached": func(seed uint64) float64 {
			s := unlimited(seed, 12_000)
			for i := range s.limits {
				s.speed[i] = 4000 * (0.6 + 0.8*float64(i)/9)
				s.caps[i] = int(60*s.limits[i].Weight/35*1.3) + 1
			}
			s.run()
			return s.shareError(0, s.ended)
		},
		"a target was closed for a minute": func(seed uint64) float64 {
			s := unlimited(seed, 14_000)
			s.workers = 120
			s.closed, s.closeAt = 7, 60_000
			s.run()
			if s.charged(7, 60_000, 120_000) > 0 || s.charged(7, 120_000, 121_000) == 0 {
				t.Error("the target was not closed for its minute")
			}
			return s.shareError(120_000, 180_000)
		},
	}
	for name, simulate := range cases {
		t.Run(name, func(t *testing.T) {
			most, mean := worst(simulate)
			t.Logf("share error: %.1f %% at most, %.1f %% on average", 100*most, 100*mean)
			if most > 0.05 {
				t.Errorf("a share differs by %.1f %% from its weight", 100*most)
			}
		})
	}
}

// Tasks that are no larger than a bucket, and use what was estimated.
func TestTokensInAnyMinuteAreAtMostRateAndBurst(t *testing.T) {
	for _, bonus := range []float64{0, 20_000} {
		most, _ := worst(func(seed uint64) float64 {
			s := tenTargets(seed, 6000)
			for i := range s.sizes {
				s.sizes[i] = min(s.sizes[i], 60_000)
			}
			s.bonus = bonus
			s.run()
			if s.over > 0 {
				t.Errorf("%d times more in flight than a cap", s.over)
			}
			return s.excess()
		})
		if most > 0 {
			t.Errorf("bonus %g: %g tokens more than rate and burst", bonus, most)
		}
	}
}

func TestAgeBonusBoundsTheWaitOfLargeRequests(t *testing.T) {
	for _, workers := range []int{300, 400, 600} {
		ratio := func(bonus float64) (ratio, end float64) {
			large, median := 0.0, 0.0
			for seed := range uint64(seeds) {
				s := tenTargets(seed, 3000)
				s.workers, s.bonus = workers, bonus
				s.run()
				large += s.waitOf(0.99, 1)
				median += s.waitOf(0.45, 0.55)
				end += s.ended / seeds
			}
			return large / median, end
		}
		without, endWithout := ratio(0)
		with, end := ratio(20_000)
		t.Logf("%d workers: p99 wait of the largest 1 %% is %.2f times that of the median size; %.0f without the bonus",
			workers, with, without)
		if with > 3 || without <= 3 {
			t.Errorf("%d workers: ratio %.2f with the bonus, %.2f without; want at most 3, and more",
				workers, with, without)
		}
		if end > 1.02*endWithout {
			t.Errorf("%d workers: with the bonus all takes %.0f ms, without it %.0f", workers, end, endWithout)
		}
	}
}

// What is given back at all targets is no share of any: afterwards they are served by their weights as before.
func TestSharesAfterTokensWereGivenBack(t *testing.T) {
	const tokens = 15_000
	for name, weights := range map[string][]float64{"two": {3, 1}, "three": {3, 1, 2}} {
		ts := make([]budget.Target, len(weights))
		for i := range ts {
			ts[i].Limits.Weight = weights[i]
		}
		last, given := -1, make([]float64, len(ts))
		serve := func(n int, tokens float64) {
			clear(given)
			for range n {
				last = budget.Choose(ts, last, tokens)
				budget.Charge(ts, last, 1, tokens)
				given[last]++
			}
		}
		sum := 0.0
		for _, w := range weights {
			sum += w
		}
		serve(int(1200*sum), tokens)
		for i := range ts {
			for range int(given[i]) {
				ts[i].Settle(1, -tokens)
			}
		}
		serve(int(100*sum), 100)
		for i, w := range weights {
			if math.Abs(given[i]-100*w) > 3 {
				t.Errorf("%s: served %v after all was given back, weights %v", name, given, weights)
				break
			}
		}
	}
}

// A target that was closed meanwhile does not wait for what the others are given back.
func TestClosedTargetIsNotBehindWhatIsGivenBack(t *testing.T) {
	ts := make([]budget.Target, 3)
	for i := range ts {
		ts[i].Limits.Weight = 1
	}
	ts[2].Closed = 1000
	ts[0].Settle(1, -1e6)
	ts[1].Settle(1, -1e6)
	budget.Charge(ts, budget.Choose(ts, -1, 100), 1, 100)
	ts[2].Closed = 0
	last, given := -1, make([]int, len(ts))
	for range 30 {
		last = budget.Choose(ts, last, 100)
		budget.Charge(ts, last, 1, 100)
		given[last]++
	}
	if given[2] < 9 || given[2] > 11 {
		t.Errorf("the one that was closed got %d of 30 requests: %v", given[2], given)
	}
}

// A target whose reports are all wrong costs the others a bounded number of tokens.
func TestWrongReportsCostABoundedShare(t *testing.T) {
	ts := []budget.Target{{Limits: budget.Limits{Weight: 1}}, {Limits: budget.Limits{Weight: 1}}}
	for range 1000 {
		ts[0].Settle(1, -budget.MaxDelta)
	}
	const tokens = 4096
	last, n := -1, 0
	for ; last != 1; n++ {
		last = budget.Choose(ts, last, tokens)
		budget.Charge(ts, last, 1, tokens)
		if n > 2<<22/tokens {
			t.Fatal("the other target is never served")
		}
	}
	if n < 1<<22/tokens {
		t.Errorf("after %d requests already the other target was served", n)
	}
}
