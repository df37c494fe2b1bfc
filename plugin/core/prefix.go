package core

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/config"
)

// chainConfig are what prompts are cut by.
type chainConfig struct {
	secret [16]byte
	size   int
}

// promptChain is what prefix_cache knows of a request.
type promptChain struct {
	blocks   []prompt.Block
	length   int // of the prompt, in the unit of the blocks' ends
	planned  time.Duration
	shape    prompt.API
	uncached bool    // the endpoint does not read its cache for it
	whole    bool    // all of the prompt was seen
	cached   float64 // share of the prompt that the endpoint was taken to have in its cache
}

// chainPrompt cuts the prompt of the body, all of which is there or not, into blocks. The route, and the tenant if there is a
// header for it, are part of every key. A prompt that the server puts more in front of than was sent is never seen as a
// whole.
func (s *Stream) chainPrompt(body []byte, info *prompt.Info, parts *prompt.Parts, whole bool) {
	chainer, tenant := s.plugin.vm.chainer(s.cfg), ""
	if s.cfg.Prefix.TenantHeader != "" {
		tenant = s.traits.header(s.cfg.Prefix.TenantHeader)
	}
	blocks, length := chainer.Chain(body, parts, s.scope, s.Route(), tenant)
	if s.cfg.Prefix.TenantHeader != "" { // those that have none are one
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

// source tells requests apart by whose they are, as far as that is known: the tenant, else what prompts begin with.
func (p *promptChain) source() uint64 {
	if len(p.blocks) == 0 {
		return 0
	}
	first := p.blocks[0]
	if t := first.Tenant(); t != prompt.NoTenant {
		return uint64(t)
	}
	return first.Key
}

// maxChainers is how many ways of cutting prompts are at hand.
const maxChainers = 256

// chainer returns what cuts prompts for the configuration.
func (v *VM) chainer(c *config.Config) *prompt.Chainer {
	terms := chainConfig{secret: v.secret(c), size: c.Prefix.BlockBytes}
	ch := v.chainers[terms]
	if ch == nil {
		if len(v.chainers) >= maxChainers { // those of old configurations
			clear(v.chainers)
		}
		ch = prompt.NewChainer(terms.secret, terms.size)
		v.chainers[terms] = ch
	}
	return ch
}

// secret returns the secret of the configuration's keys. All gateways with one Redis need the same; without a word of
// it in the configuration they have the password in common. A gateway for itself takes one at random.
func (v *VM) secret(c *config.Config) [16]byte {
	switch {
	case c.Prefix.Secret != "":
		return prompt.Secret(c.Prefix.Secret)
	case c.UsesRedis():
		return prompt.Secret(c.Redis.Password)
	}
	return v.processSecret
}

// forgetPrompt takes back what the endpoint that the lease counts at was noted to have of the prompt beyond its first n
// blocks.
func (s *Stream) forgetPrompt(n int) {
	if s.chain != nil && len(s.chain.blocks) > 0 && s.addr != "" {
		s.store.ForgetPrompt(s.now(), s.id, &s.reservation.plan, s.addr, n)
	}
}

// recordPrompt notes that the endpoint that the lease counts at has the prompt.
func (s *Stream) recordPrompt() {
	if s.chain != nil && len(s.chain.blocks) > 0 {
		s.store.RecordPrompt(s.now(), s.id, &s.reservation.plan, s.addr)
	}
}
