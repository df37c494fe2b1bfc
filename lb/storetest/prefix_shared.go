package storetest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
)

// extended returns a copy of the blocks with n new ones behind them.
func extended(rng *rand.Rand, blocks []prompt.Block, n int) []prompt.Block {
	out := append(make([]prompt.Block, 0, len(blocks)+n), blocks...)
	for range n {
		out = append(out, prompt.Block{Key: rng.Uint64() >> 8, End: 100 * (len(out) + 1)})
	}
	return out
}

// roomFor returns the bytes of an index that holds the number of blocks.
func (w *world) roomFor(blocks int) int {
	bytes := 1 << 10
	for w.IndexBlocks(bytes) < blocks {
		bytes += bytes/128 + 1
	}
	return bytes
}

// Shared tests that conversations which share their first blocks are retained, however many of them branch off from one
// block, as long as they have no more blocks than the index holds: the next turn of each comes after those of all
// others. The index is full from the beginning, as after some time in use, mostly with older entries. Some are single
// blocks of tenants that have few, and so are not evicted.
func Shared(t *testing.T, backend Backend, shared, prompts, talks int) {
	(&world{t: t, Backend: backend, now: time.Hour}).shared(t, shared, prompts, talks)
}

func (w *world) shared(t *testing.T, shared, prompts, talks int) {
	const minFound = 0.99
	rng := rand.New(rand.NewPCG(uint64(shared), uint64(prompts)))
	all, grows, total := beginnings(rng, shared, prompts, talks)
	s := w.NewOwner()
	room := w.fillIndex(rng, s, total)
	for turn := range sharedTurns {
		found, sent := 0, 0
		for n, i := range rng.Perm(talks) {
			if n%(talks/15) == 0 {
				w.tick(4 * time.Second)
			}
			before := len(all[i])
			all[i] = extended(rng, all[i], grows[i][turn])
			if cached := w.matched(s, room, all[i]); turn > 0 {
				found, sent = found+max(0, min(cached, before)-shared), sent+before-shared
			}
		}
		if float64(found) < minFound*float64(sent) {
			t.Errorf("%d conversations behind %d prompts of %d blocks, turn %d: of %d blocks of their own %.4f match",
				talks, prompts, shared, turn+1, sent, float64(found)/float64(sent))
		}
	}
}

// sharedTurns is the number of turns of a conversation behind a shared prompt.
const sharedTurns = 3

// beginnings returns the shared prompt of each conversation, by how many blocks it grows in each turn, and the number
// of all these blocks.
func beginnings(rng *rand.Rand, shared, prompts, talks int) (
	all [][]prompt.Block, grows [][sharedTurns]int, total int,
) {
	all, grows = make([][]prompt.Block, talks), make([][sharedTurns]int, talks)
	total = prompts * shared
	for i := range all {
		if all[i] = all[i%prompts]; i < prompts {
			all[i] = extended(rng, nil, shared)
		}
		for turn := range sharedTurns {
			grows[i][turn] = 2 + rng.IntN(6)
			total += grows[i][turn]
		}
	}
	return all, grows, total
}

// fillIndex fills an index that has room for so many blocks with older ones, and returns its size in bytes.
func (w *world) fillIndex(rng *rand.Rand, s lb.Store, blocks int) (room int) {
	const fill = 0.9
	quiet := blocks / 40
	room = w.roomFor(int(float64(blocks+quiet) / fill))
	for i := range quiet {
		w.matched(s, room, Claimed(extended(rng, nil, 1), byte(1+i%19)))
	}
	old := 2 * blocks / 20
	for i := range old {
		if i%(old/30) == 0 {
			w.tick(4 * time.Second)
		}
		w.matched(s, room, extended(rng, nil, 20))
	}
	return room
}

// matched reserves for a prompt, and returns how many of its blocks matched.
func (w *world) matched(s lb.Store, room int, blocks []prompt.Block) int {
	p := WithPrompt(Even(Addrs(1)), 1, blocks)
	p.Prefix.TTL, p.Prefix.IndexMemory = time.Hour, lb.IndexMemory{Local: room, Remote: room}
	_, g := w.visit(s, 1, p)
	return g.Cached
}

// testPrefixShared: see Shared.
func testPrefixShared(t *testing.T, w *world) {
	talks, cases := 10_000, [][2]int{{33, 1}, {16, 100}, {2, 1}, {16, 1}, {64, 1}, {100, 1}, {33, 50}}
	if _, remote := w.Backend.(Passer); remote { // where each turn takes two round trips
		talks, cases = 300, [][2]int{{33, 1}, {16, 15}, {2, 1}, {100, 1}}
	}
	if testing.Short() {
		talks, cases = min(talks, 3000), cases[:2]
	}
	for _, c := range cases {
		w.shared(t, c[0], c[1], talks)
	}
}

// testPrefixBranches: prompts that branch off at any block, also between blocks that were recorded together, match
// completely.
func testPrefixBranches(t *testing.T, w *world) {
	const deep, each, own = 40, 20, 5
	rng, s := rand.New(rand.NewPCG(1, 2)), w.NewOwner()
	prompts := [][]prompt.Block{extended(rng, nil, deep)}
	for at := range deep {
		for range each {
			prompts = append(prompts, extended(rng, prompts[0][:at], own))
		}
	}
	for pass := range 2 {
		for i, blocks := range prompts {
			want := len(blocks)
			if pass == 0 && i > 0 {
				want -= own
			} else if pass == 0 {
				want = 0
			}
			if n := w.matched(s, 8<<20, blocks); n != want {
				t.Fatalf("pass %d, prompt %d: %d blocks of %d match, want %d", pass+1, i, n, len(blocks), want)
			}
		}
	}
}

// orders returns n prompts of the same six examples in random orders, each with an end of its own, and the number of
// their different blocks.
func orders(n int) (all [][]prompt.Block, distinct int) {
	const examples = 6
	rng, keys := rand.New(rand.NewPCG(3, 4)), map[uint64]bool{}
	for i := range n {
		seeds := []uint64{7}
		for _, k := range rng.Perm(examples) {
			seeds = append(seeds, uint64(100+k))
		}
		all = append(all, Blocks(append(seeds, uint64(1000+i))...))
		for _, b := range all[i] {
			keys[b.Key] = true
		}
	}
	return all, len(keys)
}

// testPrefixTree: prompts of the same examples in any order branch off from each other at every level.
func testPrefixTree(t *testing.T, w *world) {
	const prompts, minFound = 700, 0.99
	s := w.NewOwner()
	all, distinct := orders(prompts)
	room, found, sent := w.roomFor(distinct), 0, 0
	for pass := range 2 {
		w.tick(40 * time.Second)
		for _, blocks := range all {
			found, sent = found+pass*w.matched(s, room, blocks), sent+pass*len(blocks)
		}
	}
	if float64(found) < minFound*float64(sent) {
		t.Errorf("of %d prompts of %d different blocks %.4f match",
			prompts, distinct, float64(found)/float64(sent))
	}
}
