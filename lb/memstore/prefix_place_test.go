package memstore

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb/prompt"
)

// filled returns a page of n entries that were recorded in a tick.
func filled(n int, tick uint16) (p page) {
	for i := range n {
		e := make(entry, entrySize)
		wire.PutUint64(e, 0, uint64(i))
		e.put(1, tick)
		p = append(p, e...)
	}
	return p
}

// claimed makes a tenant the one of all entries of a page.
func claimed(p page, tenant byte) page {
	for at := 0; at < len(p); at += entrySize {
		p[at+keySize-1] = tenant
	}
	return p
}

// New blocks go into the page of the blocks before them or into their own page, depending on what is lost there.
func TestPreferredPage(t *testing.T) {
	const now = 1000
	at := func(n int, tick uint16) loadedPage { return loadedPage{page: filled(n, tick), ok: true} }
	more := func(l loadedPage, n int) loadedPage {
		l.added = n
		return l
	}
	for _, tc := range []struct {
		about       string
		before, own loadedPage
		n           int
		want        bool
	}{
		{"few are there", at(7, now), at(0, now), 8, true},
		{"more than a quarter, and more than in the own page", at(8, now), at(7, now), 8, false},
		{"more than a quarter, but fewer than in the own page", at(20, now), at(21, now), 8, true},
		{"full of what is older", at(63, now-20), at(63, now-10), 8, true},
		{"full of what is younger", at(63, now-10), at(63, now-20), 8, false},
		{"full of what is as old", at(63, now-10), at(63, now-10), 8, false},
		{"the prompt would fill more than half of it", more(at(63, now-20), 24), at(63, now-10), 8, false},
		{"the prompt would fill less than half of it", more(at(63, now-20), 23), at(63, now-10), 8, true},
		{"it cannot be read", loadedPage{page: filled(1, now)}, at(63, now), 8, false},
		{"the own page cannot be read", at(63, now-10), loadedPage{}, 8, true},
		{"few are there, but the own page cannot be read", at(2, now), loadedPage{}, 8, true},
	} {
		if got := tc.before.preferred(make([]prompt.Block, tc.n), &tc.own, now); got != tc.want {
			t.Errorf("%s: %v", tc.about, got)
		}
	}
}

// A page's turnover is the age of most of the tenant's entries, not of the few old ones at its end, and not of those of
// other tenants.
func TestTurnover(t *testing.T) {
	const now = 1000
	if got := append(filled(48, now-5), filled(15, now-500)...).turnover(prompt.NoTenant, now); got != 5 {
		t.Errorf("%d ticks, want the age of three quarters of the page", got)
	}
	if got := append(filled(46, now-5), filled(17, now-500)...).turnover(prompt.NoTenant, now); got != 500 {
		t.Errorf("%d ticks, want the age of the last quarter", got)
	}
	if got := page(nil).turnover(prompt.NoTenant, now); got < 60000 {
		t.Errorf("%d ticks of an empty page", got)
	}
	shared := append(filled(20, now-5), claimed(filled(43, now-500), 7)...)
	if got := shared.turnover(prompt.NoTenant, now); got != 5 {
		t.Errorf("%d ticks for the tenant with young entries, want 5", got)
	}
	if got := shared.turnover(7, now); got != 500 {
		t.Errorf("%d ticks for the tenant with old entries, want 500", got)
	}
	if got := shared.turnover(8, now); got < 60000 {
		t.Errorf("%d ticks for a tenant that has no entries", got)
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
		x.find(0, &turn)
		x.record(0, &turn, 7)
	}
	if x.locate(p); len(x.pages) != 1 || len(x.spans) != 1 {
		t.Errorf("%d pages, %d spans", len(x.pages), len(x.spans))
	}
}

// Blocks behind one without an entry are forgotten as well.
func TestForgetBehindAGap(t *testing.T) {
	kv := newMemoryKV()
	x := prefixIndex{kv: kv}
	var keys []uint64
	for i := range uint64(24) {
		keys = append(keys, 1_000_003*(i+1))
	}
	p := prefixOf(1<<20, time.Hour, keys...)
	x.find(0, p)
	x.record(0, p, 7)
	if len(x.pages) < 3 {
		t.Fatalf("%d pages: there is no page in the middle", len(x.pages))
	}
	if err := kv.Set(pageKey("", x.pages[1].number), nil, 0); err != nil {
		t.Fatal(err)
	}
	x.forget(p, 7, 0)
	x.find(0, p)
	x.record(0, p, 9)
	if matches := x.find(0, p); len(matches) != 1 || matches[0] != (Match{9, 24}) {
		t.Errorf("%+v, want 24 blocks at 9", matches)
	}
}
