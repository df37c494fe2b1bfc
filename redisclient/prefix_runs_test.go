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

// No run outlives its prompt's TTL, and that begins anew when the prompt comes again after a while.
func TestRunsVanish(t *testing.T) {
	onVersions(t, func(t *testing.T, w *wire, s *redisclient.Store) {
		plan := storetest.WithPrompt(manualPlan, 1, numbered(40, 1))
		plan.Prefix.TTL = 90 * time.Second
		ttls := func(least time.Duration) {
			t.Helper()
			if n := len(w.runs()); n != 6 {
				t.Fatalf("%d runs, want 6", n)
			}
			for _, key := range w.runs() {
				ttl := time.Duration(w.value("PTTL", key).Int) * time.Millisecond
				if ttl <= least || ttl > plan.Prefix.TTL {
					t.Errorf("%q lives for %v", key, ttl)
				}
			}
		}
		once(t, s, 1, plan)
		ttls(80 * time.Second)
		for _, key := range w.runs() {
			w.value("PEXPIRE", key, "70000")
		}
		once(t, s, 2, plan) // it was noted a moment ago
		ttls(60 * time.Second)
		w.age(10)
		if n := once(t, s, 3, plan); n != 40 {
			t.Errorf("%d blocks after 40 s", n)
		}
		ttls(80 * time.Second)
		w.age(30)
		if n := once(t, s, 4, plan); n != 0 {
			t.Errorf("%d blocks after two minutes, of a prompt that is kept for one and a half", n)
		}
		s.Forget(0, 4, plan, manualPlan.Candidates[0].Addr, 3)
		s.Forget(0, 4, plan, manualPlan.Candidates[1].Addr, 3)
		for _, key := range w.runs() {
			if ttl := w.value("PTTL", key).Int; ttl <= 0 {
				t.Errorf("%q lives for ever", key)
			}
		}
		w.value("FLUSHALL")
		plan.Prefix.TTL = 365 * 24 * time.Hour // longer than any is kept
		once(t, s, 5, plan)
		plan.Prefix.TTL = 48 * time.Hour
		ttls(47 * time.Hour)
		w.value("FLUSHALL")
		plan.Prefix.TTL = 30 * time.Millisecond
		once(t, s, 6, plan)
		until(t, func() bool { return len(w.runs()) == 0 })
	})
}

// age makes what is noted in runs older.
func (w *wire) age(ticks uint16) {
	for _, key := range w.runs() {
		run := slices.Clone(w.value("GET", key).Str)
		for at := 0; at < len(run); at += modelEntry {
			for i := at + 12; i < at+modelEntry; i += 6 {
				binary.LittleEndian.PutUint16(run[i:], binary.LittleEndian.Uint16(run[i:])-ticks)
			}
		}
		w.value("SET", key, string(run), "KEEPTTL")
	}
}

// Redis may lose runs one by one. What is left is used as far as it can be, and what was lost is noted again.
func TestRunsEvicted(t *testing.T) {
	onVersions(t, func(t *testing.T, w *wire, s *redisclient.Store) {
		blocks := numbered(100, 1)
		plan := storetest.WithPrompt(manualPlan, 10, blocks)
		id := lb.LeaseID(1)
		for _, c := range []struct{ lost, want int }{{0, 0}, {2, 2}, {4, 4}, {8, 8}, {32, 32}, {96, 96}, {16, 16}} {
			for range 2 {
				id++
				once(t, s, id, plan)
			}
			id++
			if n := once(t, s, id, plan); n != len(blocks) {
				t.Fatalf("%d blocks of %d", n, len(blocks))
			}
			w.value("DEL", keyAt(plan, c.lost))
			id++
			if n := once(t, s, id, plan); n != c.want {
				t.Errorf("without the run of block %d: %d blocks, want %d", c.lost, n, c.want)
			}
		}
		w.value("SET", keyAt(plan, 4), "nonsense")
		w.value("DEL", keyAt(plan, 2))
		w.value("HSET", keyAt(plan, 2), "a", "b")
		if n := once(t, s, 0, plan); n != 2 {
			t.Errorf("behind what is no run: %d blocks, want 2", n)
		}
		if n := once(t, s, 0, plan); n != len(blocks) {
			t.Errorf("%d blocks after that", n)
		}
	})
}

// However many prompts begin alike, a run has an upper size, and what they have in common stays known.
func TestRunsAreBounded(t *testing.T) {
	onVersions(t, func(t *testing.T, w *wire, s *redisclient.Store) {
		for shared := range 6 {
			common := numbered(shared, 1)
			for i := range 200 {
				plan := storetest.WithPrompt(manualPlan, 10, branch(common, 20, uint64(i)))
				if n := once(t, s, lb.LeaseID(i), plan); i > 0 && n < shared {
					t.Fatalf("prompt %d: %d blocks are known, all have %d in common", i, n, shared)
				}
			}
			for _, key := range w.runs() {
				if n := w.value("STRLEN", key).Int; n%modelEntry != 0 || n > modelMost*modelEntry {
					t.Errorf("a run of %d bytes", n)
				}
			}
			w.value("FLUSHALL")
		}
	})
}

// A prompt of the most blocks, of which all are held by as many endpoints as fit, in a large cluster, beside full runs.
func TestLongestPrompt(t *testing.T) {
	const endpoints = 4096
	onVersions(t, func(t *testing.T, w *wire, s *redisclient.Store) {
		var addrs []string
		for i := range endpoints {
			addrs = append(addrs, fmt.Sprintf("10.1.%d.%d:8000", i>>8, i&255))
		}
		even := storetest.Even(addrs)
		blocks := numbered(prompt.MaxBlocks, 1)
		at := 0
		for _, part := range newPagesModel("llm", 8<<20).parts(blocks) {
			var page []byte
			for i := range modelMost {
				key := rand.Uint64()
				if i >= modelMost-len(part.blocks) { // behind all others
					key = part.blocks[modelMost-1-i].Key
				}
				page = binary.LittleEndian.AppendUint64(page, key)
				for range 4 {
					page = binary.LittleEndian.AppendUint32(page, endpointOf(addrs[at%endpoints]))
					page = binary.LittleEndian.AppendUint16(page, tickNow()-20)
					at++
				}
			}
			w.value("SET", pageKey("llm", part.slot), string(page), "PX", "60000")
		}
		plan := storetest.WithPrompt(even, 100, branch(blocks, 100, 5)) // longer than what is looked for
		plan.Prefix.TTL = time.Hour
		_, g := grantedTo(t, s, 1, plan)
		if g.Cached != prompt.MaxBlocks {
			t.Errorf("%d blocks, want the most, %d", g.Cached, prompt.MaxBlocks)
		}
		if n := once(t, s, 2, plan); n != prompt.MaxBlocks {
			t.Errorf("%d blocks the second time", n)
		}
		s.Forget(0, 2, plan, addrs[g.Index], 0)
		only := *plan
		only.Candidates = plan.Candidates[g.Index : g.Index+1]
		if n := once(t, s, 3, &only); n != 0 {
			t.Errorf("%d blocks of what was forgotten", n)
		}
	})
}

// Short conversations of one application begin alike and then differ. However many there are, and wherever they part, all of each
// is known when it goes on.
func TestManyConversations(t *testing.T) {
	const many = 150
	onVersions(t, func(t *testing.T, w *wire, s *redisclient.Store) {
		for shared := range 9 {
			plans := make([]*lb.Plan, many)
			for i := range plans {
				plans[i] = storetest.WithPrompt(manualPlan, 1000, branch(numbered(shared, 1), 12, uint64(i)))
				once(t, s, lb.LeaseID(i), plans[i])
			}
			for i, plan := range plans {
				if n := once(t, s, lb.LeaseID(i), plan); n != shared+12 {
					t.Fatalf("of conversation %d, which has %d blocks in common with others, %d blocks are known", i, shared, n)
				}
			}
			w.value("FLUSHALL")
		}
	})
}

// keyAt returns the key of the page of the run that begins with a block of the plan's prompt.
func keyAt(plan *lb.Plan, from int) string {
	p := &plan.Prefix
	for _, part := range newPagesModel(plan.Scope, p.Shared).parts(p.Blocks) {
		if part.blocks[0] == p.Blocks[from] {
			return pageKey(plan.Scope, part.slot)
		}
	}
	return ""
}

// branch returns the blocks with n others behind them.
func branch(common []prompt.Block, n int, seed uint64) []prompt.Block {
	blocks := slices.Concat(common, numbered(n, 1000*(seed+1)))
	for k := range blocks {
		blocks[k].End = 100 * (k + 1)
	}
	return blocks
}
