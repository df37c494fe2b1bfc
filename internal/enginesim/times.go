package enginesim

import (
	"errors"
	"fmt"
	"time"
)

// Times are what the work of an engine takes, in milliseconds at speed 1.
type Times struct {
	// Speed divides every time: 2 is an engine twice as fast.
	Speed float64
	// PrefillOverheadMS is spent once per prompt, PrefillTokenMS per uncached prompt token.
	PrefillOverheadMS float64
	PrefillTokenMS    float64
	// DecodeStepMS is spent once per step that decodes, DecodeSeqMS per request in it.
	DecodeStepMS float64
	DecodeSeqMS  float64
	// AdapterLoadMS is spent by a step for each adapter in it that is not loaded.
	AdapterLoadMS float64
}

// DefaultTimes are about those of a 7B model on one GPU: 100 ms to prefill 2,000 tokens, 100 tokens a second for a lone
// request.
func DefaultTimes() Times {
	return Times{Speed: 1, PrefillOverheadMS: 5, PrefillTokenMS: 0.05, DecodeStepMS: 9.5, DecodeSeqMS: 0.5}
}

// maxMS bounds each time at the engine's speed, so that no step is longer than a time.Duration can be.
const maxMS = 3_600_000

// Validate reports a speed that is not positive, and times that are negative, or longer than an hour at that speed.
func (t Times) Validate() error {
	if !(t.Speed > 0) {
		return errors.New("the speed must be positive")
	}
	for _, ms := range []float64{
		t.PrefillOverheadMS, t.PrefillTokenMS, t.DecodeStepMS, t.DecodeSeqMS, t.AdapterLoadMS,
	} {
		if !(ms >= 0 && ms/t.Speed <= maxMS) {
			return fmt.Errorf("times must not be negative, and at most %d ms, divided by the speed", maxMS)
		}
	}
	return nil
}

// Step is how long a step takes that begins so many prompts, computes so many tokens of prompts, decodes for so many
// requests and loads so many adapters.
func (t Times) Step(prompts, tokens, decodes, loads int) time.Duration {
	ms := float64(prompts)*t.PrefillOverheadMS + float64(tokens)*t.PrefillTokenMS + float64(loads)*t.AdapterLoadMS
	if decodes > 0 {
		ms += t.DecodeStepMS + float64(decodes)*t.DecodeSeqMS
	}
	return time.Duration(ms / t.Speed * float64(time.Millisecond))
}
