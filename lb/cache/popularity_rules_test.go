package cache

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb/prompt"
)

// With as many requests as endpoints in a term of ten seconds, a block of more than half of them earns no credit.
func TestTermsOfPopularity(t *testing.T) {
	for _, c := range []struct {
		after        time.Duration
		first, later int
		this, last   int
	}{
		{commonTerm - 1, 5, 3, 8, 0},
		{commonTerm, 5, 3, 3, 5},
		{2*commonTerm - 1, 5, 3, 3, 5},
		{2 * commonTerm, 5, 3, 3, 0},
		{time.Hour, 5, 3, 3, 0},
	} {
		p := popularity{termStart: time.Minute}
		for range c.first {
			p.countRequest(time.Minute)
		}
		for range c.later {
			p.countRequest(time.Minute + c.after)
		}
		if p.thisTerm != c.this || p.lastTerm != c.last {
			t.Errorf("%v later: %d in this term and %d in the previous one, want %d and %d", c.after, p.thisTerm,
				p.lastTerm, c.this, c.last)
		}
	}
	for requests, want := range map[int]uint32{3: 100, 4: 0, 5: 0} {
		p := popularity{thisTerm: requests, requests: 3, counts: new([2][sketchRow]blockCount)}
		block := prompt.Block{Key: 1<<20 + 1<<45, End: 100}
		for range 3 {
			p.count(block.Key)
		}
		p.burst = burstSketch{period: 9} // the earlier ones were in another burst
		if got := p.creditBytes([]prompt.Block{block}, 4, 0)[0]; (got > 0) != (want > 0) {
			t.Errorf("%d requests of 4 endpoints: credited for %d", requests, got)
		}
	}
	for share, want := range map[int]bool{4: true, 5: false} { // of eight, this request included
		p := popularity{thisTerm: 1, requests: 7, counts: new([2][sketchRow]blockCount)}
		block := prompt.Block{Key: 1<<20 + 1<<45, End: 1000}
		for range share {
			p.count(block.Key)
		}
		if got := p.creditBytes([]prompt.Block{block}, 1, 0)[0]; (got > 0) != want {
			t.Errorf("%d of 8 requests: credited for %d", share, got)
		}
	}
}

// Counts are halved after 16 requests per endpoint, 64 at least and as many as a count can hold at most.
func TestSpanOfPopularity(t *testing.T) {
	for endpoints, want := range map[int]int{1: 64, 4: 64, 5: 80, 100: 1600, 1 << 20: sketchSpanMax} {
		p := popularity{requests: want - 2}
		if p.creditBytes(nil, endpoints, 0); p.requests != want-1 {
			t.Errorf("%d endpoints: halved at %d requests", endpoints, p.requests)
		}
		if p.creditBytes(nil, endpoints, 0); p.requests != want/2 {
			t.Errorf("%d endpoints: %d requests after the span, want %d", endpoints, p.requests, want/2)
		}
	}
}
