package lb

// burst counts how many of the latest requests begin with a block: branches of a tree come at once, each of which alone
// had better go where the rest of the tree is. It is the sketch of [popularity] over a shorter time, and its counts are
// halved when they are looked at.
type burst struct {
	cells    *[2][sketchRow]uint16 // the term in which it was last counted, then the count; nil before the first block
	requests int                   // in this term
	term     uint16
}

const (
	// burstMost is how many requests count at most, however many endpoints there are: more would fill the sketch.
	burstMost = 64
	// countBits are those of a cell that have the count.
	countBits = 4
	countMost = 1<<countBits - 1
)

// count counts a block and returns how often it was counted of late.
func (b *burst) count(key uint64) int {
	x, y := b.cell(&b.cells[0][key>>16%sketchRow]), b.cell(&b.cells[1][key>>40%sketchRow])
	return min(x, y)
}

// cell counts one in the cell and returns what it was.
func (b *burst) cell(c *uint16) int {
	term := *c >> countBits
	count := *c & countMost >> min((b.term-term)&(1<<(16-countBits)-1), countBits)
	*c = b.term<<countBits | min(count+1, countMost)
	return int(count)
}

// next notes that a request has been counted.
func (b *burst) next(endpoints int) {
	if b.requests++; b.requests >= min(endpoints, burstMost) {
		b.requests = 0
		b.term++
	}
}
