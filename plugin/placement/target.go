package placement

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// The headers in which a request says how soon it wants its answer: see [lb.Target].
const headerTTFT, headerPerToken = "x-slo-ttft-ms", "x-slo-tpot-ms"

// targetSteps is how many targets of requests there are from one time to twice as much: each is a list of candidates.
const targetSteps = 8

// target returns how soon the request wants its answer, by its headers, where targets are configured.
func (b *basis) target() (t lb.Target) {
	if !b.Config.ReadsPrompt() || b.Config.Prefix.Target == t {
		return t
	}
	b.Traits.Read(b.Gateway)
	return lb.Target{TTFT: readTarget(b.Traits.Value(headerTTFT)), PerToken: readTarget(b.Traits.Value(headerPerToken))}
}

// readTarget reads a time of 1 ms to 1 h and returns the next step down, 0 if the text is anything else.
func readTarget(text string) time.Duration {
	d, ok := parseTimeout(text)
	if !ok || d < time.Millisecond || d > time.Hour {
		return 0
	}
	return time.Duration(math.Exp2(math.Floor(math.Log2(float64(d))*targetSteps) / targetSteps))
}
