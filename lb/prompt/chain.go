package prompt

import (
	"encoding/binary"
	"math/bits"
)

// Block is a prefix block: a part of a prompt. Its key identifies the prompt from its beginning to the end of the
// block, within its namespace: two prompts have a key in common only if everything before its end is the same.
type Block struct {
	Key uint64
	// End is the number of bytes of the hashed prompt that a model server has cached if it was sent the prompt up to
	// this block: the bytes up to its end, plus the assistant's message that begins there or that the block is in,
	// because the server generated it.
	End int
}

// NoTenant is the tenant of blocks that are not claimed.
const NoTenant = 0

// tenantShift is the position of the tenant in a key, in bits. The low end of keys differs between blocks, so that a
// search through many keys for one is fast.
const tenantShift = 56

// Tenant returns the tag of the tenant that has claimed the block, 1 to 255, or [NoTenant]. Two tenants may have the
// same tag.
func (b Block) Tenant() byte { return byte(b.Key >> tenantShift) }

// MaxBlocks is the maximum number of blocks of a chain. The rest of a longer prompt is not hashed.
const MaxBlocks = 128

// maxSteps bounds the steps of a chain: marks, and values that are skipped in search of a role. They cost more time
// than the bytes that they take in a body. What follows is not hashed.
const maxSteps = 16 << 10

// Steps by their time.
const (
	scalarSteps = 1 // allows a prompt of 16,000 tokens given as numbers
	markSteps   = 2
)

// growEvery is the number of blocks of the first size. Whenever the prompt has doubled in length, so does the block
// size.
const growEvery = 32

// A block that ends with a message is shorter than a full one, and there are at most MaxBlocks. So each block costs
// blockPrice and earns up to fullBlockPays, in proportion to its length; a message ends a block only while the budget
// allows it. A prompt of 200 KiB, with first blocks of 512 bytes, has 89 full blocks, which pay for 100 of any length;
// the initial budget pays for the rest.
const (
	blockPrice    = 1 << 10
	fullBlockPays = blockPrice + blockPrice/8
	initialBudget = 26 * blockPrice
	// reservedBudget is reserved for blocks that end with a question, which mark where an answer begins; other
	// messages end blocks only above it.
	reservedBudget = 12 * blockPrice
)

// countMedia counts an image, a sound or a file.
func (c *Chainer) countMedia(size byte) {
	if c.media < maxMedia {
		c.sizes[c.media] = size
	}
	c.media++
	if c.bytesOf != nil {
		c.mediaBytes += c.bytesOf[size]
	}
}

// end returns the length of the prompt so far, with its media.
func (c *Chainer) end() int { return c.length + c.mediaBytes }

// Chain returns the blocks of the prompt in a body, whose fields are at p, and the length in bytes of the hashed
// prompt. Prompts of different namespaces, models, adapters or salts have no key in common. The blocks are valid until
// the next call. There are none if the body ends within one of these names.
func (c *Chainer) Chain(body []byte, p *Parts, namespace ...string) (blocks []Block, length int) {
again:
	c.hash.Reset()
	for _, name := range namespace {
		c.name = append(c.name[:0], name...)
		c.addName(c.name)
	}
	if !c.addNames(body, p) {
		return nil, 0
	}
	c.blocks, c.length, c.steps, c.shortLen, c.budget = c.blocks[:0], 0, 0, 0, initialBudget
	c.long.n, c.nextLong = copy(c.long.list[:], p.long.list[:p.long.n]), 0
	c.texts, c.media, c.mediaBytes, c.first, c.behind, c.level = 0, 0, 0, First{}, behind{}, 0
	c.hasSystem = len(p.of(body, fieldSystem)) > 0
	c.startBlock()
	for _, f := range textFields {
		if value := p.of(body, f); len(value) > 0 {
			c.fieldStart = p.spans[f].from
			c.addField(f, value, f == p.cutField)
			if f == p.cutField {
				break // what follows in a prompt depends on where it was cut off
			}
		}
	}
	if c.skipFirst && c.first.Text != 0 && c.first.Behind == 0 {
		c.skipFirst = false
		goto again
	}
	return c.blocks, c.end()
}

// addField adds a field of the prompt, all of it or not.
func (c *Chainer) addField(f field, value []byte, cutOff bool) {
	switch {
	case !f.isMedia():
		c.addMark(markOf(f))
		c.addList(f, value, cutOff)
	case !cutOff && !isNothing(value):
		c.addMark(markOf(f))
		c.addMedia(value, 0)
	}
}

// startBlock starts a block at the current position.
func (c *Chainer) startBlock() {
	c.flush()
	c.hash.Sum(c.state[:0])
	c.hash.Reset()
	c.hash.Write(c.state[:])
	c.blockStart = c.length
	c.blockEnd = c.length + c.size<<bits.Len(uint(c.length/(c.size*growEvery)))
}

// endBlock ends the block and starts the next.
func (c *Chainer) endBlock() {
	c.budget = c.budgetAfter()
	c.startBlock()
	c.blocks = append(c.blocks, Block{
		Key: binary.LittleEndian.Uint64(c.state[:]) & (1<<tenantShift - 1),
		End: c.end(),
	})
}

// budgetAfter returns the budget if the block ends here.
func (c *Chainer) budgetAfter() int {
	return c.budget + (c.length-c.blockStart)*fullBlockPays/(c.blockEnd-c.blockStart) - blockPrice
}

// endMessage ends the block with the message if it is long enough: a quarter of the first size, or three quarters of a
// longer block.
func (c *Chainer) endMessage() {
	c.addMark('.')
	enough := c.size / 4
	if whole := c.blockEnd - c.blockStart; whole > c.size {
		enough = whole / 4 * 3
	}
	if !c.full() && c.length-c.blockStart >= enough && c.budgetAfter() >= reservedBudget {
		c.endBlock()
	}
}

// endQuestion ends the block with the latest message if that is one that a model answers: the answer begins here, in
// this request or in the next.
func (c *Chainer) endQuestion() {
	if !c.questionLast || c.full() {
		return
	}
	if c.length > c.blockStart && c.budgetAfter() >= 0 {
		c.endBlock()
	}
	if c.length == c.blockStart {
		c.answerBlock = len(c.blocks) - 1
	}
}

// endAnswer counts the answer as cached with its question.
func (c *Chainer) endAnswer() {
	if c.answerBlock < 0 || c.full() {
		return
	}
	for i := range c.blocks[c.answerBlock:] {
		c.blocks[c.answerBlock+i].End = c.end()
	}
}

// full reports whether there will be no more blocks. The rest of the prompt only adds to its length.
func (c *Chainer) full() bool { return len(c.blocks) >= MaxBlocks || c.steps > maxSteps }

// add adds bytes to the prompt.
func (c *Chainer) add(p []byte) {
	if n := len(p); n <= tinyLen && n < c.blockEnd-c.length && n <= len(c.short)-c.shortLen {
		for i, b := range p { // faster than a call of copy, most of all in a VM
			c.short[c.shortLen+i] = b
		}
		c.shortLen += n
		c.length += n
		return
	}
	for len(p) > 0 && !c.full() {
		n := min(len(p), c.blockEnd-c.length)
		c.write(p[:n])
		c.length += n
		p = p[n:]
		if c.length == c.blockEnd {
			c.endBlock()
		}
	}
	c.length += len(p)
}

// tinyLen is the length in bytes up to which add copies byte by byte: that of marks, most numbers and many keys.
const tinyLen = 16

// write adds bytes to the hash of the block.
func (c *Chainer) write(p []byte) {
	if len(p) > len(c.short)-c.shortLen {
		c.flush()
		if len(p) > len(c.short)/2 {
			c.hash.Write(p)
			return
		}
	}
	c.shortLen += copy(c.short[c.shortLen:], p)
}

// flush hashes the bytes in short.
func (c *Chainer) flush() {
	if c.shortLen > 0 {
		c.hash.Write(c.short[:c.shortLen])
		c.shortLen = 0
	}
}

// escape precedes every mark. Valid UTF-8 does not contain this byte; where a text does, it is doubled, so that no text
// can be mistaken for marks.
const escape = 0xff

// markOf returns the mark of a field. Those of the first fields are below all other marks.
func markOf(f field) byte {
	if f > fieldTools {
		return byte(f) | 0x80
	}
	return byte(f)
}

// addMark adds a structural mark: the beginning of a string, a bracket, a field.
func (c *Chainer) addMark(b byte) {
	c.steps += markSteps
	if c.blockEnd-c.length > 2 && len(c.short)-c.shortLen >= 2 {
		c.short[c.shortLen], c.short[c.shortLen+1] = escape, b
		c.shortLen += 2
		c.length += 2
		return
	}
	c.add(append(c.small[:0], escape, b))
}
