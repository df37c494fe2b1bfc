package prefix

import (
	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

// result is what one contender did with one workload.
type result struct {
	summary    loadgen.Summary
	cached     float64 // share of the prompt tokens that the servers had cached
	uneven     float64 // requests of the busiest server over the mean of all
	prediction prediction
}

// resultOf reduces the samples of a play on n servers.
func resultOf(samples []loadgen.Sample, n int) result {
	r := result{summary: loadgen.Summarize(samples)}
	prompt, cached, most := 0, 0, 0
	for i := range samples {
		prompt += samples[i].Usage.Prompt
		cached += samples[i].Usage.Cached
	}
	for _, k := range r.summary.Endpoints {
		most = max(most, k)
	}
	r.cached = share(cached, prompt)
	r.uneven = share(most*n, r.summary.OK)
	r.prediction = scripted.PredictionOf(samples)
	return r
}

// share returns part/whole, or 0 if there is nothing.
func share(part, whole int) float64 { return float64(part) / float64(max(1, whole)) }
