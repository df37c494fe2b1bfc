package prompt

import (
	"encoding/binary"
	"hash"
	"math/bits"

	"github.com/dchest/siphash"
)

// Block is a prefix block: a part of a prompt. Its key identifies the prompt from its beginning to the end of the
// block, within its namespace: two prompts have a key in common only if everything before its end is the same.
type Block struct {
	Key uint64
	// End is the number of bytes of the hashed prompt that a model server has cached if it was sent the prompt up to
	// this block: the bytes up to its end, plus the assistant's message that begins there or that the block is in,
	// because the server generated it.
	End int
	// Fine is set if the block is a part of a longer one: see [tailLeast].
	Fine bool
	// Inner is set if that one follows in the chain. Then the block is looked up, for prompts that ended in it, but it
	// is not recorded.
	Inner bool
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

// cutter cuts a prompt into blocks as it comes: what is added to it is hashed, and a block ends where it is full, or
// where it is told that one may end.
type cutter struct {
	size       int       // of the first blocks, in bytes
	hash       hash.Hash // of the block so far
	blocks     []Block
	length     int // bytes of the prompt so far
	blockStart int // start of the block, in bytes of the prompt
	blockEnd   int // its latest end
	stop       int // where hashing stops next: there, or at a fine cut
	tailFrom   int // where the fine cuts begin, noTail for none
	fine       int // fine cuts in the block
	oneText    bool
	budget     int // see blockPrice
	state      [siphash.Size128]byte
	short      [1 << 10]byte  // bytes of the block that are not hashed yet: a prompt may come in very small parts
	shortLen   int            // number of bytes in short
	small      [16]byte       // scratch
	decoded    [128]byte      // scratch
	steps      int            // so far, see maxSteps
	media      int            // images, sounds and files so far
	mediaBytes int            // what they count for
	bytesOf    []int          // what one of each size counts for
	sizes      [maxMedia]byte // of the first of them, as classes
}

// countMedia counts an image, a sound or a file.
func (t *cutter) countMedia(size byte) {
	if t.media < maxMedia {
		t.sizes[t.media] = size
	}
	t.media++
	if t.bytesOf != nil {
		t.mediaBytes += t.bytesOf[size]
	}
}

// end returns the length of the prompt so far, with its media.
func (t *cutter) end() int { return t.length + t.mediaBytes }

// begin begins another prompt, behind the names that were added.
func (t *cutter) begin() {
	t.blocks, t.length, t.steps, t.shortLen, t.budget = t.blocks[:0], 0, 0, 0, initialBudget
	t.media, t.mediaBytes, t.tailFrom, t.oneText = 0, 0, noTail, false
	t.startBlock()
}

// startBlock starts a block at the current position.
func (t *cutter) startBlock() {
	t.flush()
	t.hash.Sum(t.state[:0])
	t.hash.Reset()
	t.hash.Write(t.state[:])
	t.blockStart = t.length
	t.blockEnd = t.length + t.size<<bits.Len(uint(t.length/(t.size*growEvery)))
	t.fine = 0
	t.setStop()
}

// endBlock ends the block and starts the next.
func (t *cutter) endBlock() {
	t.budget = t.budgetAfter()
	t.startBlock()
	t.blocks = append(t.blocks, Block{Key: t.key(), End: t.end()})
}

// key returns the key of the latest state.
func (t *cutter) key() uint64 { return binary.LittleEndian.Uint64(t.state[:]) & (1<<tenantShift - 1) }

// budgetAfter returns the budget if the block ends here.
func (t *cutter) budgetAfter() int {
	return t.budget + (t.length-t.blockStart)*fullBlockPays/(t.blockEnd-t.blockStart) - blockPrice
}

// endMessage ends the block with the message if it is long enough: a quarter of the first size, or three quarters of a
// longer block.
func (t *cutter) endMessage() {
	t.addMark('.')
	enough := t.size / 4
	if whole := t.blockEnd - t.blockStart; whole > t.size {
		enough = whole / 4 * 3
	}
	if !t.full() && t.length-t.blockStart >= enough && t.budgetAfter() >= reservedBudget {
		t.endBlock()
	}
}

// endBeside ends the block beside a picture if it is long enough and leaves enough of the budget.
//
//go:noinline
func (t *cutter) endBeside(enough, budget int) {
	if !t.full() && t.length-t.blockStart >= enough && t.budgetAfter() >= budget {
		t.endBlock()
	}
}

// full reports whether there will be no more blocks. The rest of the prompt only adds to its length.
func (t *cutter) full() bool { return len(t.blocks) >= MaxBlocks || t.steps > maxSteps }

// add adds bytes to the prompt.
func (t *cutter) add(p []byte) {
	if n := len(p); n <= tinyLen && n < t.stop-t.length && n <= len(t.short)-t.shortLen {
		for i, b := range p { // faster than a call of copy, most of all in a VM
			t.short[t.shortLen+i] = b
		}
		t.shortLen += n
		t.length += n
		return
	}
	for len(p) > 0 && !t.full() {
		n := min(len(p), t.stop-t.length)
		t.write(p[:n])
		t.length += n
		p = p[n:]
		if t.length == t.stop {
			t.stopHere()
		}
	}
	t.length += len(p)
}

// tinyLen is the length in bytes up to which add copies byte by byte: that of marks, most numbers and many keys.
const tinyLen = 16

// write adds bytes to the hash of the block.
func (t *cutter) write(p []byte) {
	if len(p) > len(t.short)-t.shortLen {
		t.flush()
		if len(p) > len(t.short)/2 {
			t.hash.Write(p)
			return
		}
	}
	t.shortLen += copy(t.short[t.shortLen:], p)
}

// flush hashes the bytes in short.
func (t *cutter) flush() {
	if t.shortLen > 0 {
		t.hash.Write(t.short[:t.shortLen])
		t.shortLen = 0
	}
}

// escape precedes every mark. Valid UTF-8 does not contain this byte; where a text does, it is doubled, so that no text
// can be mistaken for marks.
const escape = 0xff

// addMark adds a structural mark: the beginning of a string, a bracket, a field.
func (t *cutter) addMark(b byte) {
	t.steps += markSteps
	if t.stop-t.length > 2 && len(t.short)-t.shortLen >= 2 {
		t.short[t.shortLen], t.short[t.shortLen+1] = escape, b
		t.shortLen += 2
		t.length += 2
		return
	}
	t.add(append(t.small[:0], escape, b))
}

// addRareName adds a name that few prompts have.
func (t *cutter) addRareName(f field, name []byte) {
	t.addName([]byte{byte(f)})
	t.addName(name)
}

// addName adds a name that all keys depend on.
func (t *cutter) addName(name []byte) {
	t.hash.Write(binary.LittleEndian.AppendUint64(t.small[:0], uint64(len(name))))
	t.hash.Write(name)
}
