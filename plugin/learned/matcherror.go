package learned

import (
	"math"

	"github.com/warmgate/warmgate/lb/prompt"
)

// How well expected shares of prompts meet those that answers report, is shown for each API and model: a client or a
// chat template that prints other than the prefix index assumes, shows itself there.

const (
	// maxMatchErrors is how many pairs of an API and a model a VM shows; others are shown as one model.
	maxMatchErrors = 32
	// maxLabel is the length in bytes of a model's name that is shown.
	maxLabel    = 64
	otherModels = "other"
)

// apiNames are those of APIs in statistics.
var apiNames = [...]string{
	prompt.Unknown: "unknown", prompt.Chat: "chat", prompt.Completions: "completions", prompt.Responses: "responses",
	prompt.Embeddings: "embeddings", prompt.Rerank: "rerank", prompt.Anthropic: "messages", prompt.SGLang: "sglang",
	prompt.TGI: "tgi", prompt.Triton: "triton", prompt.Gemini: "gemini",
}

// apiModel is what one error is for.
type apiModel struct {
	api   prompt.API
	model string
}

// matchError is how far expected shares are from reported ones, on average.
type matchError struct {
	mean     float64 // of the latest answers, in points
	reported bool    // an answer has reported a cached prompt
	known    bool
}

// MatchErrors are those of a VM.
type MatchErrors map[apiModel]*matchError

// Observe averages an answer in, by the shares that were expected to be cached and that were. It returns the error that
// this is part of, false as long as nothing is known of it. The model's name is one that an engine has answered for.
func (m MatchErrors) Observe(api prompt.API, model string, expected, cached float64) (MatchError, bool) {
	e, shown := m.of(api, model)
	e.observe(expected, cached)
	return MatchError{API: apiNames[api], Model: shown, Percent: e.mean}, e.known
}

// MatchError is how far expected shares are from reported ones, on average over the latest answers.
type MatchError struct {
	API, Model string // as statistics show them
	Percent    float64
}

// of returns the error for an API and a model, that of others if there is no room for it, or if its name could not be
// shown.
func (m MatchErrors) of(api prompt.API, model string) (*matchError, string) {
	if !isLabel(model) {
		model = otherModels
	}
	e := m[apiModel{api, model}]
	if e == nil && len(m) >= maxMatchErrors {
		model = otherModels
		e = m[apiModel{api, model}]
	}
	if e == nil {
		e = &matchError{}
		m[apiModel{api, model}] = e
	}
	return e, model
}

// isLabel reports whether a name is short and plain enough for a statistic.
func isLabel(name string) bool {
	for i := range len(name) {
		switch b := name[i]; {
		case b|0x20 >= 'a' && b|0x20 <= 'z', b >= '0' && b <= '9', b == '-', b == '_', b == '.', b == '/', b == ':':
		default:
			return false
		}
	}
	return name != "" && len(name) <= maxLabel
}

// observe averages an answer in, by the shares that were expected to be cached and that were. An engine that has never
// reported a cached prompt may not report them.
func (e *matchError) observe(expected, cached float64) {
	if e.reported = e.reported || cached > 0; !e.reported {
		return
	}
	off := 100 * math.Abs(expected-cached)
	if !e.known {
		e.mean, e.known = off, true
		return
	}
	e.mean += learnedShare * (off - e.mean)
}
