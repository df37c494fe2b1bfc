package lb

// burst counts how many of the latest requests begin with a block: branches of a tree come at once, each of which alone
// had better go where the rest of the tree is. It is the sketch of [popularity] over a shorter time, and its counts are
// halved when they are looked at.
type burst struct {
	requests int    // in this term
	term     uint16 // of which cells have those bits that are left beside the count
}

const (
	// burstMost is how many requests count at most, however many endpoints there are: more would fill the sketch.
	burstMost = 64
	// countBits are those of a cell that have the count, the lowest. The others have the term in which it was made.
	countBits = 4
	countMost = 1<<countBits - 1
)

// count counts one in a cell and returns what was counted there in this term and, halved with each,
// in those before.
func (b *burst) count(cell *uint16) int {
	passed := (b.term - *cell>>countBits) & (1<<(16-countBits) - 1)
	count := *cell & countMost >> min(passed, countBits)
	*cell = b.term<<countBits | min(count+1, countMost)
	return int(count)
}

// next notes that a request has been counted.
func (b *burst) next(endpoints int) {
	if b.requests++; b.requests >= min(endpoints, burstMost) {
		b.requests = 0
		b.term++
	}
}
