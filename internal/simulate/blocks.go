package simulate

import (
	"math/bits"
	"slices"

	"github.com/warmgate/warmgate/internal/simulate/engine"
	"github.com/warmgate/warmgate/lb/prompt"
)

// cutter cuts prompts into blocks as prompt.Chainer does text, at the same lengths and by the same budget, but names
// them by the parts that they are in. See there.
type cutter struct {
	size   int // of the first blocks, in bytes
	blocks []prompt.Block
	length int
	start  int // of the block
	end    int // its latest end
	budget int
}

// As in package prompt, see there.
const (
	growEvery      = 32
	blockPrice     = 1 << 10
	fullBlockPays  = blockPrice + blockPrice/8
	initialBudget  = 26 * blockPrice
	reservedBudget = 12 * blockPrice
)

// cut returns the blocks of a prompt, which are the caller's, and its length in bytes. Each part is a message, unless
// all are parts of one.
func (c *cutter) cut(parts []engine.Part, oneMessage bool) (blocks []prompt.Block, length int) {
	c.blocks, c.length, c.budget = c.blocks[:0], 0, initialBudget
	c.startBlock()
	before := uint64(0)
	for i := range parts {
		p := &parts[i]
		answer := 0 // the block that ends where the answer begins
		if p.Answer {
			c.endQuestion(before)
			answer = len(c.blocks)
		}
		c.add(p)
		if answer > 0 {
			for k := range c.blocks[answer-1:] {
				c.blocks[answer-1+k].End = c.length
			}
		}
		if !oneMessage {
			c.endMessage(p.Name)
		}
		before = p.Name
	}
	if n := len(parts); n > 0 && !parts[n-1].Answer {
		c.endQuestion(before)
	}
	return slices.Clone(c.blocks), c.length
}

// add adds a part, with a block wherever one is full.
func (c *cutter) add(p *engine.Part) {
	begin := c.length
	for left := p.Tokens * BytesPerToken; ; {
		n := min(left, c.end-c.length)
		c.length += n
		if left -= n; c.length < c.end {
			return
		}
		c.endBlock(name(p.Name, uint64(c.length-begin)<<8|7))
	}
}

func (c *cutter) startBlock() {
	c.start = c.length
	c.end = c.length + c.size<<bits.Len(uint(c.length/(c.size*growEvery)))
}

func (c *cutter) endBlock(key uint64) {
	c.budget = c.budgetAfter()
	c.startBlock()
	if len(c.blocks) < prompt.MaxBlocks {
		c.blocks = append(c.blocks, prompt.Block{Key: key &^ (0xff << 56), End: c.length})
	}
}

func (c *cutter) budgetAfter() int {
	return c.budget + (c.length-c.start)*fullBlockPays/(c.end-c.start) - blockPrice
}

// endMessage ends the block behind a message if it is long enough.
func (c *cutter) endMessage(part uint64) {
	enough := c.size / 4
	if whole := c.end - c.start; whole > c.size {
		enough = whole / 4 * 3
	}
	if c.length-c.start >= enough && c.budgetAfter() >= reservedBudget {
		c.endBlock(name(part, 6))
	}
}

// endQuestion ends the block where an answer begins, in this prompt or in the next.
func (c *cutter) endQuestion(part uint64) {
	if c.length > c.start && c.budgetAfter() >= 0 {
		c.endBlock(name(part, 6))
	}
}
