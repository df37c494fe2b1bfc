package gains

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// about returns an estimate that is off by a part of itself.
func about(rate, off float64) estimate { return estimate{rate: rate, variance: square(rate * off)} }

// TestWith has knowledge of 1 meet what streams show, one after the other.
func TestWith(t *testing.T) {
	for _, c := range []struct {
		name   string
		shown  []estimate
		lo, hi float64
	}{
		{"nothing", []estimate{{}}, 1, 1},
		{"unsure, the same", []estimate{about(1.1, 0.2), about(0.9, 0.2)}, 1, 1},
		{"sure, nearly the same", []estimate{about(1.1, 0.06)}, 1.02, 1.06},
		{"sure, nearly the same, again and again", repeat(about(1.1, 0.06), 10), 1.08, 1.1},
		{"sure, another", []estimate{about(2, 0.06)}, 2, 2},
		{"surer, another", []estimate{about(1.4, 0.03)}, 1.4, 1.4},
		{"sure, somewhat different, once", []estimate{about(1.4, 0.06)}, 1, 1},
		{"sure, somewhat different, twice", repeat(about(1.4, 0.06), 2), 1.4, 1.4},
		{"unsure, another, once", []estimate{about(2, 0.15)}, 1, 1},
		{"unsure, another, twice", []estimate{about(2, 0.15), about(2.2, 0.15)}, 2, 2.2},
		{"unsure, another, not in a row", []estimate{about(2, 0.15), about(1, 0.2), about(2, 0.15)}, 1, 1},
		{"unsure, on both sides", []estimate{about(2, 0.15), about(0.3, 0.6), about(2, 0.15)}, 1, 1},
		{"unsure, a little more, again and again", repeat(about(1.15, 0.2), 50), 1, 1},
		{"too unsure to be told, again and again", repeat(about(9, 0.9), 3), 1, 1},
	} {
		k := knowledge{estimate: about(1, 0.05)}
		for _, fresh := range c.shown {
			k = k.with(fresh)
		}
		if k.rate < c.lo || k.rate > c.hi {
			t.Errorf("%s: %.3f, want %g to %g", c.name, k.rate, c.lo, c.hi)
		}
	}
}

func repeat(e estimate, n int) (all []estimate) {
	for range n {
		all = append(all, e)
	}
	return all
}

// TestKnowledgeStaysBetween holds that what is known is between what was shown, whatever that is, and has an error.
func TestKnowledgeStaysBetween(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var k knowledge
		lo, hi, now := math.Inf(1), 0., time.Duration(0)
		for range rapid.IntRange(1, 20).Draw(rt, "estimates") {
			now += time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(rt, "later"))
			e := about(rapid.Float64Range(1e-6, 1e-2).Draw(rt, "rate"), rapid.Float64Range(0.01, 2).Draw(rt, "off"))
			e.at, lo, hi = now, min(lo, e.rate), max(hi, e.rate)
			k.age(now)
			if k = k.with(e); k.none() || k.rate < lo*(1-1e-9) || k.rate > hi*(1+1e-9) {
				rt.Fatalf("%+v of %g to %g", k, lo, hi)
			}
		}
	})
}

// TestKept keeps a speed while prompts show nothing, less sure each hour, for a day.
func TestKept(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	s, now, before := &Speed{}, time.Duration(0), 0.
	for range minPrefills {
		tokens := 1000 * rng.ExpFloat64()
		s.Add(Prefill{Tokens: tokens, Took: 0.1 + tokens/1e4, Load: 1})
	}
	s.Learn(now)
	for now < 2*fades {
		for range maxPrefills {
			s.Add(Prefill{At: now, Tokens: 1 + 15*rng.Float64(), Took: rng.Float64(), Load: 1})
		}
		now += time.Hour
		s.Learn(now)
		rate, off, known := s.PerToken()
		if known != (now < fades) || known && (math.Abs(rate*1e4-1) > 0.02 || off <= before) {
			t.Errorf("after %s: %g seconds per token, off by %g after %g, known: %t", now, rate, off, before, known)
		}
		before = off
	}
	for range maxPrefills {
		tokens := 1000 * rng.ExpFloat64()
		s.Add(Prefill{At: now, Tokens: tokens, Took: 0.1 + tokens/2e4, Load: 1})
	}
	s.Learn(now)
	if rate, _, known := s.PerToken(); !known || math.Abs(rate*2e4-1) > 0.05 {
		t.Errorf("%g seconds per token, known: %t, once prompts are longer again", rate, known)
	}
}

// TestFaded has a speed that was known two days ago meet few streams, which are not sure: they are believed.
func TestFaded(t *testing.T) {
	told := 0
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 3))
		s, now := &Speed{}, time.Duration(0)
		stream := func(rate float64) {
			tokens := 1000 * rng.ExpFloat64()
			s.Add(Prefill{At: now, Tokens: tokens, Took: rate * (1000 + tokens + 1500*rng.Float64()), Load: 1})
		}
		for range maxPrefills {
			stream(1e-4)
		}
		s.Learn(now)
		now = 2 * fades
		for range 2 * minPrefills {
			stream(3e-4)
		}
		s.Learn(now)
		if _, off, known := s.PerToken(); !known || off <= sure {
			continue
		}
		told++
		if rate, _, _ := s.PerToken(); math.Abs(rate*1e4/3-1) > 0.3 {
			t.Errorf("seed %d: %g seconds per token", seed, rate)
		}
	}
	if told < 10 {
		t.Errorf("a speed that is not sure is told %d times of 40", told)
	}
}

// TestNoNumbers has streams between which there is nothing, or no number: nothing of that is known.
func TestNoNumbers(t *testing.T) {
	s := &Speed{}
	for i := range maxPrefills {
		s.Add(Prefill{Tokens: math.Pow(10, float64(i%600)-300), Took: math.Pow(10, 300-float64(i%600)), Load: 1})
	}
	s.Learn(0)
	if rate, off, known := s.PerToken(); known {
		t.Errorf("%g seconds per token, off by %g", rate, off)
	}
	for i := range 5 * maxPrefills {
		tokens := 1 + float64(i)
		s.Add(Prefill{Tokens: tokens, Took: 0.1 + tokens/1e4, Load: 1})
	}
	s.Learn(0)
	if rate, _, known := s.PerToken(); !known || math.Abs(rate*1e4-1) > 0.01 {
		t.Errorf("%g seconds per token afterwards, known: %t", rate, known)
	}
}
