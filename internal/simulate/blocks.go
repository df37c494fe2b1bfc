package simulate

import (
	"math"
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
	fine   int // fine cuts in it
	tail   int // where these begin
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

// cut returns the blocks of a request's prompt, which are the caller's, and its length in bytes. Each part is a
// message, unless all are parts of one.
func (c *cutter) cut(r *Request) (blocks []prompt.Block, length int) {
	parts := r.Prompt
	c.blocks, c.length, c.budget, c.tail = c.blocks[:0], 0, initialBudget, math.MaxInt
	if r.OneText {
		bytes := 0
		for i := range parts {
			bytes += parts[i].Tokens * BytesPerToken
		}
		c.tail = prompt.TailFrom(c.size, bytes)
	}
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
		if !r.OneMessage {
			c.endMessage(p.Name)
		}
		before = p.Name
	}
	switch n := len(parts); {
	case r.OneText:
		c.endMessage(before)
	case n > 0 && !parts[n-1].Answer:
		c.endQuestion(before)
	}
	return slices.Clone(c.blocks), c.length
}

// add adds a part, with a block wherever one is full.
func (c *cutter) add(p *engine.Part) {
	begin := c.length
	for left := p.Tokens * BytesPerToken; ; {
		stop := c.stop()
		n := min(left, stop-c.length)
		c.length += n
		if left -= n; c.length < stop {
			return
		}
		key := name(p.Name, uint64(c.length-begin)<<8|7)
		if stop < c.end {
			if c.addBlock(key, true) {
				c.fine++
			}
			continue
		}
		for k := len(c.blocks) - c.fine; k < len(c.blocks); k++ {
			c.blocks[k].Inner = true
		}
		c.endBlock(key)
	}
}

// stop returns where the block ends or is cut finely next.
func (c *cutter) stop() int { return min(c.end, prompt.NextFine(c.size, c.tail, c.start, c.length)) }

func (c *cutter) startBlock() {
	c.start, c.fine = c.length, 0
	c.end = c.length + c.size<<bits.Len(uint(c.length/(c.size*growEvery)))
}

func (c *cutter) endBlock(key uint64) {
	c.budget = c.budgetAfter()
	c.startBlock()
	c.addBlock(key, false)
}

// addBlock adds a block that ends here, if there is room for it.
func (c *cutter) addBlock(key uint64, fine bool) bool {
	if len(c.blocks) >= prompt.MaxBlocks {
		return false
	}
	c.blocks = append(c.blocks, prompt.Block{Key: key &^ (0xff << 56), End: c.length, Fine: fine})
	return true
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
