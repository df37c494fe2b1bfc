package redisclient_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// Pages do not outlive their entries, and live as long as the longest TTL of any plan.
func TestPagesVanish(t *testing.T) {
	onEachVersion(t, func(t *testing.T, w *syncTransport, s *redisclient.Store) {
		plan := storetest.WithPrompt(manualPlan, 1, numberedBlocks(40, 1))
		plan.Prefix.TTL = 90 * time.Second
		wantTTL := func(atLeast time.Duration) {
			t.Helper()
			if keys := w.pageKeys(); len(keys) != 1 {
				t.Fatalf("keys %q", keys)
			}
			ttl := time.Duration(w.value("PTTL", w.pageKeys()[0]).Int) * time.Millisecond
			if ttl <= atLeast || ttl > plan.Prefix.TTL {
				t.Errorf("the pages live for %v, want more than %v and no more than %v", ttl, atLeast, plan.Prefix.TTL)
			}
		}
		at := func(now time.Duration, id lb.LeaseID) int { return cachedBlocksAt(t, s, now, id, plan) }
		at(0, 1)
		wantTTL(80 * time.Second)
		w.value("PEXPIRE", w.pageKeys()[0], "70000")
		at(5*time.Second, 2) // it was recorded, and its expiry extended, a moment ago
		wantTTL(60 * time.Second)
		at(20*time.Second, 3) // nothing is written, and they are in use
		wantTTL(80 * time.Second)
		w.agePages(10)
		if n := at(21*time.Second, 4); n != 40 {
			t.Errorf("%d blocks after 40 s", n)
		}
		w.agePages(30)
		if n := at(22*time.Second, 5); n != 0 {
			t.Errorf("%d blocks after two minutes, of a prompt that is kept for one and a half", n)
		}
		short := *plan
		short.Prefix.TTL, short.Prefix.Blocks = time.Minute, numberedBlocks(9, 1000)
		cachedBlocks(t, s, 6, &short)
		s.RecordPrompt(0, 6, &short, manualPlan.Candidates[0].Addr)
		wantTTL(80 * time.Second) // a plan with a shorter TTL deletes no entries of others
		for _, c := range manualPlan.Candidates {
			s.ForgetPrompt(0, 5, plan, c.Addr, 3)
		}
		wantTTL(80 * time.Second)
		w.value("FLUSHALL")
		at(23*time.Second, 7) // no expiry is due, and the pages are new
		wantTTL(80 * time.Second)
		w.value("FLUSHALL")
		s.RecordPrompt(24*time.Second, 7, plan, manualPlan.Candidates[0].Addr)
		wantTTL(80 * time.Second)
		w.value("FLUSHALL")
		plan.Prefix.TTL = 365 * 24 * time.Hour // longer than any is kept
		at(25*time.Second, 8)
		plan.Prefix.TTL = 48 * time.Hour
		wantTTL(47 * time.Hour)
		w.value("FLUSHALL")
		plan.Prefix.TTL = 30 * time.Millisecond
		at(26*time.Second, 9)
		eventually(t, func() bool { return len(w.pageKeys()) == 0 })
	})
}

// cachedBlocksAt is cachedBlocks at the given time.
func cachedBlocksAt(t testing.TB, s lb.Store, now time.Duration, id lb.LeaseID, plan *lb.Plan) (cached int) {
	t.Helper()
	s.Reserve(now, id, plan, func(g lb.Grant, err error) {
		if err != nil {
			t.Fatal(err)
		}
		cached = g.Cached
	})
	s.Release(now, id)
	return cached
}

// agePages moves all times in pages back.
func (w *syncTransport) agePages(ticks uint16) {
	for _, key := range w.pageKeys() {
		set := []string{"HSET", key}
		pages := w.value("HGETALL", key).Items
		for i := 0; i < len(pages); i += 2 {
			page := slices.Clone(pages[i+1].Str)
			for at := 0; at < len(page); at += modelEntry {
				for i := at + 12; i < at+modelEntry; i += 6 {
					binary.LittleEndian.PutUint16(page[i:], binary.LittleEndian.Uint16(page[i:])-ticks)
				}
			}
			set = append(set, string(pages[i].Str), string(page))
		}
		w.value(set...)
	}
}

// Redis may lose pages. The others are still used as far as they match, and lost blocks are recorded again.
func TestPagesLost(t *testing.T) {
	onEachVersion(t, func(t *testing.T, w *syncTransport, s *redisclient.Store) {
		blocks := numberedBlocks(100, 1)
		plan := storetest.WithPrompt(manualPlan, 10, blocks)
		m, id, fewest := newPagesModel("llm", plan.Prefix.RedisBytes), lb.LeaseID(1), len(blocks)
		for round := range 40 {
			for range 2 {
				id++
				cachedBlocks(t, s, id, plan)
			}
			id++
			if n := cachedBlocks(t, s, id, plan); n != len(blocks) {
				t.Fatalf("%d blocks of %d", n, len(blocks))
			}
			fields := w.value("HKEYS", m.key).Items
			lost := string(fields[round*7%len(fields)].Str)
			w.value("HDEL", m.key, lost)
			if round%3 == 0 {
				w.value("HSET", m.key, lost, "nonsense")
			}
			w.readPages(m)
			want := 0
			for _, part := range m.matchedParts(blocks) {
				want += len(part.blocks)
			}
			id++
			if n := cachedBlocks(t, s, id, plan); n != want {
				t.Errorf("without one of %d pages: %d blocks, want %d", len(fields), n, want)
			}
			fewest = min(fewest, want)
		}
		if fewest > len(blocks)/4 {
			t.Errorf("at least %d blocks matched: that tests little", fewest)
		}
		w.value("DEL", m.key)
		if n := cachedBlocks(t, s, 0, plan); n != 0 {
			t.Errorf("%d blocks of nothing", n)
		}
	})
}

// readPages reads the model's pages.
func (w *syncTransport) readPages(m *pagesModel) {
	clear(m.pages)
	pages := w.value("HGETALL", m.key).Items
	for i := 0; i < len(pages); i += 2 {
		m.pages[uint64(binary.LittleEndian.Uint32(append(slices.Clone(pages[i].Str), 0)))] = pages[i+1].Str
	}
}

// However many prompts have a common beginning, pages do not exceed their size, and the beginning stays recorded.
func TestPagesAreBounded(t *testing.T) {
	onEachVersion(t, func(t *testing.T, w *syncTransport, s *redisclient.Store) {
		for shared := range 6 {
			common := numberedBlocks(shared, 1)
			for i := range 200 {
				plan := storetest.WithPrompt(manualPlan, 10, branchOff(common, 20, uint64(i)))
				if n := cachedBlocks(t, s, lb.LeaseID(i), plan); i > 0 && n < shared {
					t.Fatalf("prompt %d: %d blocks are known, all have %d in common", i, n, shared)
				}
			}
			for _, page := range w.value("HVALS", w.pageKeys()[0]).Items {
				if n := len(page.Str); n%modelEntry != 0 || n > modelPageEntries*modelEntry {
					t.Errorf("a page of %d bytes", n)
				}
			}
			w.value("FLUSHALL")
		}
	})
}

// A prompt of the maximum length, each block of which is recorded for as many endpoints as fit, in a large cluster with
// full pages.
func TestLongestPrompt(t *testing.T) {
	const endpoints = 4096
	onEachVersion(t, func(t *testing.T, w *syncTransport, s *redisclient.Store) {
		var addrs []string
		for i := range endpoints {
			addrs = append(addrs, fmt.Sprintf("10.1.%d.%d:8000", i>>8, i&255))
		}
		even := storetest.Even(addrs)
		blocks := numberedBlocks(prompt.MaxBlocks, 1)
		at, m := 0, newPagesModel("llm", 8<<20)
		for _, b := range blocks {
			var page []byte
			for i := range modelPageEntries {
				key := rand.Uint64()
				if i == modelPageEntries-1 { // behind all others
					key = b.Key
				}
				page = binary.LittleEndian.AppendUint64(page, key)
				for range 4 {
					page = binary.LittleEndian.AppendUint32(page, endpointTag(addrs[at%endpoints]))
					page = binary.LittleEndian.AppendUint16(page, tickNow()-20)
					at++
				}
			}
			w.value("HSET", m.key, modelField(m.ownPage(b)), string(page))
		}
		w.value("PEXPIRE", m.key, "60000")
		plan := storetest.WithPrompt(even, 100, branchOff(blocks, 100, 5)) // longer than what is matched
		plan.Prefix.TTL = time.Hour
		_, g := grantedTo(t, s, 1, plan)
		if g.Cached != prompt.MaxBlocks {
			t.Errorf("%d blocks, want the maximum, %d", g.Cached, prompt.MaxBlocks)
		}
		if n := cachedBlocks(t, s, 2, plan); n != prompt.MaxBlocks {
			t.Errorf("%d blocks the second time", n)
		}
		s.ForgetPrompt(0, 2, plan, addrs[g.Index], 0)
		only := *plan
		only.Candidates = plan.Candidates[g.Index : g.Index+1]
		if n := cachedBlocks(t, s, 3, &only); n != 0 {
			t.Errorf("%d blocks of what was forgotten", n)
		}
	})
}

// Short conversations of one application have a common beginning. However many there are, and wherever they part, all
// of each matches when it continues.
func TestManyConversations(t *testing.T) {
	const many = 150
	onEachVersion(t, func(t *testing.T, w *syncTransport, s *redisclient.Store) {
		for shared := range 9 {
			plans := make([]*lb.Plan, many)
			for i := range plans {
				plans[i] = storetest.WithPrompt(manualPlan, 1000, branchOff(numberedBlocks(shared, 1), 12, uint64(i)))
				cachedBlocks(t, s, lb.LeaseID(i), plans[i])
			}
			for i, plan := range plans {
				if n := cachedBlocks(t, s, lb.LeaseID(i), plan); n != shared+12 {
					t.Fatalf("of conversation %d, which has %d blocks in common with others, %d blocks match",
						i, shared, n)
				}
			}
			w.value("FLUSHALL")
		}
	})
}

// branchOff returns the common blocks followed by n others.
func branchOff(common []prompt.Block, n int, seed uint64) []prompt.Block {
	blocks := slices.Concat(common, numberedBlocks(n, 1000*(seed+1)))
	for k := range blocks {
		blocks[k].End = 100 * (k + 1)
	}
	return blocks
}

// Records of blocks behind a lost page are deleted as well.
func TestForgetBehindLostPage(t *testing.T) {
	onEachVersion(t, func(t *testing.T, w *syncTransport, s *redisclient.Store) {
		plan := storetest.WithPrompt(manualPlan, 10, numberedBlocks(40, 1))
		_, g := grantedTo(t, s, 1, plan)
		m := newPagesModel("llm", plan.Prefix.RedisBytes)
		w.readPages(m)
		parts := m.matchedParts(plan.Prefix.Blocks)
		if len(parts) < 3 {
			t.Fatalf("%d parts: there is none in the middle", len(parts))
		}
		w.value("HDEL", m.key, modelField(parts[1].slot))
		s.ForgetPrompt(0, 1, plan, manualPlan.Candidates[g.Index].Addr, 0)
		if left := w.value("HVALS", m.key).Items; len(left) > 0 {
			t.Errorf("%d pages are left of a prompt that no endpoint has", len(left))
		}
	})
}
