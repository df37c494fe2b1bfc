package cache

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb/prompt"
)

// plainPopularity counts blocks in maps, without the collisions of a sketch.
type plainPopularity struct {
	counts           map[uint64]int
	burst            map[uint64]plainBurst
	requests, blocks int
	period, inPeriod int
}

// plainBurst is the count of a block in the burst, as of a period.
type plainBurst struct{ count, period int }

func newPlainPopularity() *plainPopularity {
	return &plainPopularity{counts: map[uint64]int{}, burst: map[uint64]plainBurst{}}
}

// creditBytes is [popularity.creditBytes] by its words, for a share that is not common.
func (p *plainPopularity) creditBytes(blocks []prompt.Block, endpoints int) []float64 {
	var credits []float64
	sum, from := 0.0, 0
	noise := float64(p.blocks) / sketchRow
	for _, b := range blocks {
		fair := max(0, float64(p.counts[b.Key])-noise) / float64(p.requests+1) * float64(endpoints)
		at := p.burst[b.Key]
		for ; at.period < p.period && at.count > 0; at.period++ {
			at.count /= 2
		}
		sum += float64(b.End-from) / max(1, fair*fair, float64(at.count))
		from = b.End
		credits = append(credits, sum)
		p.counts[b.Key]++
		p.burst[b.Key] = plainBurst{min(at.count+1, 15), p.period}
	}
	if p.inPeriod++; p.inPeriod >= min(endpoints, 64) {
		p.inPeriod = 0
		p.period++
	}
	p.requests, p.blocks = p.requests+1, p.blocks+len(blocks)
	if p.requests >= min(max(64, 16*endpoints), 65535) {
		for key := range p.counts {
			p.counts[key] /= 2
		}
		p.requests, p.blocks = p.requests/2, p.blocks/2
	}
	return credits
}

// spreadKey returns a key whose cells in the sketch no other of the few keys has.
func spreadKey(i int) uint64 { return uint64(i)<<16 | uint64(i)<<40 }

// While blocks have cells of their own, the sketch credits what exact counts give.
func TestPopularityAgainstExactCounts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var p popularity
		exact := newPlainPopularity()
		endpoints := rapid.IntRange(1, 20).Draw(rt, "endpoints")
		for range rapid.IntRange(1, 150).Draw(rt, "requests") {
			var blocks []prompt.Block
			family := rapid.IntRange(0, 3).Draw(rt, "family")
			for i := range rapid.IntRange(0, 4).Draw(rt, "blocks") {
				blocks = append(blocks, prompt.Block{Key: spreadKey(1 + 8*family + i), End: 512 * (i + 1)})
			}
			got, want := p.creditBytes(blocks, endpoints, 0), exact.creditBytes(blocks, endpoints)
			for i := range want {
				if got[i] != uint32(math.Ceil(want[i])) {
					rt.Fatalf("%d blocks of family %d: %d bytes, exactly %v", i+1, family, got[i], want[i])
				}
			}
		}
	})
}

// A longer match never earns less, and none more than its length, with the gain of what is behind a shared beginning;
// the first request for a prompt earns all of it.
func TestCreditBytesGrowWithTheMatch(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var p popularity
		endpoints, gain := rapid.IntRange(1, 50).Draw(rt, "endpoints"), rapid.Float64Range(0, 1).Draw(rt, "gain")
		key := rapid.Custom(func(rt *rapid.T) uint64 { return spreadKey(rapid.IntRange(1, 30).Draw(rt, "key")) })
		for request := range rapid.IntRange(1, 60).Draw(rt, "requests") {
			p.countRequest(time.Duration(request) * time.Second)
			var blocks []prompt.Block
			end := 0
			for range rapid.IntRange(0, 12).Draw(rt, "blocks") {
				end += rapid.IntRange(1, 2000).Draw(rt, "length")
				blocks = append(blocks, prompt.Block{Key: key.Draw(rt, "key"), End: end})
			}
			last := uint32(0)
			for i, credit := range p.creditBytes(blocks, endpoints, gain) {
				most := int(math.Ceil(float64(blocks[i].End) * (1 + gain)))
				if credit < last || int(credit) > most {
					rt.Fatalf("%d bytes are credited for %d blocks of %d bytes, %d for one less", credit, i+1,
						blocks[i].End, last)
				}
				last = credit
			}
			if request == 0 && int(last) != end && distinct(blocks) {
				rt.Fatalf("the first request is credited for %d of %d bytes", last, end)
			}
		}
	})
}

// distinct reports whether no block is there twice.
func distinct(blocks []prompt.Block) bool {
	seen := map[uint64]bool{}
	for _, b := range blocks {
		if seen[b.Key] {
			return false
		}
		seen[b.Key] = true
	}
	return true
}
