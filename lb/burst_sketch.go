package lb

// burstSketch counts how many of the latest requests begin with a block: branches of a tree come at once, each of which alone
// had better go where the rest of the tree is. It is the sketch of [popularity] over a shorter time, and its counts are
// halved when they are looked at.
type burstSketch struct {
	requests int    // in this term
	period   uint16 // of which cells have those bits that are left beside the count
}

const (
	// maxBurstRequests is how many requests count at most, however many endpoints there are: more would fill the sketch.
	maxBurstRequests = 64
	// burstCountBits are those of a cell that have the count, the lowest. The others have the term in which it was made.
	burstCountBits = 4
	maxBurstCount  = 1<<burstCountBits - 1
)

// count counts one in a cell and returns what was counted there in this term and, halved with each,
// in those before.
func (b *burstSketch) count(cell *uint16) int {
	passed := (b.period - *cell>>burstCountBits) & (1<<(16-burstCountBits) - 1)
	count := *cell & maxBurstCount >> min(passed, burstCountBits)
	*cell = b.period<<burstCountBits | min(count+1, maxBurstCount)
	return int(count)
}

// advance notes that a request has been counted.
func (b *burstSketch) advance(endpoints int) {
	if b.requests++; b.requests >= min(endpoints, maxBurstRequests) {
		b.requests = 0
		b.period++
	}
}
