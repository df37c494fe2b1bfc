package core

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/learned"
	"github.com/warmgate/warmgate/plugin/stats"
)

// promptChain is what prefix_cache knows of a request's prompt.
type promptChain struct {
	blocks   []prompt.Block
	length   int // of the prompt, in bytes as the blocks' ends
	planned  time.Duration
	shape    prompt.API
	uncached bool    // the endpoint does not read its cache for it
	whole    bool    // all of the prompt was seen
	cached   float64 // share of the prompt that was expected in the endpoint's cache
	model    string  // its name
	first    *learned.FirstTexts
	skipped  bool // its first text is left out, and has changed
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
	blocks, length := chainer.Chain(b.text, &b.parts, pl.scope, pl.Route(), tenant)
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

// source tells requests of different origin apart, as far as it is known: by the tenant, else by how prompts begin.
func (p *promptChain) source() uint64 {
	if !p.hasBlocks() {
		return 0
	}
	first := p.blocks[0]
	if t := first.Tenant(); t != prompt.NoTenant {
		return uint64(t)
	}
	return first.Key
}

// hasBlocks reports whether there is a prompt that an endpoint can have in its cache. p may be nil.
func (p *promptChain) hasBlocks() bool { return p != nil && len(p.blocks) > 0 }
