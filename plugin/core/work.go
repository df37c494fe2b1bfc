package core

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/learned"
)

// How much work a request is, is estimated. A client must not be able to make an endpoint look full with a number: only
// bytes that have come count, and what is only claimed counts for at most twice what is typical. Bytes that have come
// count at once, but not for longer than the rest keeps coming.

const (
	// openTokens is what a request counts for until the end of its body has come, if nothing of it was read or nothing
	// more has come for stallTime. It is not 0, so that several that come at once are sent to different endpoints.
	openTokens = 1
	stallTime  = time.Second
)

// work is what the work of a request is estimated by, and what its answer is compared with.
type work struct {
	model    learned.Key
	typical  learned.Typical // of such requests, at the time of the estimate
	info     prompt.Info
	seen     int           // bytes of the body that info is of, 0 when nothing of it could be read
	media    learned.Media // images, sounds and files of the prompt, as far as it was cut into blocks
	text     int           // bytes of the prompt's text, 0 if that is not known, or not all of it was seen
	output   int64         // tokens that remain in flight once the first byte is there
	open     bool          // the end of the body has not come yet
	streamed bool          // the answer was requested as a stream of tokens
	sampled  bool          // its answer is read for its usage
}

// estimate returns how many tokens a request is likely to be if its body has size bytes: those of its prompt, by bytes
// per token, and those it may generate. Together they are no more than the configured maximum.
//
// What was not seen of a body is assumed to contain as much text as what was. The length of a body that cannot be read
// means little: it may be an image, or nothing that an engine reads.
func (w *work) estimate(c *config.Config, size int) (promptTokens, outputTokens int64) {
	limit := float64(c.MaxRequestTokens)
	tokens := min(float64(size)/w.typical.BytesPerToken, learned.MaxTimesTypical*w.typical.Prompt)
	if w.seen > 0 {
		tokens = float64(w.info.TextBytes)/w.typical.BytesPerToken + float64(w.info.TokenIDs)
		tokens = tokens*float64(max(size, w.seen))/float64(w.seen) + w.media.Tokens
	}
	promptTokens = int64(min(tokens, limit))
	if w.info.API == prompt.Embeddings || w.info.API == prompt.Rerank {
		return promptTokens, 0
	}
	answer, unlimited := math.Round(w.typical.Output), math.Round(w.typical.Unlimited)
	output := min(answer*float64(max(1, w.info.N)), learned.MaxTimesTypical*max(answer, unlimited))
	return promptTokens, int64(min(output, limit-float64(promptTokens)))
}

// unseen returns how many bytes of the prompt were not seen of a body of size bytes: all of those, but where there are
// pictures only as much of them as is text in what was seen. It is not inlined, for the size of the artifacts.
//
//go:noinline
func (w *work) unseen(size int) int {
	n := max(0, size-w.seen)
	if w.info.Media {
		n = n * w.info.TextBytes / w.seen
	}
	return n
}

// estimateWork estimates how much work the request is likely to be: size bytes of its body have come, all of it or not.
func (u *promptUse) estimateWork(r *lb.Request, size int, ended bool) {
	pl := u.pl
	w := &u.work
	w.model.Cluster, w.model.Guess, w.open = pl.scope, guessOf(pl.cfg), !ended
	w.typical = pl.plugin.vm.prompts.models.Typical(w.model, w.info.MaxTokens)
	w.sampled = pl.cluster.samples.Take(w.info.MaxTokens)
	if p := u.chain; p != nil {
		r.Blocks, r.PromptBytes, r.BypassCache = p.blocks, p.length+w.unseen(size), p.uncached
	}
	r.PromptTokens, r.OutputTokens = w.estimate(pl.cfg, size)
	w.streamed = w.info.Stream
}

// assumeTypical counts a request of which nothing is read as a typical one, for other configurations of its cluster
// that count tokens.
func (u *promptUse) assumeTypical(r *lb.Request) {
	pl := u.pl
	typical := pl.plugin.vm.prompts.models.Typical(learned.Key{Cluster: pl.scope, Guess: pl.cluster.guess}, 0)
	r.PromptTokens, r.OutputTokens = int64(typical.Prompt), int64(math.Round(typical.Output))
}

// stalled is called when nothing more of the body has come for stallTime: a client that sends a part and no more does
// not make the endpoint look busy for as long as its connection lasts. Its weight comes back with the end of the body.
func (u *promptUse) stalled() {
	pl := u.pl
	delete(pl.plugin.vm.bodies.partial, pl)
	if pl.phase != phaseLeased || u.prefillDone() {
		return
	}
	plan := &pl.lease.reservation.plan
	plan.Tokens, plan.Prefix.Tokens = openTokens, 0
	pl.lease.amend("", openTokens)
}

// amendWork is called when the end of the body has come. A lease that was granted before it counts for what has come
// from now on, if that is much more or less. A prefill that is done does not count any more.
func (u *promptUse) amendWork() {
	pl := u.pl
	delete(pl.plugin.vm.bodies.partial, pl)
	pl.response.asked = pl.plugin.vm.ticks.lastTick
	w := &u.work
	if !w.open || pl.phase != phaseLeased || u.prefillDone() {
		return
	}
	w.open = false
	size := max(pl.body.received, pl.traits.length)
	promptTokens, outputTokens := w.estimate(pl.cfg, size)
	plan, cached := &pl.lease.reservation.plan, 0
	plan.Tokens = promptTokens + outputTokens
	if p := u.chain; p != nil {
		plan.Prefix.Bytes = p.length + w.unseen(size)
		if !p.uncached {
			plan.Prefix.Tokens = promptTokens
		}
	}
	if pl.lease.addr == pl.lease.chosen {
		cached = pl.lease.reservation.grant.Cached
	}
	pl.lease.estimatedAgain(plan.Tokens)
	tokens, before := plan.AddedTokens(cached), pl.lease.tokens
	if 4*max(tokens-before, before-tokens) > before {
		pl.lease.amend("", tokens)
	}
}

// prefillDone reports whether the prefill is known to be done: only the output is in flight.
func (u *promptUse) prefillDone() bool { return u.pl.response.streamed }
