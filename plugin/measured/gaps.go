package measured

import (
	"math/bits"
	"time"
)

// Gaps are the times between the parts of a stream, of any number, in steps of about an eighth: a token must not
// allocate.
type Gaps struct {
	n      int64
	most   time.Duration
	counts [gapSteps]uint32
}

const (
	// gapUnit is the shortest time that is told apart from none.
	gapUnit = 128 * time.Microsecond
	// gapParts is into how many steps of equal length each doubling is divided.
	gapParts = 8
	// gapSteps is how many steps there are: up to two minutes, and all that is longer.
	gapSteps = gapParts * 21
)

// Add adds a time. One below zero counts as none.
func (g *Gaps) Add(d time.Duration) {
	g.n++
	g.most = max(g.most, d)
	g.counts[gapStep(d)]++
}

// gapStep returns the step that a time is in: the first is [0, gapUnit/gapParts), and so are the next ones up to
// gapUnit; then each doubling has gapParts of them.
func gapStep(d time.Duration) int {
	n := uint64(max(0, d) / (gapUnit / gapParts))
	if n < gapParts {
		return int(n)
	}
	shift := bits.Len64(n) - bits.Len64(gapParts)
	return min(gapParts*shift+int(n>>shift), gapSteps-1)
}

// gapBounds returns the shortest time in a step, and how long the step is.
func gapBounds(step int) (from, length time.Duration) {
	const unit = gapUnit / gapParts
	if step < gapParts {
		return time.Duration(step) * unit, unit
	}
	shift := step/gapParts - 1
	return time.Duration(gapParts+step%gapParts) << shift * unit, unit << shift
}

// Quantile returns the time that the share q of all does not exceed, 0 without any: to 7 % where it is longer than
// gapUnit and not in the last step, and never more than the longest.
func (g *Gaps) Quantile(q float64) time.Duration {
	if g == nil || g.n == 0 {
		return 0
	}
	rank := min(max(int64(q*float64(g.n)+0.999999), 1), g.n)
	if rank == g.n {
		return g.most
	}
	for step, count := range g.counts {
		if rank -= int64(count); rank <= 0 {
			from, length := gapBounds(step)
			return min(from+length/2, g.most)
		}
	}
	return g.most
}
