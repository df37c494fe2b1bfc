package cache

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb/prompt"
)

// chainOf returns n blocks of 100 bytes with keys that depend on the seed.
func chainOf(seed uint64, n int) []prompt.Block {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]prompt.Block, n)
	for i := range out {
		out[i] = prompt.Block{Key: r.Uint64(), End: 100 * (i + 1)}
	}
	return out
}

// A prefix of few requests is credited in full; the more requests share it, the lower the credit.
func TestCreditFallsWithPopularity(t *testing.T) {
	const endpoints, rounds = 4, 200
	for _, tc := range []struct {
		name        string
		of          int // one in so many requests begins with the blocks
		least, most uint32
	}{
		{"one in sixteen", 16, 1000, 1000},
		{"a fair part", 4, 900, 1000},
		{"twice the fair part", 2, 230, 280},
		{"all", 1, 60, 66},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var p popularity
			hot := chainOf(0, 10)
			var got uint32
			for i := range uint64(rounds) {
				if i%uint64(tc.of) == 0 {
					got = p.creditBytes(hot, endpoints, 0)[9]
				} else {
					p.creditBytes(chainOf(i+1, 10), endpoints, 0)
				}
			}
			if got < tc.least || got > tc.most {
				t.Errorf("credited for %d of 1000, want %d to %d", got, tc.least, tc.most)
			}
		})
	}
}

// Only the popular beginning loses its credit, not the rest of a conversation.
func TestCreditOfTheRest(t *testing.T) {
	var p popularity
	begin := chainOf(0, 5)
	var got []uint32
	for i := range uint64(300) {
		blocks := append(begin[:5:5], chainOf(i+1, 10)[5:]...)
		got = p.creditBytes(blocks, 4, 0)
	}
	if got[4] > 40 {
		t.Errorf("the beginning is credited for %d of 500", got[4])
	}
	if rest := got[9] - got[4]; rest < 499 {
		t.Errorf("the rest is credited for %d of 500", rest)
	}
}

// What is a conversation's own counts for more behind a beginning that others share, the more of these other endpoints
// have to serve: with all of it up to twice. Alone it counts for its length.
func TestCreditOfTheOwnPart(t *testing.T) {
	const endpoints = 4
	for name, c := range map[string]struct {
		shares      int // n: one request in n has the beginning
		gain        float64
		least, most uint32 // credit of 500 bytes
	}{
		"behind what all have":          {1, 1, 999, 1000},
		"half of the gain":              {1, 0.5, 749, 750},
		"no gain":                       {1, 0, 499, 500},
		"twice a fair part":             {2, 1, 740, 760},
		"a fair part":                   {4, 1, 500, 550},
		"behind what hardly any shares": {16, 1, 500, 500},
	} {
		var p popularity
		begin := chainOf(0, 5)
		var got []uint32
		for i := range uint64(400) {
			if c.shares == 1 {
				p.countRequest(time.Second)
			}
			if blocks := chainOf(i+1, 10); i%uint64(c.shares) == 0 {
				got = p.creditBytes(append(begin[:5:5], blocks[5:]...), endpoints, c.gain)
			} else if alone := p.creditBytes(blocks, endpoints, c.gain)[9]; alone > 1001 {
				t.Fatalf("%s: without a shared beginning %d of 1000 are credited", name, alone)
			}
		}
		if own := got[9] - got[4]; own < c.least || own > c.most {
			t.Errorf("%s: %d of 500 are credited, want %d to %d", name, own, c.least, c.most)
		}
	}
}

// A single conversation stays at its endpoint, although it is all of the traffic.
func TestCreditOfTheOnlyConversation(t *testing.T) {
	var p popularity
	blocks := chainOf(0, 100)
	for turn := 1; turn <= 50; turn++ {
		if got := p.creditBytes(blocks[:2*turn], 64, 0)[max(0, 2*turn-3)]; turn > 1 && got == 0 {
			t.Fatalf("turn %d: no credit for the previous turns", turn)
		}
	}
}

// With many endpoints a fair share is small, and many prompts share each cell. They do not count as popular.
func TestCreditAmongManyEndpoints(t *testing.T) {
	for _, endpoints := range []int{64, 256, 1024} {
		var p popularity
		sum, n := 0.0, uint64(20*endpoints)
		for i := range n {
			got := p.creditBytes(chainOf(i+1, 40), endpoints, 0)[39]
			sum += float64(got) / 4000
		}
		if mean := sum / float64(n); mean < 0.95 {
			t.Errorf("%d endpoints: prompts that are never repeated are credited for %.2f of their length",
				endpoints, mean)
		}
	}
}

// A prefix of most requests has no credit as long as there are many requests, and a reduced one if there are few: then
// it should stay in one cache. However short a match is otherwise, it has some credit.
func TestCommonPrefixHasNoCredit(t *testing.T) {
	const endpoints = 4
	for _, tc := range []struct {
		name  string
		every time.Duration
		want  [2]uint32 // up to the end of the common beginning, and up to the end of all
	}{
		{"often", time.Second, [2]uint32{0, 900}},
		{"seldom", 5 * time.Second, [2]uint32{7, 907}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var p popularity
			var got []uint32
			for i := range uint64(100) {
				p.countRequest(time.Duration(i) * tc.every)
				blocks := append(chainOf(0, 1), chainOf(i+1, 10)[1:]...)
				got = p.creditBytes(blocks, endpoints, 0)
			}
			if got[0] != tc.want[0] || got[9] != tc.want[1] {
				t.Errorf("credited for %d, and %d of 1000 with the rest, want %v", got[0], got[9], tc.want)
			}
		})
	}
}

// A prefix that becomes popular is detected soon, whatever the traffic before.
func TestPopularityIsDetected(t *testing.T) {
	for _, endpoints := range []int{4, 64} {
		var p popularity
		for i := range uint64(5000) {
			p.creditBytes(chainOf(i+1, 10), endpoints, 0)
		}
		hot, n := chainOf(0, 10), 0
		for p.creditBytes(hot, endpoints, 0)[9] > 500 {
			n++
		}
		if most := 6 * endpoints; n > most {
			t.Errorf("%d endpoints: credited for less than half after %d requests, want %d at most", endpoints, n, most)
		}
	}
}

// A prefix that is no longer popular is forgotten, and counts never overflow.
func TestPopularityFades(t *testing.T) {
	for _, endpoints := range []int{4, 4096} {
		var p popularity
		hot := chainOf(0, 10)
		for range 1 << 17 {
			p.creditBytes(hot, endpoints, 0)
		}
		if got := p.creditBytes(hot, endpoints, 0)[9]; got > 100 {
			t.Fatalf("%d endpoints: credited for %d of 1000 while all requests begin with it", endpoints, got)
		}
		for i := range uint64(20 * sketchSpan * endpoints) {
			p.creditBytes(chainOf(i+1, 1), endpoints, 0)
		}
		if got := p.creditBytes(hot, endpoints, 0)[9]; got < 990 {
			t.Errorf("%d endpoints: credited for %d of 1000 when long forgotten", endpoints, got)
		}
	}
}

// Counts do not wrap if blocks of one prompt share a cell, in a cluster where counts are halved least often: a prefix
// of all requests never looks rare.
func TestPopularityNeverWraps(t *testing.T) {
	var p popularity
	hot := []prompt.Block{{Key: 1<<40 | 1<<16 | 1, End: 500}, {Key: 1<<40 | 1<<16 | 2, End: 1000}}
	for i := range 2 * sketchSpanMax {
		if got := p.creditBytes(hot, 8192, 0)[1]; i > 10 && got > 100 {
			t.Fatalf("request %d: credited for %d of 1000 while all requests begin with it", i, got)
		}
	}
}

// Prompts without blocks are counted, and take no memory.
func TestPopularityWithoutBlocks(t *testing.T) {
	var p popularity
	for range 2 * sketchSpan {
		p.creditBytes(nil, 4, 0)
	}
	if p.counts != nil || p.requests < sketchSpan/2 {
		t.Errorf("%d requests counted, in memory: %v", p.requests, p.counts != nil)
	}
}

// The credit never falls with the length of a match, and never exceeds it.
func FuzzCreditBytes(f *testing.F) {
	f.Add(uint64(1), uint8(10), uint16(4))
	f.Fuzz(func(t *testing.T, seed uint64, n uint8, endpoints uint16) {
		var p popularity
		blocks := chainOf(seed, int(n%128)+1)
		for range 40 {
			var last uint32
			for i, w := range p.creditBytes(blocks, int(endpoints), 0) {
				if w < last || int(w) > blocks[i].End {
					t.Fatalf("block %d is credited for %d after %d", i, w, last)
				}
				last = w
			}
		}
	})
}

func BenchmarkCreditBytes(b *testing.B) {
	var p popularity
	blocks := chainOf(1, 64)
	b.ReportAllocs()
	for b.Loop() {
		p.creditBytes(blocks, 64, 0)
	}
}
