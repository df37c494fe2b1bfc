package simulate

import (
	"cmp"
	"slices"

	"github.com/warmgate/warmgate/lb/prompt"
)

// forest is how the prompts of a log begin alike, by their fingerprints: for each block in one, the blocks in front of
// it. Each fingerprint shows only some of them; a block has those that any prompt with it has shown.
type forest struct {
	blocks map[blockName]*logBlock
}

// blockName names a block: two prompts with it are the same up to there.
type blockName struct {
	number int
	key    uint32
}

// logBlock is a block of the log. Its prompts end behind a question, or go on with the answer that its end has counted.
type logBlock struct {
	number   int
	end      int // of what was sent up to the block, in bytes
	answered int // with the answer behind it, if any prompt goes on with that
	before   []*logBlock
	name     uint64
}

// answerName names the prompt that ends with the block, with the answer to it.
func (b *logBlock) answerName() uint64 { return name(b.name, 1) }

// plant adds a prompt.
func (f *forest) plant(marks []prompt.Mark) {
	var before *logBlock
	for _, m := range marks {
		of := blockName{m.Number, m.Key}
		b := f.blocks[of]
		if b == nil {
			b = &logBlock{number: m.Number, end: m.End, name: name(uint64(m.Key), uint64(m.Number)<<8|9)}
			f.blocks[of] = b
		}
		b.end, b.answered = min(b.end, m.End), max(b.answered, m.End)
		if before != nil && !slices.Contains(b.before, before) {
			b.before = append(b.before, before)
		}
		before = b
	}
}

// grow finds out for each block which one is closest in front of it: all that are in front of a block are also in front
// of each other.
func (f *forest) grow() {
	all := make([]*logBlock, 0, len(f.blocks))
	for _, b := range f.blocks {
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b *logBlock) int { return cmp.Or(b.number-a.number, cmp.Compare(a.name, b.name)) })
	for _, b := range all {
		if len(b.before) < 2 {
			continue
		}
		closest := slices.MaxFunc(b.before, func(a, b *logBlock) int { return cmp.Compare(a.number, b.number) })
		for _, other := range b.before {
			if other.number < closest.number && !slices.Contains(closest.before, other) {
				closest.before = append(closest.before, other)
			}
		}
		b.before = []*logBlock{closest}
	}
}

// path returns the blocks up to that of a mark, in order.
func (f *forest) path(m prompt.Mark) (path []*logBlock) {
	for b := f.blocks[blockName{m.Number, m.Key}]; ; b = b.before[0] {
		path = append(path, b)
		if len(b.before) == 0 {
			slices.Reverse(path)
			return path
		}
	}
}
