package lb

import (
	"math"

	"github.com/warmgate/warmgate/lb/prompt"
)

// popularity estimates which part of the requests of a cluster begins with a block: a count-min sketch (Cormode and
// Muthukrishnan, 2005) whose hashes are two parts of the block's key, which is a hash already, less what a count holds of other
// blocks on average (Deng and Rafiei, 2007). Counts are halved now and then, so that what was popular once is forgotten.
type popularity struct {
	counts   *[2][sketchRow]uint16 // nil before the first block: most clusters never see one
	requests int                   // that were counted, halved with the counts
	blocks   int                   // that were counted, halved with the counts
}

const (
	sketchRow = 1 << 13
	// sketchSpan is how many requests for each endpoint are counted before all counts are halved: an endpoint's fair part are 8 to 16
	// of them, which is enough to tell, and what becomes popular does so after a few. There are sketchSpanMin at least, and as many
	// as a count can hold at most.
	sketchSpan    = 16
	sketchSpanMin = 64
	sketchSpanMax = 1<<16 - 1
	// poor is the part of a prompt below which a match is not followed: requests then go to endpoints that nobody uses.
	poor = 1.0 / 4
)

// worth counts a request with the blocks and returns what it is worth to have the first of them, up to each, in the unit of their
// ends. That is their length, but a block with which more than an endpoint's fair part of the requests begins, x times as many,
// is worth a part of x² of its length. One endpoint cannot serve all of them: computing the block on one more is paid for once
// and saves it for all that follow there.
func (p *popularity) worth(blocks []prompt.Block, length, endpoints int) []uint32 {
	if p.counts == nil && len(blocks) > 0 {
		p.counts = new([2][sketchRow]uint16)
	}
	worth := make([]uint32, len(blocks))
	sum, from := 0.0, 0
	for i, b := range blocks {
		fair := p.count(b.Key) * float64(endpoints) / float64(p.requests+1)
		sum += float64(b.End-from) / max(1, fair*fair)
		from = b.End
		if float64(b.End) >= poor*float64(length) {
			worth[i] = uint32(math.Ceil(sum)) // never nothing: without load it is the match that decides
		}
	}
	p.requests, p.blocks = p.requests+1, p.blocks+len(blocks)
	if p.requests >= min(max(sketchSpanMin, sketchSpan*endpoints), sketchSpanMax) {
		p.halve()
	}
	return worth
}

// count counts a block and returns how often it was counted before.
func (p *popularity) count(key uint64) float64 {
	x, y := &p.counts[0][key>>16%sketchRow], &p.counts[1][key>>40%sketchRow]
	before := float64(min(*x, *y))
	*x += min(1, math.MaxUint16-*x) // two blocks of a prompt may meet in a count
	*y += min(1, math.MaxUint16-*y)
	return max(0, before-float64(p.blocks)/sketchRow)
}

func (p *popularity) halve() {
	if p.counts != nil {
		for row := range p.counts {
			for i := range p.counts[row] {
				p.counts[row][i] /= 2
			}
		}
	}
	p.requests, p.blocks = p.requests/2, p.blocks/2
}
