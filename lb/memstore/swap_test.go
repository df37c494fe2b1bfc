package memstore

import (
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prefixindex"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/lb/storetest"
)

// A worker is busy above busyAbove reservations between two flushes. While it is, releases wait, but no more of them
// than one swap can write.
func TestBusy(t *testing.T) {
	for reserved, want := range map[int]bool{0: false, busyAbove: false, busyAbove + 1: true} {
		s := New(memory(t), 1, storetest.TTL)
		s.ledger.reserved = reserved
		if s.Flush(time.Hour); s.ledger.busy != want || s.ledger.reserved != 0 {
			t.Errorf("busy %v after %d reservations", s.ledger.busy, reserved)
		}
	}
	s := New(memory(t), 1, storetest.TTL)
	for id := range lb.LeaseID(maxPending + 3) {
		granted(t, s, time.Hour, id, "a")
	}
	s.Busy()
	sc := s.ledger.scopes["a"]
	for id := range lb.LeaseID(maxPending) {
		if s.Release(time.Hour, id); len(sc.pending) != int(id)+1 {
			t.Fatalf("%d releases wait after %d", len(sc.pending), id+1)
		}
	}
	s.Release(time.Hour, maxPending)
	if len(sc.pending) != 0 || sc.held.load(0).Requests != 2 {
		t.Errorf("%d releases wait, %d requests are held", len(sc.pending), sc.held.load(0).Requests)
	}
}

// The checkpoint is written when the owner joins a table, and then once in logLength steps.
func TestCheckpointsAreWrittenSeldom(t *testing.T) {
	kv := memory(t)
	s := New(kv, 1, storetest.TTL)
	writes := 0
	kv.OnSet = func(key string) {
		if strings.Contains(key, "/sheet/") {
			writes++
		}
	}
	for id := range lb.LeaseID(5 * logLength) {
		granted(t, s, time.Hour, id, "a")
		if want := 1 + int(id)/logLength; writes != want {
			t.Fatalf("%d checkpoints after %d steps, want %d", writes, id+1, want)
		}
	}
}

// Tokens of a lease are within their bounds, whatever is to be counted.
func TestBoundsOfTokens(t *testing.T) {
	addr := storetest.Addrs(1)[0]
	for tokens, want := range map[int64]int64{
		-1: 0, 0: 0, 7: 7, lb.MaxTokens: lb.MaxTokens, lb.MaxTokens + 1: lb.MaxTokens,
	} {
		for _, busy := range []bool{false, true} {
			s := New(memory(t), 1, storetest.TTL)
			if err := s.CountAt(time.Hour, 1, "a", addr, tokens); err != nil || s.requests.leases[1].tokens != want {
				t.Errorf("%d tokens are counted as %d, %v", tokens, s.requests.leases[1].tokens, err)
			}
			granted(t, s, time.Hour, 2, "a")
			if busy {
				s.Busy()
			}
			s.Amend(time.Hour, 2, "", tokens)
			s.Flush(time.Hour)
			loads, err := s.Loads("a", []string{addr}, nil)
			held := s.requests.leases[2].tokens
			if err != nil || held != want || loads[0] != (lb.Load{Requests: 2, Tokens: 2 * want}) {
				t.Errorf("%d tokens are amended to %d, in all %v, %v", tokens, held, loads, err)
			}
		}
	}
}

// A prompt without entries is put into pages in spans of 8 blocks, farther behind of 16, each into the page of the one
// before while that has few entries.
func TestSpansOfAPrompt(t *testing.T) {
	for n, want := range map[int]int{0: 8, 31: 8, 32: 16, 1000: 16} {
		if got := spanLength(n); got != want {
			t.Errorf("from block %d on: %d blocks", n, got)
		}
	}
	x, p := prefixIndex{kv: newMemoryKV()}, lb.Prefix{IndexMemory: lb.IndexMemory{Local: 8 << 20}}
	for i := range 60 {
		p.Blocks = append(p.Blocks, prompt.Block{Key: uint64(i*1_000_003 + 17), End: i + 1})
	}
	x.locate(&p)
	if len(x.spans) != 0 {
		t.Fatalf("%d spans of a prompt without entries", len(x.spans))
	}
	x.place(p.Blocks, 0)
	from, added := 0, make([]int, len(x.pages))
	for i, s := range x.spans {
		if s.from != from || s.to != min(from+spanLength(from), len(p.Blocks)) {
			t.Errorf("span %d has blocks %d to %d", i, s.from, s.to)
		}
		from, added[s.page] = s.to, added[s.page]+s.to-s.from
	}
	for i := range x.pages {
		if x.pages[i].added != added[i] || added[i] > maxEntries/2 {
			t.Errorf("page %d: %d blocks are to be added, want %d", i, x.pages[i].added, added[i])
		}
	}
	if from != len(p.Blocks) || added[0] != 8 {
		t.Errorf("%d blocks are placed, %d of them in the first page", from, added[0])
	}
}

// A block in front of the one before it in the same page is found all the same.
func TestBlocksInAnotherOrder(t *testing.T) {
	x := prefixIndex{kv: newMemoryKV()}
	n := uint64(pagesIn(1 << 20)) // all keys select page 0
	p := prefixOf(1<<20, time.Hour, n, 2*n, 3*n)
	x.find(0, p)
	x.record(0, p, 7)
	turned := prefixOf(1<<20, time.Hour, 3*n, n, 2*n)
	x.locate(turned)
	blocks := 0
	for _, s := range x.spans {
		blocks += s.to - s.from
	}
	if blocks != 3 {
		t.Errorf("%d of 3 blocks are found", blocks)
	}
}

// An endpoint is recorded again from FreshTicks on, and takes the place of the oldest one if that is not fresh.
func TestFreshHolders(t *testing.T) {
	const now, fresh = 1000, prefixindex.FreshTicks
	for age, want := range map[uint16]bool{0: false, fresh - 1: false, fresh: true, now: true} {
		e := make(entry, entrySize)
		e.put(1, now-age)
		if got := e.put(1, now); got != want {
			t.Errorf("recorded again after %d ticks: %v", age, got)
		}
		e = make(entry, entrySize)
		for tag := range uint32(maxHolders) {
			e.put(10+tag, now-age)
		}
		if got := e.put(2, now); got != want || e.has(2) != want || e.has(10) == want || !e.has(11) {
			t.Errorf("the place of one of %d ticks: %v", age, got)
		}
	}
}
