package scripted

import (
	"math"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

// Window is the part of a run that is measured, from its start.
type Window struct{ From, To time.Duration }

func (w Window) has(t time.Duration) bool { return t >= w.From && t < w.To }

// Figures are what clients saw of a window.
type Figures struct {
	Summary loadgen.Summary // of the requests that were sent in the window
	Failed  int             // requests that failed in the whole run
	Rate    float64         // tokens of answers that ended in the window, a second
	Cached  float64         // share of the prompt tokens that the servers had cached, of what was sent in the window
}

// Figures reduces the samples of a run.
func (w Window) Figures(samples []loadgen.Sample) Figures {
	var f Figures
	tokens, prompt, cached := 0, 0, 0
	var sent []loadgen.Sample
	for i := range samples {
		s := &samples[i]
		if !s.OK() {
			f.Failed++
		}
		if w.has(s.Due + s.Total) {
			tokens += s.Tokens
		}
		if w.has(s.Due) {
			sent = append(sent, *s)
			prompt += s.Usage.Prompt
			cached += s.Usage.Cached
		}
	}
	f.Summary = loadgen.Summarize(sent)
	f.Rate = float64(tokens) / max(time.Millisecond, w.To-w.From).Seconds()
	f.Cached = float64(cached) / float64(max(1, prompt))
	return f
}

// Uneven returns the requests of the busiest of n servers over the mean of all.
func (f *Figures) Uneven(n int) float64 {
	most := 0
	for _, count := range f.Summary.Endpoints {
		most = max(most, count)
	}
	return float64(most*n) / float64(max(1, f.Summary.OK))
}

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
