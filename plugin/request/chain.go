package request

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/learned"
)

// Chain is what prefix_cache knows of a request's prompt.
type Chain struct {
	Blocks   []prompt.Block
	Length   int           // of the prompt, in bytes as the blocks' ends
	Planned  time.Duration // since when an endpoint could have had it
	shape    prompt.API
	Uncached bool    // the endpoint does not read its cache for it
	whole    bool    // all of the prompt was seen
	Cached   float64 // share of the prompt that was expected in the endpoint's cache
	model    string  // its name
	first    *learned.FirstTexts
	skipped  bool // its first text is left out, and has changed
}

// Source tells requests of different origin apart, as far as it is known: by the tenant, else by how prompts begin.
func (p *Chain) Source() uint64 {
	if !p.HasBlocks() {
		return 0
	}
	first := p.Blocks[0]
	if t := first.Tenant(); t != prompt.NoTenant {
		return uint64(t)
	}
	return first.Key
}

// HasBlocks reports whether there is a prompt that an endpoint can have in its cache. p may be nil.
func (p *Chain) HasBlocks() bool { return p != nil && len(p.Blocks) > 0 }

// Missing returns how many of so many tokens of the prompt have to be computed where it was placed: of one that was not
// read, nobody knows how many, so that is infinite.
func (p *Chain) Missing(tokens int64) float64 {
	switch {
	case p == nil:
		return math.Inf(1)
	case p.Uncached:
		return float64(tokens)
	}
	return float64(tokens) * (1 - p.Cached)
}
