package cache

// burstSketch counts how many of the latest requests begin with a block. Requests of one tree of prompts often come at
// the same time; one by one, each would go where the rest of the tree is cached. The sketch is that of [popularity]
// over a shorter time: a period of as many requests as there are endpoints. Each count is halved with every period that
// has passed, when it is read.
type burstSketch struct {
	requests int    // in this period
	period   uint16 // modulo the bits that a cell has for it
}

const (
	// maxBurstRequests bounds the requests of a period, however many endpoints there are: more would fill the sketch.
	maxBurstRequests = 64
	// burstCountBits is the number of low bits of a cell that hold the count; the others hold its period.
	burstCountBits = 4
	maxBurstCount  = 1<<burstCountBits - 1
)

// count adds one to a cell and returns its count before that.
func (b *burstSketch) count(cell *uint16) int {
	passed := (b.period - *cell>>burstCountBits) & (1<<(16-burstCountBits) - 1)
	count := *cell & maxBurstCount >> min(passed, burstCountBits)
	*cell = b.period<<burstCountBits | min(count+1, maxBurstCount)
	return int(count)
}

// advance ends a request, and with the last one the period.
func (b *burstSketch) advance(endpoints int) {
	if b.requests++; b.requests >= min(endpoints, maxBurstRequests) {
		b.requests = 0
		b.period++
	}
}
