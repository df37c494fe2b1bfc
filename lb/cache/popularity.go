package cache

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/lb/prompt"
)

// popularity estimates which share of a cluster's requests begins with a prefix block. It is a count-min sketch
// (Cormode and Muthukrishnan, "An Improved Data Stream Summary", 2005) whose two hashes are parts of the block's key,
// less the mean count of a cell as an estimate of other blocks in it (count-mean-min; Deng and Rafiei, "New Estimation
// Algorithms for Streaming Data", 2007). Counts are halved periodically, so that a prefix that is no longer popular is
// forgotten. It takes 64 KiB from the first block on.
type popularity struct {
	counts   *[2][sketchRow]blockCount // nil before the first block: most clusters never see one
	requests int                       // counted requests, halved with the counts
	blocks   int                       // counted blocks, halved with the counts
	burst    burstSketch

	termStart          time.Duration // start of the current term of commonTerm
	thisTerm, lastTerm int           // requests in the current term and in the previous one
}

// blockCount is one cell of the sketch.
type blockCount struct {
	all   uint16
	burst uint16 // see burstSketch
}

const (
	sketchRow = 1 << 13 // cells per row
	// All counts are halved after sketchSpan requests per endpoint, but at least sketchSpanMin and at most as many
	// requests as a count can hold. An endpoint's fair share of them is then 8 to 16 requests: enough to detect, and a
	// prefix becomes popular after a few.
	sketchSpan    = 16
	sketchSpanMin = 64
	sketchSpanMax = 1<<16 - 1
	// commonShare is the share of the requests above which a block earns no credit. With fewer requests than
	// endpoints in a term it still does: computing it at every endpoint would cost more than it saves.
	commonShare = 1.0 / 2
	commonTerm  = 10 * time.Second
)

// creditBytes counts a request with the given blocks, and returns the bytes that a match of 1, 2 and so on of them is
// credited for: see [lb.Prefix.CreditBytes]. That is their length, reduced for popular blocks:
//
//   - A block that x times an endpoint's fair share of the requests begin with, x > 1, is credited for 1/x² of its
//     length. One endpoint cannot serve all of them; computing the block on one more endpoint is paid for once and
//     saves it for all requests that follow there.
//   - A block that more than commonShare of the requests begin with is not credited. Every endpoint will need it, and
//     the prompts behind it should be spread before one cache is full and the others are empty.
//   - Of n requests in one burst that begin with the block, each is credited for 1/n of it.
//   - A block behind such a beginning is the conversation's own. It is credited for more than its length, up to twice
//     with an ownGain of 1 behind one that all need: see ownGain.
func (p *popularity) creditBytes(blocks []prompt.Block, endpoints int, ownGain float64) []uint32 {
	if p.counts == nil && len(blocks) > 0 {
		p.counts = new([2][sketchRow]blockCount)
	}
	credits := p.credits(blocks, endpoints, ownGain)
	p.burst.advance(endpoints)
	p.requests, p.blocks = p.requests+1, p.blocks+len(blocks)
	if p.requests >= min(max(sketchSpanMin, sketchSpan*endpoints), sketchSpanMax) {
		p.halve()
	}
	return credits
}

// tryCreditBytes returns what creditBytes would for a request of now, counted by countRequest. Nothing is counted.
func (p *popularity) tryCreditBytes(
	now time.Duration, blocks []prompt.Block, endpoints int, ownGain float64,
) []uint32 {
	tried := *p
	if tried.counts == nil {
		tried.counts = new([2][sketchRow]blockCount)
	}
	before := make([][2]blockCount, len(blocks))
	for i, b := range blocks {
		x, y := tried.cells(b.Key)
		before[i] = [2]blockCount{*x, *y}
	}
	tried.countRequest(now)
	credits := tried.credits(blocks, endpoints, ownGain)
	for i, b := range blocks {
		x, y := tried.cells(b.Key)
		*x, *y = before[i][0], before[i][1]
	}
	return credits
}

// credits counts the blocks of a request, and returns the bytes that matches of them are credited for.
func (p *popularity) credits(blocks []prompt.Block, endpoints int, ownGain float64) []uint32 {
	credits := make([]uint32, len(blocks))
	sum, from, maxShare := 0.0, 0, math.Inf(1)
	if max(p.thisTerm, p.lastTerm) >= endpoints {
		maxShare = commonShare
	}
	// Of the beginning that is shared: its length, and how much of it other endpoints have to serve.
	shared, elsewhere := 0.0, 0.0
	noise, perRequest := float64(p.blocks)/sketchRow, 1/float64(p.requests+1)
	for i, b := range blocks {
		count, burst := p.count(b.Key)
		length, share := float64(b.End-from), max(0, float64(count)-noise)*perRequest
		switch fair := share * float64(endpoints); {
		case share > maxShare:
			shared, elsewhere = shared+length, elsewhere+length
		case fair > 1:
			shared, elsewhere = shared+length, elsewhere+length*(1-1/fair)
			sum += length / max(fair*fair, float64(burst))
		default:
			gain := 1 + ownGain*elsewhere/max(1, shared)
			sum += length * gain / max(1, float64(burst))
		}
		from = b.End
		credits[i] = uint32(math.Ceil(sum))
	}
	return credits
}

// countRequest counts a request of any kind in the current term.
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

// count counts a block, and returns how often it was counted before: in all, and in the current burst.
func (p *popularity) count(key uint64) (before uint16, burst int) {
	x, y := p.cells(key)
	before = min(x.all, y.all)
	x.all += min(1, math.MaxUint16-x.all) // no overflow: several blocks of a prompt may share a cell
	y.all += min(1, math.MaxUint16-y.all)
	return before, min(p.burst.count(&x.burst), p.burst.count(&y.burst))
}

// cells returns those of a block.
func (p *popularity) cells(key uint64) (x, y *blockCount) {
	return &p.counts[0][key>>16%sketchRow], &p.counts[1][key>>40%sketchRow]
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
