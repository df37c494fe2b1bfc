package prompt

import (
	"math"

	"github.com/warmgate/warmgate/internal/jsontext"
)

// A prompt that is one text, as in the completions API, has no messages at whose ends blocks could end. The next
// request of a conversation begins with all of it, but the blocks of a long prompt are long: what the conversation
// itself has added would be in none. So the end of such a prompt is cut finely, too, into pieces of half the first
// size, from the latest of some positions on that are far apart (tailApart) and not too near to the end (tailLeast).
// These depend on the length only in steps. So a prompt that is longer by tailLeast or less has the same fine cuts in
// the block in which the shorter one ends.
//
// In full blocks they are only looked up ([Block.Inner]), if the block itself is not known. So a prompt takes few more
// places in an index: those of the fine cuts behind its last full block.
const (
	tailLeast = 8   // first sizes that are cut finely at the end of a prompt, at least
	tailApart = 8   // first sizes between positions where that may begin; longer blocks are cut finely in part
	tailParts = 2   // pieces of a first size
	maxTailed = 512 // first sizes of a prompt that is cut finely: of a longer one the chain has no room for them
	noTail    = math.MaxInt
)

// Recorded returns how many of the blocks an index records.
func Recorded(blocks []Block) (n int) {
	for i := range blocks {
		if !blocks[i].Inner {
			n++
		}
	}
	return n
}

// isOneText reports whether a string as the value of the field is the whole prompt.
func isOneText(f field) bool {
	return f == fieldPrompt || f == fieldText || f == fieldInputs || f == fieldTextInput
}

// beginTail has the end of a text cut finely. The first block of a chain is not.
func (t *cutter) beginTail(content []byte, escaped bool) {
	end := t.length + len(content)
	if escaped {
		end = t.length + jsontext.UnescapedLen(content)
	}
	t.oneText = false
	t.tailFrom = TailFrom(t.size, end)
	t.setStop()
}

// TailFrom returns from where on a prompt that is one text is cut finely, into pieces of [TailPart], if it ends at end
// and first blocks have the given size; [math.MaxInt] for nowhere.
func TailFrom(size, end int) int {
	if end > maxTailed*size || size < tailParts {
		return noTail
	}
	return max(size, (end-tailLeast*size)/(tailApart*size)*(tailApart*size))
}

// TailPart returns the length of the pieces.
func TailPart(size int) int { return size / tailParts }

// endTail ends the text. Its last fine cuts are recorded, also if what follows fills the block: no longer prompt has
// that block.
func (t *cutter) endTail() {
	t.tailFrom, t.fine = noTail, 0
	t.setStop()
}

// setStop sets where hashing stops next: at the end of the block, or at a fine cut.
func (t *cutter) setStop() {
	t.stop = min(t.blockEnd, NextFine(t.size, t.tailFrom, t.blockStart, t.length))
}

// NextFine returns where a block that starts at start is cut finely next behind at, if it is that long, with first
// blocks of the given size and fine cuts from tailFrom on: see [TailFrom].
func NextFine(size, tailFrom, start, at int) int {
	if tailFrom == noTail {
		return noTail
	}
	part := TailPart(size)
	return start + (max(at, tailFrom)-start)/part*part + part
}

// stopHere ends the block, or cuts finely where hashing has stopped. The last block of a prompt, which endMessage may
// end, leaves the fine ones in it as they are.
func (t *cutter) stopHere() {
	if t.length == t.blockEnd {
		for i := len(t.blocks) - t.fine; i < len(t.blocks); i++ {
			t.blocks[i].Inner = true
		}
		t.endBlock()
		return
	}
	t.flush()
	t.hash.Sum(t.state[:0])
	t.blocks = append(t.blocks, Block{Key: t.key(), End: t.end(), Fine: true})
	t.fine++
	t.setStop()
}
