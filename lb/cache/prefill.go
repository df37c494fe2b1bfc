package cache

import (
	"math"
	"slices"

	"github.com/warmgate/warmgate/lb"
)

const (
	// assumedPrefill is the seconds that a token of a prompt is taken to need before streams show it: 5,000 a second,
	// fewer than most engines compute. (H200, 8B: 24,000.)
	assumedPrefill = 200e-6
	// minPrefill and maxPrefill bound that.
	minPrefill, maxPrefill = 1e-6, 20e-3
	// minComputed is the fewest computed tokens that tell of a speed: with fewer the time is that of other things.
	minComputed = 64
	// wholeComputed is from how many on a stream counts in full.
	wholeComputed = 1024
	// prefillShare is which part of the streams is taken to be as fast as the engine is, or faster: the others have
	// waited for something. It is above a tenth, which may show anything.
	prefillShare = 0.25
	// prefillGain is by how much one stream moves the logarithm.
	prefillGain = 0.05
	// maxPrefillModels is how many models have a time of their own: those that streams were last of. The others have
	// the assumed one.
	maxPrefillModels = 64
)

// prefills learns how long the engines take for a token of a prompt, by the time to first output of streams over the
// tokens that were computed: a low quantile, since that time has what a request has waited for others. It is rather too
// long, most where prompts are short, as the constant part of that time is in it too. So it bounds what cached tokens
// save, from the first streams of each VM on; package gains finds the slope, which takes a hundred. The model that was
// learned of last is at the end.
type prefills []prefill

type prefill struct {
	model uint64
	log   float64 // of seconds
}

func (p prefills) find(model uint64) int {
	return slices.IndexFunc(p, func(of prefill) bool { return of.model == model })
}

// of returns the seconds of a token for a model.
func (p prefills) of(model uint64) float64 {
	if i := p.find(model); i >= 0 {
		return math.Exp(p[i].log)
	}
	return assumedPrefill
}

// observe learns from an answer. What was expected to be cached counts as cached: not all engines say what was.
func (p *prefills) observe(o *lb.Outcome) {
	tokens := o.PromptTokens
	if tokens <= 0 {
		tokens = o.PlannedPrompt
	}
	computed := float64(tokens - max(o.CachedTokens, o.ExpectedTokens))
	if o.TTFT <= 0 || computed < minComputed {
		return
	}
	of, i := prefill{o.Model, math.Log(assumedPrefill)}, p.find(o.Model)
	if i >= 0 {
		of = (*p)[i]
	} else if len(*p) >= maxPrefillModels {
		i = 0
	}
	if i >= 0 {
		*p = slices.Delete(*p, i, i+1)
	}
	move := prefillGain * min(1, computed/wholeComputed)
	if math.Log(o.TTFT.Seconds()/computed) < of.log {
		move *= prefillShare - 1
	} else {
		move *= prefillShare
	}
	of.log = min(max(of.log+move, math.Log(minPrefill)), math.Log(maxPrefill))
	*p = append(*p, of)
}
