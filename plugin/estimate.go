package main

import (
	"cmp"
	"math"

	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/config"
)

// estimate returns how many tokens a request is likely to be: those of its prompt, by bytes per token, and those it may
// generate, by its own limit or the configured guess, and by what was learned of its model. unseen bytes of the body count as
// prompt. Together they are no more than the configured maximum: a client must not be able to make an endpoint look full with
// a number.
func estimate(c *config.Config, l learned, info *prompt.Info, unseen int) (promptTokens, outputTokens int64) {
	most := int64(c.MaxRequestTokens)
	perToken := cmp.Or(l.bytesPerToken, c.BytesPerToken)
	promptTokens = int64(float64(info.TextBytes+max(0, unseen))/perToken) + int64(info.TokenIDs)
	promptTokens = min(promptTokens, most)
	switch {
	case info.Shape == prompt.Embeddings || info.Shape == prompt.Rerank:
		return promptTokens, 0
	case info.MaxTokens > 0:
		outputTokens = int64(info.MaxTokens)
	default:
		outputTokens = int64(c.OutputTokens)
	}
	answers := int64(max(1, info.N))
	outputTokens = min(outputTokens*answers, most-promptTokens)
	if l.output > 0 {
		outputTokens = min(outputTokens, int64(math.Ceil(l.output))*answers)
	}
	return promptTokens, outputTokens
}
