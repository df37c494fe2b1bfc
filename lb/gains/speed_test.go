package gains

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestSpeed learns from streams of any speed, of which many have waited: to a tenth, or nothing is told.
func TestSpeed(t *testing.T) {
	told, all := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		rate := math.Pow(10, rapid.Float64Range(-6, -2).Draw(rt, "seconds per token, as a power of ten"))
		constant := rapid.Float64Range(0, 500).Draw(rt, "constant, in tokens") * rate
		waits := rapid.Float64Range(0, 0.6).Draw(rt, "share that waits")
		liars := rapid.Float64Range(0, 0.1).Draw(rt, "share that lies")
		mean := rapid.Float64Range(300, 5000).Draw(rt, "tokens")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		s := &Speed{}
		for range 800 {
			p := Prefill{Tokens: 1 + mean*rng.ExpFloat64(), Load: 1 + float64(rng.IntN(8))}
			p.Took = (constant + p.Tokens*rate) * (1 + 0.02*rng.Float64())
			if rng.Float64() < waits*p.Load/8 {
				p.Took += 2000 * rate * rng.ExpFloat64()
			}
			if rng.Float64() < liars {
				p.Tokens, p.Took = 1+1e5*rng.Float64(), 1e4*rate*rng.Float64()
			}
			s.Add(p)
		}
		s.Learn(0)
		got, off, known := s.PerToken()
		all++
		if !known {
			return
		}
		told++
		if math.Abs(got/rate-1) > 0.1 || !(off >= 0 && off <= maxError) {
			rt.Errorf("%g seconds per token, off by %g, want %g", got, off, rate)
		}
	})
	if told < all*9/10 {
		t.Errorf("a speed is told %d times of %d", told, all)
	}
}

// TestSpeedIsNotTold has too few streams, streams of about the same length, noise alone, and what is old.
func TestSpeedIsNotTold(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	learn := func(n int, now time.Duration, p func() Prefill) bool {
		s := &Speed{}
		for range n {
			s.Add(p())
		}
		s.Learn(now)
		seconds, _, known := s.PerToken()
		if seconds < 0 {
			t.Errorf("%g seconds per token", seconds)
		}
		return known
	}
	good := func() Prefill {
		tokens := 1000 * rng.ExpFloat64()
		return Prefill{Tokens: tokens, Took: 0.1 + tokens/1e4, Load: 1}
	}
	if !learn(minPrefills, 0, good) {
		t.Error("not known of good streams")
	}
	if learn(minPrefills-1, 0, good) {
		t.Error("known of too few streams")
	}
	if learn(500, prefillAge+1, good) {
		t.Error("known of old streams")
	}
	if learn(500, 0, func() Prefill { return Prefill{Tokens: 900 + 100*rng.Float64(), Took: rng.Float64(), Load: 1} }) {
		t.Error("known of streams of the same length")
	}
	if learn(500, 0, func() Prefill { return Prefill{Tokens: 2000 * rng.Float64(), Took: rng.Float64(), Load: 1} }) {
		t.Error("known where time has nothing to do with length")
	}
	if learn(500, 0, func() Prefill {
		tokens := 2000 * rng.Float64()
		return Prefill{Tokens: tokens, Took: 1 - tokens/4000, Load: 1}
	}) {
		t.Error("known where longer prompts take less time")
	}
	if learn(500, 0, func() Prefill { return Prefill{Tokens: math.NaN(), Took: math.Inf(1), Load: 1} }) {
		t.Error("known of what is no number")
	}
}

// TestSpeedFollows holds that what is learned is of the latest streams.
func TestSpeedFollows(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	s := &Speed{}
	for _, rate := range []float64{1e-4, 3e-5} {
		for range maxPrefills {
			tokens := 1000 * rng.ExpFloat64()
			s.Add(Prefill{Tokens: tokens, Took: 0.01 + tokens*rate, Load: 2})
		}
		s.Learn(0)
		if got, _, known := s.PerToken(); !known || math.Abs(got/rate-1) > 0.01 {
			t.Errorf("%g seconds per token, want %g", got, rate)
		}
	}
}

func BenchmarkLearn(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	s := &Speed{}
	for range maxPrefills {
		tokens := 1000 * rng.ExpFloat64()
		s.Add(Prefill{Tokens: tokens, Took: 0.01 + tokens*1e-4 + rng.ExpFloat64(), Load: float64(rng.IntN(9))})
	}
	for b.Loop() {
		all := *s // it begins with no streams again once it has learned of enough
		all.Learn(0)
	}
}
