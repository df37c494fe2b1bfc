package cache

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb"
)

// streams has an engine answer streams, each after a step of the engine, what computing takes, and sometimes a wait. A
// tenth shows whatever it likes.
func streams(p *prefills, rng *rand.Rand, n int, perToken float64, shortest, longest int) {
	for range n {
		tokens := shortest + rng.IntN(longest-shortest+1)
		took := 0.020 + perToken*float64(tokens)
		if rng.IntN(2) == 0 {
			took += rng.ExpFloat64()
		}
		if rng.IntN(10) == 0 {
			took = 1e-4
		}
		cached := int64(rng.IntN(4000))
		p.observe(&lb.Outcome{
			Model: 7, PromptTokens: cached + int64(tokens), CachedTokens: cached,
			TTFT: time.Duration(took * float64(time.Second)),
		})
	}
}

func TestPrefillTime(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		perToken := math.Exp(rapid.Float64Range(math.Log(40e-6), math.Log(2e-3)).Draw(rt, "seconds"))
		shortest := rapid.IntRange(1000, 4000).Draw(rt, "shortest")
		p := prefills{}
		streams(&p, rng, 800, perToken, shortest, 2*shortest)
		if got := p.of(7); got < 0.8*perToken || got > 2*(perToken+0.020/float64(shortest)) {
			rt.Errorf("%.0f us, really %.0f us", 1e6*got, 1e6*perToken)
		}
		if p.of(8) != assumedPrefill {
			rt.Error("learned of another model")
		}
	})
}

// Answers that say nothing of the time that a prompt takes change nothing.
func TestPrefillTimeIsNotShown(t *testing.T) {
	for name, o := range map[string]lb.Outcome{
		"in one piece":        {PromptTokens: 4000},
		"all cached":          {PromptTokens: 4000, CachedTokens: 3990, TTFT: time.Millisecond},
		"expected in a cache": {PromptTokens: 4000, ExpectedTokens: 3990, TTFT: time.Millisecond},
		"of unknown length":   {TTFT: time.Millisecond},
	} {
		c := NewTracker()
		for range 100 {
			c.Observe(time.Second, time.Minute, o)
		}
		if got := c.PrefillTime(0, 1000); got != 200*time.Millisecond {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Of more models than there is room for, those are known that streams were last of.
func TestPrefillTimesAreReplaced(t *testing.T) {
	c := NewTracker()
	for i := range uint64(2 * maxPrefillModels) {
		for _, model := range []uint64{0, i} { // the first one all the time
			c.Observe(time.Second, time.Minute, lb.Outcome{Model: model, PlannedPrompt: 4000, TTFT: time.Millisecond})
		}
	}
	for i := range uint64(2 * maxPrefillModels) {
		known := c.prefills.of(i) != assumedPrefill
		if want := i == 0 || i > maxPrefillModels; known != want {
			t.Errorf("model %d is known: %t", i, known)
		}
	}
	if n := len(c.prefills); n != maxPrefillModels {
		t.Errorf("%d models are known", n)
	}
}
