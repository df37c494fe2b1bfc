package learned

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/lb/answer"
)

// median is that of the lengths of answers that no limit cuts short.
const median = 200

var answerLengths = loadgen.LogNormal{Median: median, Sigma: 1}

// observeLimited has an answer of so many tokens end at its limit, if that is lower, and returns its length and what
// was expected of it.
func (m Models) observeLimited(key Key, limit, tokens int) (took, expected float64) {
	expected = m.Typical(key, limit).Output
	took = atMost(limit, float64(tokens))
	m.Observe(time.Hour, key, 4000, limit, answer.Usage{Prompt: 1000, Output: int(took)})
	return took, expected
}

// What is expected of answers is what they take, whatever limits clients set and however often answers reach them, and
// if one limit is seldom reached, also without a limit. The bounds leave room for the error of the mean only.
func TestExpectedLengths(t *testing.T) {
	const warm, answers, runs = 200, 600, 60
	for name, tc := range map[string]struct {
		limit     func(r *rand.Rand, i int) int
		unlimited bool // an answer without a limit can be known
	}{
		"none is limited": {func(*rand.Rand, int) int { return 0 }, true},
		"half are probes": {func(_ *rand.Rand, i int) int { return i % 2 }, true},
		"probes come first": {func(_ *rand.Rand, i int) int {
			if i < 32 {
				return 1
			}
			return 0
		}, true},
		"all are limited to 0.3 times the median":  {func(*rand.Rand, int) int { return 60 }, false},
		"all are limited to the median":            {func(*rand.Rand, int) int { return median }, false},
		"all are limited to 3 times the median":    {func(*rand.Rand, int) int { return 3 * median }, true},
		"half are limited to 0.3 times the median": {func(_ *rand.Rand, i int) int { return i % 2 * 60 }, true},
		"half are limited to the median":           {func(_ *rand.Rand, i int) int { return i % 2 * median }, true},
		"limits differ": {func(r *rand.Rand, _ int) int {
			return answerLengths.Draw(r)
		}, false},
		"most are limited": {func(r *rand.Rand, _ int) int {
			if r.IntN(20) == 0 {
				return 0
			}
			return loadgen.LogNormal{Median: 90, Sigma: 0.35}.Draw(r)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var off, offUnlimited float64 // mean logarithms
			for run := range uint64(runs) {
				r, m, key := rand.New(rand.NewPCG(run, 7)), Models{}, keyOf("c", 7, 0)
				for i := range warm + answers {
					took, expected := m.observeLimited(key, tc.limit(r, i), answerLengths.Draw(r))
					if i >= warm {
						off += math.Log(expected/took) / (runs * answers)
						offUnlimited += math.Log(m.Typical(key, 0).Unlimited/median) / (runs * answers)
					}
				}
			}
			t.Logf("%.2f of what answers take, %.2f of one without a limit", math.Exp(off), math.Exp(offUnlimited))
			if math.Abs(off) > 0.07 {
				t.Errorf("expected are %.2f times the tokens of answers", math.Exp(off))
			}
			if tc.unlimited && math.Abs(offUnlimited) > 0.07 {
				t.Errorf("expected are %.2f times the tokens of an answer without a limit", math.Exp(offUnlimited))
			}
		})
	}
}

// What is expected follows answers that become longer and shorter, also where half of them end at their limits.
func TestExpectedLengthsFollow(t *testing.T) {
	for _, limit := range []int{0, 4 * median} {
		for _, factor := range []float64{4, 1.0 / 4} {
			var off float64
			const runs = 100
			for run := range uint64(runs) {
				r, m, key := rand.New(rand.NewPCG(run, 7)), Models{}, keyOf("c", 7, 0)
				after := answerLengths
				after.Median *= factor
				for i := range 400 {
					lengths := answerLengths
					if i >= 300 {
						lengths = after
					}
					m.observeLimited(key, i%2*limit, lengths.Draw(r))
				}
				off += math.Log(m.Typical(key, 0).Unlimited/after.Median) / runs
			}
			if math.Abs(off) > 0.2 {
				t.Errorf("limit %d, 100 answers of %g times the length later: %.2f times of that are expected", limit,
					factor, math.Exp(off))
			}
		}
	}
}

// A limit that no answer has shown counts as others do that have been seen.
func TestExpectedOfOtherLimits(t *testing.T) {
	type ended struct{ limit, tokens int }
	for _, tc := range []struct {
		name  string
		seen  []ended
		limit int
		want  float64
	}{
		{"nothing is known", nil, 0, 256},
		{"nothing is known, and a low limit", nil, 10, 10},
		{"probes show nothing of others", []ended{{1, 1}, {3, 3}}, 0, 256},
		{"others show nothing of probes", []ended{{0, 400}}, 1, 1},
		{"answers ended before a lower limit", []ended{{100, 40}}, 1_000_000, 40},
		{"answers ended at a lower limit", []ended{{40, 40}}, 1_000_000, 80},
		{"answers ended at a lower limit, beyond the guess", []ended{{1000, 1000}}, 0, 1000},
		{"a claim is as long as other claims", []ended{{40, 40}, {1_000_000, 25}}, 70_000, 25},
		{"a high limit is as long as a claim", []ended{{40, 40}, {1_000_000, 25}}, 5000, 25},
		{"a low limit is its own", []ended{{40, 40}, {1_000_000, 25}}, 40, 40},
		{"where limits are reached, each is its own", []ended{{100, 100}, {100, 100}}, 140, 140},
		{"where they are not, all are alike", []ended{{100, 30}, {100, 30}}, 140, 30},
		{"a server that reports more than the limit", []ended{{100, 1_000_000}}, 100, 100},
		{"the highest limit of its class", []ended{{65_535, 90}, {0, 30}}, 65_535, 90},
	} {
		m, key := Models{}, keyOf("c", 7, 0)
		for _, a := range tc.seen {
			m.Observe(time.Hour, key, 4000, a.limit, answer.Usage{Prompt: 1000, Output: a.tokens})
		}
		if got := m.Typical(key, tc.limit).Output; math.Abs(got-tc.want) > tc.want/1000 {
			t.Errorf("%s: %g tokens under a limit of %d, want %g", tc.name, got, tc.limit, tc.want)
		}
	}
}

// An answer does not move an estimate by more than a bounded factor, whatever it reports under whatever limit.
func TestOneAnswerMovesLengthsLittle(t *testing.T) {
	r, m, key := rand.New(rand.NewPCG(3, 7)), Models{}, keyOf("c", 7, 0)
	limits := []int{0, 1, 2, 3, 17, 20, 60, 63, 64, 200, 255, 1000, 65_535, 65_536, 1_000_000}
	for _, limit := range limits {
		for range warmup {
			m.observeLimited(key, limit, answerLengths.Draw(r))
		}
	}
	most := math.Pow(maxFactor, learnedShare) * (1 + 1e-3)
	for range 5000 {
		before := map[int]float64{}
		for _, limit := range limits {
			before[limit] = m.Typical(key, limit).Output
		}
		limit, tokens := limits[r.IntN(len(limits))], int(math.Exp(r.Float64()*30))
		m.Observe(time.Hour, key, 4000, limit, answer.Usage{Prompt: 1000, Output: tokens})
		for _, of := range []int{0, 65_536} {
			after := m.Typical(key, of).Output
			if ratio := max(after/before[of], before[of]/after); ratio > most {
				t.Fatalf("an answer of %d under %d moved %g to %g", tokens, limit, before[of], after)
			}
		}
		for _, of := range limits {
			if got := m.Typical(key, of).Output; of > 0 && got > float64(of) || got < 1 {
				t.Fatalf("%g tokens are expected under a limit of %d", got, of)
			}
		}
	}
}
