package request

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/lb/price"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/learned"
)

// How much work a request is, is estimated. A client must not be able to make an endpoint look full with a number: only
// bytes that have come count, and what is only claimed counts for at most twice what is typical. Bytes that have come
// count at once, but not for longer than the rest keeps coming.

const (
	// OpenTokens is what a request counts for until the end of its body has come, if nothing of it was read or nothing
	// more has come for a second. It is not 0, so that several that come at once are sent to different endpoints.
	OpenTokens = 1
	stallTime  = time.Second
)

// Work is what the work of a request is estimated by, and what its answer is compared with.
type Work struct {
	Model    learned.Key
	typical  learned.Typical // of such requests, at the time of the estimate
	Info     prompt.Info
	Seen     int           // bytes of the body that Info is of, 0 when nothing of it could be read
	media    learned.Media // images, sounds and files of the prompt, as far as it was cut into blocks
	Text     int           // bytes of the prompt's text, 0 if that is not known, or not all of it was seen
	Said     int           // tokens of the answer that the request expects, 0 where it says nothing of that
	Output   int64         // tokens that remain in flight once the first byte is there
	Open     bool          // the end of the body has not come yet
	Streamed bool          // the answer was requested as a stream of tokens
	Sampled  bool          // its answer is read for its usage
}

// Estimate returns how many tokens a request is likely to be if its body has size bytes: those of its prompt, by bytes
// per token, and those it may generate. Together they are no more than the configured maximum.
//
// What was not seen of a body is assumed to contain as much text as what was. The length of a body that cannot be read
// means little: it may be an image, or nothing that an engine reads.
func (w *Work) Estimate(c *config.Config, size int) (promptTokens, outputTokens int64) {
	limit := float64(c.MaxRequestTokens)
	tokens := min(float64(size)/w.typical.BytesPerToken, learned.MaxTimesTypical*w.typical.Prompt)
	if w.Seen > 0 {
		tokens = float64(w.Info.TextBytes)/w.typical.BytesPerToken + float64(w.Info.TokenIDs)
		tokens = tokens*float64(max(size, w.Seen))/float64(w.Seen) + w.media.Tokens
	}
	promptTokens = int64(min(tokens, limit))
	if w.Info.API == prompt.Embeddings || w.Info.API == prompt.Rerank {
		return promptTokens, 0
	}
	answer, unlimited := math.Round(w.typical.Output), math.Round(w.typical.Unlimited)
	each := answer
	if w.Said > 0 {
		each = float64(w.Said)
		if w.Info.MaxTokens > 0 {
			each = min(each, float64(w.Info.MaxTokens))
		}
	}
	output := min(each*float64(max(1, w.Info.N)), learned.MaxTimesTypical*max(answer, unlimited))
	return promptTokens, int64(min(output, limit-float64(promptTokens)))
}

// Expected returns of which kinds the tokens of the request are likely to be.
func (w *Work) Expected(promptTokens, outputTokens int64) price.Tokens {
	cached := min(int64(w.CachedShare()*float64(promptTokens)), promptTokens)
	return price.Tokens{Input: promptTokens - cached, Cached: cached, Output: outputTokens}
}

// CachedShare returns which share of the prompt is likely to be in a cache, as that of such requests was.
func (w *Work) CachedShare() float64 {
	if w.Info.BypassCache {
		return 0
	}
	return w.typical.Cached
}

// Unseen returns how many bytes of the prompt were not seen of a body of size bytes: all of those, but where there are
// pictures only as much of them as is text in what was seen. It is not inlined, for the size of the artifacts.
//
//go:noinline
func (w *Work) Unseen(size int) int {
	n := max(0, size-w.Seen)
	if w.Info.Media {
		n = n * w.Info.TextBytes / w.Seen
	}
	return n
}
