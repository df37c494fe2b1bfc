package loadgen

import (
	"math"
	"math/rand/v2"
)

// Lengths draws token counts. An implementation must depend on r alone, so that a seed reproduces a workload.
type Lengths interface {
	// Draw returns the next length in tokens, at least 1.
	Draw(r *rand.Rand) int
}

// Fixed is a distribution with one value.
type Fixed int

// Draw returns the value.
func (f Fixed) Draw(*rand.Rand) int { return max(1, int(f)) }

// LogNormal is a log-normal distribution, the usual fit for prompt and answer lengths of chat traffic: most are near
// the median, a few are longer by orders of magnitude. The mean is Median*exp(Sigma²/2) before the cut at Max.
type LogNormal struct {
	Median float64 // tokens
	Sigma  float64 // standard deviation of the logarithm; 1 and more is heavy-tailed
	Min    int     // smallest length, tokens; 0 means 1
	Max    int     // largest length, tokens; 0 means no cut
}

// Draw returns the next length.
func (d LogNormal) Draw(r *rand.Rand) int {
	return clamp(d.Median*math.Exp(d.Sigma*r.NormFloat64()), d.Min, d.Max)
}

func clamp(x float64, low, high int) int {
	if high > 0 && x > float64(high) {
		return high
	}
	return max(1, low, int(math.Round(x)))
}

var (
	_ Lengths = Fixed(0)
	_ Lengths = LogNormal{}
)
