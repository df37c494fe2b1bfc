package core

import (
	"math"
	"slices"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/learned"
	"github.com/warmgate/warmgate/plugin/stats"
)

// promptUse is what is read of a request for its choice: its prompt, and how much work that is.
type promptUse struct {
	pl    *choice
	chain *promptChain // for prefix_cache, nil where the prompt does not matter
	work  work         // with unit: tokens
}

// needsPrompt reports whether more of the body matters than which session it is of.
func (u *promptUse) needsPrompt() bool {
	pl := u.pl
	c := pl.cfg
	if !pl.computes() {
		return pl.what == prompt.Quiet && c.Clusters.Endpoint != nil // for its model, inside
	}
	return c.Unit == lb.Tokens || c.ReadsModel() || c.Clusters.Endpoint != nil ||
		c.Scrapes(pl.plugin.vm.Kind) || c.Engines.ORCA
}

// chainPrompt cuts the prompt of the body into blocks. The route, and the tenant if there is a header for it, are part
// of every key. A prompt that the server puts more in front of than was sent is never seen as a whole. A body that was
// not read to its end has no blocks: what isolates its prompt from others may stand there.
func (u *promptUse) chainPrompt(b *readBody) {
	pl := u.pl
	chainer, tenant := pl.plugin.vm.prompts.chainer(pl.cfg), ""
	if pl.cfg.Prefix.TenantHeader != "" {
		tenant = pl.traits.header(pl.cfg.Prefix.TenantHeader)
	}
	now, key := pl.plugin.vm.Clock(), u.work.model
	first := pl.plugin.vm.prompts.firsts.Of(now, learned.ModelID{Cluster: pl.scope, Model: key.Model})
	var mediaBytes []int
	var bytesPerToken float64
	if b.info.Media {
		key.Cluster, key.Guess = pl.scope, guessOf(pl.cfg)
		mediaBytes, bytesPerToken = pl.plugin.vm.prompts.models.MediaBytes(key)
	}
	skipped := first.Skipped(now)
	chainer.Expect(skipped, mediaBytes)
	blocks, length := chainer.Chain(b.text, &b.parts, pl.scope, pl.gateway.Route(), tenant)
	changed := first.Observe(chainer.First())
	if n, bytes, sizes := chainer.Media(); n > 0 && bytesPerToken > 0 {
		u.work.media = learned.Media{Count: n, Tokens: float64(bytes) / bytesPerToken, Sizes: slices.Clone(sizes)}
	}
	if !b.ended {
		pl.plugin.vm.Stats.Count(statname.With(stats.Unread, "cause", b.unread), 1)
		blocks = nil
	}
	if pl.cfg.Prefix.TenantHeader != "" { // requests without the header are one tenant's
		chainer.Claim(blocks, tenant)
	}
	u.chain = &promptChain{
		blocks: slices.Clone(blocks), length: length, planned: now,
		shape: pl.traits.shapeOr(b.info.API), uncached: b.info.BypassCache, whole: b.whole && !b.info.Stateful,
		model: b.parts.ModelName(b.text), first: first, skipped: skipped && changed,
	}
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
