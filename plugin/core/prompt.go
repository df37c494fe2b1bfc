package core

import (
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/learned"
	"github.com/warmgate/warmgate/plugin/stats"
)

// promptUse is what is read of a request for its choice: its prompt, and how much work that is.
type promptUse struct {
	of    *subject
	chain *promptChain // for prefix_cache, nil where the prompt does not matter
	work  work         // with unit: tokens
}

// inspected takes over what is known of a body that could be read.
func (u *promptUse) inspected(b *readBody) {
	of := u.of
	u.work = work{info: b.info, seen: len(b.text) + b.skipped, model: learned.Key{
		Model: xxhash.Sum64String(b.parts.ModelName(b.text)),
		Class: of.traits.classID(of.cfg), Tenant: of.traits.tenantID(of.cfg),
	}}
	if b.whole && !b.info.Media && !b.info.Stateful && b.info.API != prompt.Unknown {
		u.work.text = b.info.TextBytes
	}
	if of.cfg.ReadsPrompt() && of.computes() {
		u.chainPrompt(b)
	}
}

// chainPrompt cuts the prompt of the body into blocks. The route, and the tenant if there is a header for it, are part
// of every key. A prompt that the server puts more in front of than was sent is never seen as a whole. A body that was
// not read to its end has no blocks: what isolates its prompt from others may stand there.
func (u *promptUse) chainPrompt(b *readBody) {
	of := u.of
	chainer, tenant := of.prompts.chainer(of.cfg), ""
	if of.cfg.Prefix.TenantHeader != "" {
		tenant = of.traits.header(of.cfg.Prefix.TenantHeader)
	}
	now, key := of.env.Clock(), u.work.model
	first := of.prompts.firsts.Of(now, learned.ModelID{Cluster: of.scope, Model: key.Model})
	var mediaBytes []int
	var bytesPerToken float64
	if b.info.Media {
		key.Cluster, key.Guess = of.scope, clusters.GuessOf(of.cfg)
		mediaBytes, bytesPerToken = of.prompts.models.MediaBytes(key)
	}
	skipped := first.Skipped(now)
	chainer.Expect(skipped, mediaBytes)
	blocks, length := chainer.Chain(b.text, &b.parts, of.scope, of.gateway.Route(), tenant)
	changed := first.Observe(chainer.First())
	if n, bytes, sizes := chainer.Media(); n > 0 && bytesPerToken > 0 {
		u.work.media = learned.Media{Count: n, Tokens: float64(bytes) / bytesPerToken, Sizes: slices.Clone(sizes)}
	}
	if !b.ended {
		of.env.Stats.Count(statname.With(stats.Unread, "cause", b.unread), 1)
		blocks = nil
	}
	if of.cfg.Prefix.TenantHeader != "" { // requests without the header are one tenant's
		chainer.Claim(blocks, tenant)
	}
	u.chain = &promptChain{
		blocks: slices.Clone(blocks), length: length, planned: now,
		shape: of.traits.shapeOr(b.info.API), uncached: b.info.BypassCache, whole: b.whole && !b.info.Stateful,
		model: b.parts.ModelName(b.text), first: first, skipped: skipped && changed,
	}
}

// estimateWork estimates how much work the request is likely to be: size bytes of its body have come, all of it or not.
func (u *promptUse) estimateWork(r *lb.Request, size int, ended bool) {
	of := u.of
	w := &u.work
	w.model.Cluster, w.model.Guess, w.open = of.scope, clusters.GuessOf(of.cfg), !ended
	w.typical = of.prompts.models.Typical(w.model, w.info.MaxTokens)
	w.sampled = of.cluster.Samples.Take(w.info.MaxTokens)
	if p := u.chain; p != nil {
		r.Blocks, r.PromptBytes, r.BypassCache = p.blocks, p.length+w.unseen(size), p.uncached
	}
	r.PromptTokens, r.OutputTokens = w.estimate(of.cfg, size)
	w.streamed = w.info.Stream
}

// assumeTypical counts a request of which nothing is read as a typical one, for other configurations of its cluster
// that count tokens.
func (u *promptUse) assumeTypical(r *lb.Request) {
	of := u.of
	typical := of.prompts.models.Typical(learned.Key{Cluster: of.scope, Guess: of.cluster.Guess}, 0)
	r.PromptTokens, r.OutputTokens = int64(typical.Prompt), int64(math.Round(typical.Output))
}
