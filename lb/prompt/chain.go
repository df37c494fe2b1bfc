package prompt

import (
	"encoding/binary"
	"hash"
	"math/bits"

	"github.com/dchest/siphash"
)

// Block is a part of a prompt. Its key stands for the prompt from its beginning to the end of the block, in its
// namespace: two prompts have a key in common only if all up to there is the same.
type Block struct {
	Key uint64
	// End is how many bytes of the prompt, as it is hashed, a model server has in its cache that was sent it up to this
	// block: these, and the assistant's message that follows or that the block is in, which is what it answered.
	End int
}

// NoTenant is whose blocks are that nobody has claimed.
const NoTenant = 0

// tenantShift is where in a key its tenant is. The other end of a key is different in all of them, so that a search
// through many for one finds it quickly.
const tenantShift = 56

// Tenant returns the tag of the tenant that has claimed the block, 1 to 255, or [NoTenant]. Now and then two tenants
// have the same.
func (b Block) Tenant() byte { return byte(b.Key >> tenantShift) }

// MaxBlocks is how many blocks a chain has at most. What follows them in a longer prompt is left out.
const MaxBlocks = 128

// maxSteps bounds the marks of a chain, and the values that may be stepped over in search of a role: they cost more
// than the bytes that they are, and a body can be made of them. What follows is left out.
const maxSteps = 16 << 10

// What counts for how much of maxSteps, by the time that it takes.
const (
	scalarSteps = 1 // so a prompt may be 16,000 tokens given as numbers
	markSteps   = 2
)

// growEvery is how many blocks have the first size. Each time the prompt is twice as long, so are the blocks.
const growEvery = 32

// Blocks that end with a message are shorter than those that are full, and there are no more than MaxBlocks. So a
// block costs its price, and pays for it by how full it is; where there is nothing to spare, no message ends one. Of
// a prompt of 200 KiB, first blocks of 512 bytes would be 89 full ones, which pay for 100 of any length; those to
// spare are the rest of what there may be.
const (
	blockPrice    = 1 << 10
	fullBlockPays = blockPrice + blockPrice/8
	initialBudget = 26 * blockPrice
	// reservedBudget is what is left for the ends of questions, which say where a model's answer is, by those of other
	// messages.
	reservedBudget = 12 * blockPrice
)

// Chainer cuts prompts into blocks and names each by all before it: SipHash-2-4 with 128 bits of the block and the
// hash before. 56 bits of the hash are the key, beside its tenant. Without the secret nobody can find prompts whose
// keys collide, or tell from keys what was asked. A Chainer is used from one goroutine.
//
// A block ends inside a message every so many bytes: the size that was given for the first 32 blocks, twice as many
// from there until the prompt is twice as long, and so on. So what two prompts have in common is known to about a
// thirtieth, and a chain grows with the logarithm of its prompt. A block also ends before an assistant's answer, and
// with the question at the end of a list, which is the same place in this request and in the next one of the
// conversation; and with other messages, if it is long enough then.
type Chainer struct {
	size         int       // of the first blocks, bytes
	hash         hash.Hash // of the block so far
	mediaHash    hash.Hash
	blocks       []Block
	length       int  // bytes of the prompt so far
	blockStart   int  // where the block begins
	blockEnd     int  // where it ends at the latest
	budget       int  // see blockPrice
	questionLast bool // the last message is one that a model answers
	answerBlock  int  // the block that ends where the answer begins that is being read, -1 if there is none such
	state        [siphash.Size128]byte
	name         []byte    // scratch
	short        [256]byte // bytes of the block that are not in the hash yet: a prompt may come in very small parts
	shortLen     int       // how many
	small        [16]byte  // scratch
	decoded      [128]byte // scratch
	steps        int       // so far, see maxSteps
}

// Secret makes the secret of a chainer of any text.
func Secret(text string) (secret [16]byte) {
	a, b := siphash.Hash128(0, 0, []byte(text))
	binary.LittleEndian.PutUint64(secret[:], a)
	binary.LittleEndian.PutUint64(secret[8:], b)
	return secret
}

// NewChainer returns a chainer whose first blocks have the given size in bytes.
func NewChainer(secret [16]byte, size int) *Chainer {
	return &Chainer{
		size: size, hash: siphash.New128(secret[:]), mediaHash: siphash.New128(secret[:]), blocks: make([]Block, 0, MaxBlocks),
	}
}

// Chain returns the blocks of the prompt in a body, whose parts are known from [Read], and the length of that prompt
// as it is hashed. Prompts of different namespaces, models, adapters or cache salts have no key in common. The blocks
// are valid until the next call.
func (c *Chainer) Chain(body []byte, p *Parts, namespace ...string) (blocks []Block, length int) {
	c.hash.Reset()
	for _, name := range namespace {
		c.addName([]byte(name))
	}
	for _, f := range nameFields {
		if f == p.cutField {
			return nil, 0 // the rest of the name is not there
		}
		name := p.of(body, f)
		if len(name) <= maxModelName {
			c.name = nameIn(c.name[:0], name)
			name = c.name
		}
		c.addName(name)
	}
	c.blocks, c.length, c.steps, c.shortLen, c.budget = c.blocks[:0], 0, 0, 0, initialBudget
	c.startBlock()
	for _, f := range textFields {
		if value := p.of(body, f); len(value) > 0 {
			c.addMark(markOf(f))
			c.addList(f, value, f == p.cutField)
		}
	}
	return c.blocks, c.length
}

// Claim makes a tenant the owner of blocks without one. A store gives each tenant its part of the room that it has,
// so that no tenant can make it forget the prompts of the others. The name must be one that clients cannot choose.
func (c *Chainer) Claim(blocks []Block, tenant string) {
	c.hash.Reset()
	c.addName([]byte(tenant))
	c.hash.Sum(c.state[:0])
	tag := 1 + binary.LittleEndian.Uint64(c.state[:])%255
	for i := range blocks {
		blocks[i].Key |= tag << tenantShift
	}
}

// addName adds a name to what all keys depend on.
func (c *Chainer) addName(name []byte) {
	c.hash.Write(binary.LittleEndian.AppendUint64(c.small[:0], uint64(len(name))))
	c.hash.Write(name)
}

// startBlock begins a block.
func (c *Chainer) startBlock() {
	c.flush()
	c.hash.Sum(c.state[:0])
	c.hash.Reset()
	c.hash.Write(c.state[:])
	c.blockStart = c.length
	c.blockEnd = c.length + c.size<<bits.Len(uint(c.length/(c.size*growEvery)))
}

// endBlock ends the block, and begins the next.
func (c *Chainer) endBlock() {
	c.budget = c.budgetAfter()
	c.startBlock()
	c.blocks = append(c.blocks, Block{Key: binary.LittleEndian.Uint64(c.state[:]) & (1<<tenantShift - 1), End: c.length})
}

// budgetAfter returns what there is to spare if the block ends here.
func (c *Chainer) budgetAfter() int {
	return c.budget + (c.length-c.blockStart)*fullBlockPays/(c.blockEnd-c.blockStart) - blockPrice
}

// endMessage ends the block with the message, if enough is in it: a quarter of a block at first, and three quarters
// of the longer ones behind.
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

// endQuestion ends the block with the last message, if that is one that a model answers: here the answer begins, in
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

// endAnswer counts what the model has answered as cached with what it was asked.
func (c *Chainer) endAnswer() {
	if c.answerBlock < 0 || c.full() {
		return
	}
	for i := range c.blocks[c.answerBlock:] {
		c.blocks[c.answerBlock+i].End = c.length
	}
}

// maxModelName is up to which length, in bytes, a name is taken for what it says and not as it is written.
const maxModelName = 1 << 10

// full says that there will be no more blocks. What is still to come only counts by its length.
func (c *Chainer) full() bool { return len(c.blocks) >= MaxBlocks || c.steps > maxSteps }

// add adds bytes to the prompt.
func (c *Chainer) add(p []byte) {
	if n := len(p); n <= tinyLen && n < c.blockEnd-c.length && n <= len(c.short)-c.shortLen {
		for i, b := range p { // copying by a call costs more, most of all in a VM
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

// tinyLen is the length, in bytes, of marks, most numbers and many keys.
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

// flush adds what is not in the hash yet.
func (c *Chainer) flush() {
	if c.shortLen > 0 {
		c.hash.Write(c.short[:c.shortLen])
		c.shortLen = 0
	}
}

// escape stands in front of every mark. No UTF-8 text has that byte; where a text has it all the same it is doubled,
// so that no text can look like marks.
const escape = 0xff

// markOf returns the mark of a field. The numbers of the first ones are below those of all other marks.
func markOf(f field) byte {
	if f > fieldTools {
		return byte(f) | 0x80
	}
	return byte(f)
}

// addMark adds something that is no text: where a string begins, a bracket, a field.
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
