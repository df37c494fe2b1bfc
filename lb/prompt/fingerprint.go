package prompt

import (
	"encoding/binary"
	"strings"

	"github.com/dchest/siphash"
)

// A fingerprint shows which prompts begin alike, and for how long, without anything of their texts: it has some of the
// blocks of a prompt. Of n blocks, the one that ends the first c is in it if c is a power of two, or if n-c is less
// than twice the largest power of two that divides c. So they are dense near the end, where the turns of a conversation
// differ, and prompts that begin alike have the same ones there: what they have in common shows, but for less than
// twice as much as they differ in. So that it shows whole where it is short, such as a system prompt, the block at
// which an earlier prompt was known to differ is in it, too.

const (
	markLen  = 10 // characters of base64, of 6 bits each
	maxMarks = 15 // 14 by the rule
	keyBits  = 32
	endBits  = 21
)

// MarkUnit is the unit in which a fingerprint has ends, in bytes.
const MarkUnit = 8

// Mark is a block of a fingerprint.
type Mark struct {
	Number int    // of the block in its prompt, from 0
	Key    uint32 // the lower half of [Block.Key]
	End    int    // as in [Block], to a multiple of [MarkUnit]
}

// alphabet is that of base64 for URLs (RFC 4648).
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// AppendFingerprint appends the fingerprint of a prompt, of which the first blocks were known before, as many as given.
// It has ten characters for each block, 150 at most: seven bits of the number, 32 of the key and 21 of the end. Fine
// blocks do not count: a longer prompt may not have them.
func AppendFingerprint(dst []byte, blocks []Block, known int) []byte {
	n, known, c, last := countWhole(blocks), countWhole(blocks[:min(known, len(blocks))]), 0, -1
	for i := range blocks {
		if blocks[i].Fine {
			continue
		}
		c++
		if c&(c-1) != 0 && n-c >= 2*(c&-c) && c != known {
			continue
		}
		at, number := i, c-1
		for at > 0 && blocks[at-1].End == blocks[at].End { // both are there once the same answer is
			at--
			number--
		}
		if number > last {
			dst, last = appendMark(dst, number, blocks[at]), number
		}
	}
	return dst
}

// countWhole returns how many of the blocks are not fine.
func countWhole(blocks []Block) (n int) {
	for i := range blocks {
		if !blocks[i].Fine {
			n++
		}
	}
	return n
}

func appendMark(dst []byte, number int, b Block) []byte {
	end := min(uint64(b.End)/MarkUnit, 1<<endBits-1)
	bits := uint64(number)<<(keyBits+endBits) | uint64(uint32(b.Key))<<endBits | end
	for shift := 6 * (markLen - 1); shift >= 0; shift -= 6 {
		dst = append(dst, alphabet[bits>>shift&63])
	}
	return dst
}

// ParseFingerprint returns the blocks of a fingerprint, in order, and whether it is one.
func ParseFingerprint(text string) (marks []Mark, ok bool) {
	if len(text)%markLen != 0 || len(text) > maxMarks*markLen {
		return nil, false
	}
	for ; text != ""; text = text[markLen:] {
		bits := uint64(0)
		for i := range markLen {
			at := strings.IndexByte(alphabet, text[i])
			if at < 0 {
				return nil, false
			}
			bits = bits<<6 | uint64(at)
		}
		m := Mark{
			Number: int(bits >> (keyBits + endBits)), Key: uint32(bits >> endBits),
			End: int(bits&(1<<endBits-1)) * MarkUnit,
		}
		if n := len(marks); n > 0 && (m.Number <= marks[n-1].Number || m.End < marks[n-1].End) {
			return nil, false
		}
		marks = append(marks, m)
	}
	return marks, true
}

// Disguise returns a number that stands for another one: always the same, and not 0. Nobody can tell for which without
// the secret.
func Disguise(secret [16]byte, v uint64) uint32 {
	k0, k1 := binary.LittleEndian.Uint64(secret[:]), binary.LittleEndian.Uint64(secret[8:])
	return max(1, uint32(siphash.Hash(k0, k1, binary.LittleEndian.AppendUint64(nil, v))))
}
