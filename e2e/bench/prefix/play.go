package main

import (
	"strconv"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

// prediction is how well Warmgate knew what the servers have cached, over the requests whose answers have its match
// header.
type prediction struct {
	Requests  int     `json:"requests"`
	Predicted float64 `json:"predicted"` // share of all prompt tokens
	Reported  float64 `json:"reported"`  // the same by the servers
	Off       float64 `json:"off"`       // mean absolute difference, weighted by prompt tokens
}

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
	r.prediction = predictionOf(samples)
	return r
}

func predictionOf(samples []loadgen.Sample) prediction {
	var p prediction
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
		off += max(match*tokens-cached, cached-match*tokens)
	}
	if prompt > 0 {
		p.Predicted, p.Reported, p.Off = predicted/prompt, reported/prompt, off/prompt
	}
	return p
}

// share returns part/whole, or 0 if there is nothing.
func share(part, whole int) float64 { return float64(part) / float64(max(1, whole)) }
