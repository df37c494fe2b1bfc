package scripted

import (
	"math"
	"strconv"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

// Prediction is how well Warmgate knew what the servers have cached, over the requests whose answers have its match
// header.
type Prediction struct {
	Requests  int     `json:"requests"`
	Predicted float64 `json:"predicted"` // share of all prompt tokens
	Reported  float64 `json:"reported"`  // the same by the servers
	Off       float64 `json:"off"`       // mean absolute difference, weighted by prompt tokens
}

// PredictionOf compares what was expected of the requests with what the servers report.
func PredictionOf(samples []loadgen.Sample) Prediction {
	var p Prediction
	var prompt, predicted, reported, off float64
	for i := range samples {
		s := &samples[i]
		match, err := strconv.ParseFloat(s.Header.Get(compare.MatchHeader), 64)
		if err != nil || !s.OK() {
			continue
		}
		p.Requests++
		tokens, cached := float64(s.Usage.Prompt), float64(s.Usage.Cached)
		prompt += tokens
		predicted += match * tokens
		reported += cached
		off += math.Abs(match*tokens - cached)
	}
	if prompt > 0 {
		p.Predicted, p.Reported, p.Off = predicted/prompt, reported/prompt, off/prompt
	}
	return p
}
