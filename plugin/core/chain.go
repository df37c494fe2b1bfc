package core

import (
	"time"

	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/learned"
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
