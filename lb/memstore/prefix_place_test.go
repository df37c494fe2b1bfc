package memstore

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
)

// filled returns a page of n entries that were written at a tick.
func filled(n int, tick uint16) (p page) {
	for i := range n {
		e := make(entry, entrySize)
		wire.PutUint64(e, 0, uint64(i))
		e.put(1, tick)
		p = append(p, e...)
	}
	return p
}

// Blocks stay in the page of those before them, or go into their own one, by what is lost there.
func TestSuits(t *testing.T) {
	const now = 1000
	at := func(n int, tick uint16) loaded { return loaded{page: filled(n, tick), read: true} }
	more := func(l loaded, n int) loaded {
		l.more = n
		return l
	}
	for _, tc := range []struct {
		about       string
		before, own loaded
		n           int
		want        bool
	}{
		{"few are there", at(7, now), at(0, now), 8, true},
		{"more than a quarter, and more than in the own page", at(8, now), at(7, now), 8, false},
		{"more than a quarter, but fewer than in the own page", at(20, now), at(21, now), 8, true},
		{"full of what is older", at(63, now-20), at(63, now-10), 8, true},
		{"full of what is younger", at(63, now-10), at(63, now-20), 8, false},
		{"full of what is as old", at(63, now-10), at(63, now-10), 8, false},
		{"the prompt would have half of it", more(at(63, now-20), 24), at(63, now-10), 8, false},
		{"the prompt would have less", more(at(63, now-20), 23), at(63, now-10), 8, true},
		{"it cannot be read", loaded{page: filled(1, now)}, at(63, now), 8, false},
		{"the own one cannot be read", at(63, now-10), loaded{}, 8, true},
		{"few are there, but the own one cannot be read", at(2, now), loaded{}, 8, true},
	} {
		if got := tc.before.suits(tc.n, &tc.own, now); got != tc.want {
			t.Errorf("%s: %v", tc.about, got)
		}
	}
}

// A page's turnover is that of what most of it is, not of what few old entries at its end are.
func TestTurnover(t *testing.T) {
	const now = 1000
	if got := append(filled(48, now-5), filled(15, now-500)...).turnover(now); got != 5 {
		t.Errorf("%d ticks, want those of three quarters of the page", got)
	}
	if got := append(filled(46, now-5), filled(17, now-500)...).turnover(now); got != 500 {
		t.Errorf("%d ticks, want those of what a quarter is", got)
	}
	if got := page(nil).turnover(now); got < 60000 {
		t.Errorf("%d ticks of an empty page", got)
	}
}

// The first turns of a conversation are in one page.
func TestShortConversationsAreInOnePage(t *testing.T) {
	kv := newMemoryKV()
	x := prefixIndex{kv: kv}
	p := prefixOf(8<<20, time.Hour, 1_000_001, 2_000_002, 3_000_003, 4_000_004, 5_000_005, 6_000_006, 7_000_007)
	for n := 2; n <= len(p.Blocks); n++ {
		turn := *p
		turn.Blocks = p.Blocks[:n]
		x.match(0, &turn)
		x.note(0, &turn, 7)
	}
	if x.look(p); len(x.pages) != 1 || len(x.spans) != 1 {
		t.Errorf("%d pages, %d parts", len(x.pages), len(x.spans))
	}
}

// A block behind one that was lost is forgotten as well.
func TestForgetBehindAHole(t *testing.T) {
	kv := newMemoryKV()
	x := prefixIndex{kv: kv}
	var keys []uint64
	for i := range uint64(24) {
		keys = append(keys, 1_000_003*(i+1))
	}
	p := prefixOf(1<<20, time.Hour, keys...)
	x.match(0, p)
	x.note(0, p, 7)
	if len(x.pages) < 3 {
		t.Fatalf("%d pages: there is no middle one", len(x.pages))
	}
	if err := kv.Set(pageKey(x.pages[1].slot), nil, 0); err != nil {
		t.Fatal(err)
	}
	x.forget(p, 7, 0)
	x.match(0, p)
	x.note(0, p, 9)
	if held := x.match(0, p); len(held) != 1 || held[0] != (holding{9, 24}) {
		t.Errorf("%+v, want 24 blocks at 9", held)
	}
}
