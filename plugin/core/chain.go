package core

import (
	"cmp"
	"slices"
	"strings"
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
		shape: s.shape(info), uncached: info.BypassCache, whole: whole,
	}
}

// shape returns which API the request is for. Where bodies can be alike the path decides, as it does for the model
// server.
func (s *Stream) shape(info *prompt.Info) prompt.API { return cmp.Or(s.pathShape(), info.API) }

// pathShape returns which API the path names, if it is one of those whose bodies can be alike.
func (s *Stream) pathShape() prompt.API {
	path, _, _ := strings.Cut(strings.TrimSuffix(s.traits.header(":path"), ","), "?")
	switch {
	case strings.HasSuffix(path, "/messages"):
		return prompt.Anthropic
	case strings.HasSuffix(path, "/chat/completions"):
		return prompt.Chat
	case strings.HasSuffix(path, "/completions"):
		return prompt.Completions
	case strings.HasSuffix(path, "/responses"):
		return prompt.Responses
	}
	return prompt.Unknown
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

// forgetPrompt removes the record that the endpoint at which the lease counts has the prompt, but for its first n
// blocks.
func (s *Stream) forgetPrompt(n int) {
	if s.chain.hasBlocks() && s.lease.addr != "" {
		s.lease.store.ForgetPrompt(s.now(), s.lease.id, &s.lease.reservation.plan, s.lease.addr, n)
	}
}

// recordPrompt records that the endpoint at which the lease counts has the prompt.
func (s *Stream) recordPrompt() {
	if s.chain.hasBlocks() {
		s.lease.store.RecordPrompt(s.now(), s.lease.id, &s.lease.reservation.plan, s.lease.addr)
	}
}
