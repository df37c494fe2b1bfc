package cache

import "testing"

// Requests that come at once share the credit for their common beginning. The rest of them, and later requests, are
// credited in full.
func TestBurstSharesCredit(t *testing.T) {
	const endpoints = 8
	var p popularity
	other := uint64(1000)
	rest := func(n int) {
		for range n {
			other++
			p.creditBytes(chainOf(other, 10), endpoints, 0)
		}
	}
	rest(63 * endpoints) // so that all of the burst is in one term
	begin := chainOf(0, 5)
	for i, want := range []uint32{1000, 1000, 750, 667, 625} {
		blocks := append(begin[:5:5], chainOf(uint64(i+1), 10)[5:]...)
		if got := p.creditBytes(blocks, endpoints, 0)[9]; got != want {
			t.Errorf("request %d of a burst: credited for %d of 1000, want %d", i+1, got, want)
		}
	}
	rest(3 * endpoints)
	if got := p.creditBytes(begin, endpoints, 0)[4]; got != 500 {
		t.Errorf("later: credited for %d of 500", got)
	}
}

// Requests without a common beginning are no burst, however many they are and however many blocks they have.
func TestNoBurst(t *testing.T) {
	for _, endpoints := range []int{1, 4, 64, 4096} {
		p := popularity{counts: new([2][sketchRow]blockCount)}
		wrong, n := 0, uint64(3000)
		for i := range n {
			for _, block := range chainOf(i+1, 40) {
				if _, latest := p.count(block.Key); latest > 1 {
					wrong++
				}
			}
			p.burst.advance(endpoints)
		}
		if most := int(40 * n / 100); wrong > most {
			t.Errorf("%d endpoints: %d of %d blocks count as those of a burst, want %d at most", endpoints,
				wrong, 40*n, most)
		}
	}
}

// A cell stays within its bits, and an old count is 0.
func TestBurstCountDecays(t *testing.T) {
	var b burstSketch
	var cell uint16
	for i := range 100 {
		if got := b.count(&cell); got != min(i, maxBurstCount) {
			t.Fatalf("%d after %d", got, i)
		}
	}
	for i, want := range []int{maxBurstCount / 2, (maxBurstCount/2 + 1) / 2} {
		b.period++
		if got := b.count(&cell); got != want {
			t.Errorf("%d after %d configurations, want %d", got, i+1, want)
		}
	}
	for _, clusterConfig := range []uint16{burstCountBits, 100, 1<<(16-burstCountBits) - 1} {
		b.period += clusterConfig
		if got := b.count(&cell); got != 0 {
			t.Errorf("%d after %d configurations", got, clusterConfig)
		}
	}
}
