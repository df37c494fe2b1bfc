package lb

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/lb/prompt"
)

// popularity estimates which part of the requests of a cluster begins with a block: a count-min sketch (Cormode and
// Muthukrishnan, 2005) whose hashes are two parts of the block's key, which is a hash already, less what a count
// holds of other blocks on average (Deng and Rafiei, 2007). Counts are halved now and then, so that what was popular
// once is forgotten.
type popularity struct {
	counts   *[2][sketchRow]blockCount // nil before the first block: most clusters never see one
	requests int                       // that were counted, halved with the counts
	blocks   int                       // that were counted, halved with the counts
	burst    burstSketch

	termStart          time.Duration // when the present term began
	thisTerm, lastTerm int           // requests in this term, and in the one before
}

// blockCount is what is counted of blocks with the same part of their keys.
type blockCount struct {
	all   uint16
	burst uint16
}

const (
	sketchRow = 1 << 13
	// sketchSpan is how many requests for each endpoint are counted before all counts are halved: an endpoint's fair
	// part are 8 to 16 of them, which is enough to see it, and what becomes popular does so after a few. There are
	// sketchSpanMin at least, and as many as a count can hold at most.
	sketchSpan    = 16
	sketchSpanMin = 64
	sketchSpanMax = 1<<16 - 1
	// commonShare is the part of the requests above which a block that they begin with is worth nothing. With fewer requests
	// than endpoints in a term it keeps its worth: computing it wherever one goes would cost more than it saves.
	commonShare = 1.0 / 2
	commonTerm  = 10 * time.Second
)

// creditBytes counts a request with the blocks and returns what it is worth to have the first of them, up to each, in the
// unit of their ends. That is their length, but a block with which more than an endpoint's fair part of the requests
// begins, x times as many, is worth a part of x² of its length. One endpoint cannot serve all of them: computing the
// block on one more is paid for once and saves it for all that follow there. One that most requests begin with is
// worth nothing: every endpoint will need it, and what comes behind it had better be spread before one cache is full
// and the others are empty. And of several that come at once each gets its part of what all of them have in common.
func (p *popularity) creditBytes(blocks []prompt.Block, endpoints int) []uint32 {
	if p.counts == nil && len(blocks) > 0 {
		p.counts = new([2][sketchRow]blockCount)
	}
	worth := make([]uint32, len(blocks))
	sum, from, most := 0.0, 0, math.Inf(1)
	if max(p.thisTerm, p.lastTerm) >= endpoints {
		most = commonShare
	}
	usual, whole := float64(p.blocks)/sketchRow, 1/float64(p.requests+1)
	for i, b := range blocks {
		count, latest := p.count(b.Key)
		if part := max(0, float64(count)-usual) * whole; part <= most {
			fair := part * float64(endpoints)
			sum += float64(b.End-from) / max(1, fair*fair, float64(latest))
		}
		from = b.End
		worth[i] = uint32(math.Ceil(sum))
	}
	p.burst.advance(endpoints)
	p.requests, p.blocks = p.requests+1, p.blocks+len(blocks)
	if p.requests >= min(max(sketchSpanMin, sketchSpan*endpoints), sketchSpanMax) {
		p.halve()
	}
	return worth
}

// countRequest counts a request in the term that it is in.
func (p *popularity) countRequest(now time.Duration) {
	if past := now - p.termStart; past >= commonTerm {
		p.lastTerm = p.thisTerm
		if past >= 2*commonTerm {
			p.lastTerm = 0
		}
		p.termStart, p.thisTerm = now, 0
	}
	p.thisTerm++
}

// count counts a block and returns how often it was counted before, and how often among the latest
// requests.
func (p *popularity) count(key uint64) (before uint16, latest int) {
	x, y := &p.counts[0][key>>16%sketchRow], &p.counts[1][key>>40%sketchRow]
	before = min(x.all, y.all)
	x.all += min(1, math.MaxUint16-x.all) // two blocks of a prompt may meet in a count
	y.all += min(1, math.MaxUint16-y.all)
	return before, min(p.burst.count(&x.burst), p.burst.count(&y.burst))
}

func (p *popularity) halve() {
	if p.counts != nil {
		for row := range p.counts {
			for i := range p.counts[row] {
				p.counts[row][i].all /= 2
			}
		}
	}
	p.requests, p.blocks = p.requests/2, p.blocks/2
}
