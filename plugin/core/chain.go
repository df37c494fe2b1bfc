package core

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb/prompt"
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
}

// chainPrompt cuts the prompt of the body, all of which is there or not, into blocks. The route, and the tenant if
// there is a header for it, are part of every key. A prompt that the server puts more in front of than was sent is
// never seen as a whole.
func (s *Stream) chainPrompt(body []byte, info *prompt.Info, parts *prompt.Parts, whole bool) {
	chainer, tenant := s.plugin.vm.prompts.chainer(s.cfg), ""
	if s.cfg.Prefix.TenantHeader != "" {
		tenant = s.traits.header(s.cfg.Prefix.TenantHeader)
	}
	blocks, length := chainer.Chain(body, parts, s.scope, s.Route(), tenant)
	if s.cfg.Prefix.TenantHeader != "" { // requests without the header are one tenant's
		chainer.Claim(blocks, tenant)
	}
	whole = whole && !info.Stateful
	s.chain = &promptChain{
		blocks: slices.Clone(blocks), length: length, planned: s.plugin.vm.now(),
		shape: s.traits.shapeOr(info.API), uncached: info.BypassCache, whole: whole,
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
