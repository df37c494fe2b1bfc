package prompt

import (
	"encoding/binary"
	"hash"
	"hash/maphash"

	"github.com/dchest/siphash"
)

// Chainer cuts prompts into blocks and names each by everything before its end: SipHash-2-4 with 128 bits (Aumasson and
// Bernstein, 2012) of the block and the previous hash. 56 bits of the hash are the key; the others are the tenant's
// tag. Without the secret it is infeasible to find prompts with colliding keys, or to learn prompts from keys. A
// Chainer is for one goroutine.
//
// A block ends inside a message after a fixed number of bytes: the given size for the first 32 blocks, twice as many
// until the prompt is twice as long, and so on. So the common beginning of two prompts is known to about 1/30, and the
// length of a chain grows with the logarithm of its prompt. A block also ends before an assistant's answer, and with a
// question at the end of a list: the same position in this request and in the next one of the conversation. With other
// messages it ends if it is long enough.
type Chainer struct {
	cutter       cutter
	mediaHash    hash.Hash
	questionLast bool        // the latest message is one that a model answers
	answerBlock  int         // index of the block that ends where the current answer begins, -1 if there is none
	name         []byte      // scratch
	fieldStart   int         // where the field begins in the body
	long         longStrings // of the body
	nextLong     int         // see longStrings.find
	field        field       // that is being added
	system       bool        // the message is one of the system's
	hasSystem    bool        // the prompt has one beside its messages
	printsIDs    bool        // the template of the model prints the ids of tool calls
	texts        int         // texts of the conversation so far
	skipFirst    bool        // see Expect
	first        First
	behind       behind
	seed         maphash.Seed                        // of its digests
	rooms        [maxLevels][maxMembers]objectMember // scratch
	level        int                                 // of objects in which the current one is
}

// First is what a prompt's first text is known by, if it is short, and the beginning of what is behind it, if that is
// long; 0 for neither. They are digests that only this chainer makes.
type First struct{ Text, Behind uint64 }

// behind is what is known so far of the texts behind the first one.
type behind struct {
	bytes  int
	digest uint64
	known  bool // no more is needed
}

const (
	// MaxFirst is the length in bytes of a first text that is short, as it is written in JSON.
	MaxFirst = 1 << 10
	// What is behind it has to be the same for as much, and not short: short texts are often the same by chance. It
	// may be several of a system prompt, up to maxBehindTexts.
	maxBehind      = 1 << 10
	minBehind      = 512
	maxBehindTexts = 4
)

// Expect says what is known of how the model of the next prompt is served: whether engines leave out the first text, if
// it is short and what is behind it is not, and for how many bytes of text an image, a sound or a file counts, for each
// of [MediaSizes] classes of size; nil for none.
func (c *Chainer) Expect(skipFirst bool, mediaBytes []int) {
	c.skipFirst, c.cutter.bytesOf = skipFirst, mediaBytes
}

// First returns what the latest prompt begins with.
func (c *Chainer) First() First { return c.first }

// Media returns how many images, sounds and files the latest prompt contains, as far as it is hashed, for how many
// bytes of text they count, and the classes of their sizes, of as many as are told apart. These are valid until the
// next call of Chain.
func (c *Chainer) Media() (n, bytes int, sizes []byte) {
	return c.cutter.media, c.cutter.mediaBytes, c.cutter.sizes[:min(c.cutter.media, maxMedia)]
}

// Secret derives the secret of a chainer from a text of any length.
func Secret(text string) (secret [16]byte) {
	a, b := siphash.Hash128(0, 0, []byte(text))
	binary.LittleEndian.PutUint64(secret[:], a)
	binary.LittleEndian.PutUint64(secret[8:], b)
	return secret
}

// NewChainer returns a chainer whose first blocks have the given size in bytes.
func NewChainer(secret [16]byte, size int) *Chainer {
	return &Chainer{
		cutter:    cutter{size: size, hash: siphash.New128(secret[:]), blocks: make([]Block, 0, MaxBlocks)},
		mediaHash: siphash.New128(secret[:]), seed: maphash.MakeSeed(),
	}
}

// Claim assigns blocks that have no tenant to one. A store limits each tenant to its part of the index, so that no
// tenant can evict the prompts of the others. The name must be one that clients cannot choose.
func (c *Chainer) Claim(blocks []Block, tenant string) {
	c.cutter.hash.Reset()
	c.cutter.addName([]byte(tenant))
	c.cutter.hash.Sum(c.cutter.state[:0])
	tag := 1 + binary.LittleEndian.Uint64(c.cutter.state[:])%255
	for i := range blocks {
		blocks[i].Key |= tag << tenantShift
	}
}
