package storetest

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
)

// Blocks returns n blocks of a prompt in which each message differs by its seed: prompts with the same seeds in front have the
// same blocks there, four for each seed.
func Blocks(seeds ...uint64) []prompt.Block {
	var out []prompt.Block
	key := uint64(0)
	for _, seed := range seeds {
		for range 4 {
			key = (key^seed+1)*0x9e3779b97f4a7c15 ^ key>>29
			out = append(out, prompt.Block{Key: key >> 8, End: 100 * (len(out) + 1)})
		}
	}
	return out
}

// promptTokens is what a prompt counts for in these tests, and answerTokens what its answer does.
const (
	promptTokens = 1000
	answerTokens = 10
)

// WithPrompt returns the plan for a prompt of which each cached token is worth the given tokens of load.
func WithPrompt(p *lb.Plan, credit float64, blocks []prompt.Block) *lb.Plan {
	out := *p
	out.Unit, out.Tokens = lb.Tokens, promptTokens+answerTokens
	out.Prefix = lb.Prefix{
		Blocks: blocks, Bytes: 100 * len(blocks), Tokens: promptTokens, Credit: credit * promptTokens,
		TTL: time.Minute, IndexMemory: lb.IndexMemory{Local: 8 << 20, Remote: 8 << 20},
	}
	return &out
}

// testPrefix: a prompt goes where it is cached, as far as it is, and counts for what is not; all owners know.
func testPrefix(t *testing.T, w *world) {
	a, b := w.NewOwner(), w.NewOwner()
	addrs := Addrs(5)
	turn1, turn2, other := Blocks(1, 2), Blocks(1, 2, 3), Blocks(1, 4)
	p := Even(addrs)
	home := w.must(a, 1, WithPrompt(p, 10, turn1))
	a.Release(w.now, 1)
	for id, c := range []struct {
		owner  lb.Store
		blocks []prompt.Block
		cached int
		tokens int64
	}{
		{a, turn1, 8, answerTokens},
		{b, turn1, 8, answerTokens},
		{b, turn2, 8, promptTokens - promptTokens*8/12 + answerTokens},
		{a, turn2, 12, answerTokens},
		{b, other, 4, promptTokens/2 + answerTokens},
		{b, turn2, 12, answerTokens},
	} {
		id := lb.LeaseID(id + 10)
		w.want(addrs, 0, 0, 0, 0, 0) // releases that an owner has put off are written
		addr, g, err := w.reserve(c.owner, id, WithPrompt(p, 10, c.blocks))
		if err != nil || addr != home || g.Cached != c.cached || g.Load != (lb.Load{Requests: 1, Tokens: c.tokens}) {
			t.Fatalf("reservation %d: %s %+v, %v; want %s with %d blocks and %d tokens", id, addr, g, err, home, c.cached, c.tokens)
		}
		c.owner.Release(w.now, id)
	}
	if _, g, _ := w.reserve(a, 30, WithPrompt(p, 10, Blocks(7, 1, 2))); g.Cached != 0 {
		t.Errorf("%d blocks of another prompt are taken to be cached", g.Cached)
	}
	a.Release(w.now, 30)
	w.want(addrs, 0, 0, 0, 0, 0)
}

// testPrefixLoad: what is cached is worth so much load and no more; where a prompt then goes has it as well.
func testPrefixLoad(t *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(3)
	plan := WithPrompt(Even(addrs), 0.5, Blocks(1))
	busy := Even(addrs[:1])
	busy.Unit = lb.Tokens
	if addr := w.must(s, 1, WithPrompt(busy, 0, Blocks(1))); addr != addrs[0] {
		t.Fatal(addr)
	}
	s.Release(w.now, 1)
	busy.Tokens = promptTokens/2 - 1
	w.must(s, 2, busy)
	if addr := w.must(s, 3, plan); addr != addrs[0] {
		t.Fatalf("goes to %s although waiting costs less than what is cached", addr)
	}
	s.Release(w.now, 3)
	busy.Tokens = 2
	w.must(s, 4, busy)
	away := w.must(s, 5, plan)
	if away == addrs[0] {
		t.Fatal("stays where waiting costs more than what is cached")
	}
	s.Release(w.now, 5)
	if addr, g, _ := w.reserve(s, 6, plan); addr != away || g.Cached != 4 {
		t.Errorf("the next one goes to %s, %d blocks cached; want %s, which has it now", addr, g.Cached, away)
	}
	for _, id := range []lb.LeaseID{2, 4, 6} {
		s.Release(w.now, id)
	}
	w.want(addrs, 0, 0, 0)
}

// testPrefixForget: what is taken back no longer counts, and nothing else is.
func testPrefixForget(t *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(2)
	plan := WithPrompt(Even(addrs), 10, Blocks(1, 2, 3))
	home := w.must(s, 1, plan)
	s.Release(w.now, 1)
	cached := func(id lb.LeaseID) int {
		only := *plan
		only.Candidates = nil
		for _, c := range plan.Candidates {
			if c.Addr == home {
				only.Candidates = append(only.Candidates, c)
			}
		}
		_, g, err := w.reserve(s, id, &only)
		if err != nil {
			t.Fatal(err)
		}
		s.Release(w.now, id)
		return g.Cached
	}
	for i, c := range []struct {
		addr string
		n    int
		want int
	}{{"10.9.9.9:80", 0, 12}, {home, 12, 12}, {home, 7, 7}} {
		s.ForgetPrompt(w.now, 1, plan, c.addr, c.n)
		// A reservation notes the whole prompt again.
		if got := cached(lb.LeaseID(10 + i)); got != c.want {
			t.Fatalf("after %s has been forgotten to have more than %d blocks it has %d, want %d", c.addr, c.n, got, c.want)
		}
	}
	s.ForgetPrompt(w.now, 1, plan, home, 0)
	if got := cached(20); got != 0 {
		t.Errorf("%d blocks are left of nothing", got)
	}
}

// testPrefixDeep: a beginning that everybody has does not hide who has the rest.
func testPrefixDeep(t *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(9)
	for i := range addrs {
		one := WithPrompt(Even(addrs[i:i+1]), 1, Blocks(1, 100+uint64(i)))
		w.must(s, lb.LeaseID(i+1), one)
		s.Release(w.now, lb.LeaseID(i+1))
	}
	for i := range addrs {
		addr, g, err := w.reserve(s, lb.LeaseID(i+50), WithPrompt(Even(addrs), 1, Blocks(1, 100+uint64(i), 3)))
		if err != nil || addr != addrs[i] || g.Cached != 8 {
			t.Errorf("conversation %d goes to %s with %d blocks, %v; want %s with 8", i, addr, g.Cached, err, addrs[i])
		}
	}
}

// testPrefixMany: conversations of one application begin alike and then differ. However many there are, all of each is known when
// it goes on.
func testPrefixMany(t *testing.T, w *world) {
	const many = 150
	s, p := w.NewOwner(), Even(Addrs(4))
	id := lb.LeaseID(0)
	for _, common := range [][]uint64{nil, {1}, {1, 2}, {1, 2, 3}} {
		for pass := range 2 {
			for i := range uint64(many) {
				plan := WithPrompt(p, 1, Blocks(append(append([]uint64(nil), common...), 1000*uint64(len(common)+1)+i, 7)...))
				id++
				_, g, err := w.reserve(s, id, plan)
				if err != nil {
					t.Fatal(err)
				}
				s.Release(w.now, id)
				if pass == 1 && g.Cached != len(plan.Prefix.Blocks) {
					t.Fatalf("conversation %d, behind %d common messages: %d of %d blocks are known", i, len(common), g.Cached, len(plan.Prefix.Blocks))
				}
			}
		}
	}
}

// testPrefixBounds: as many blocks as a chain may have, and more prompts than there is room for, are no trouble.
func testPrefixBounds(t *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(4)
	p := Even(addrs)
	long := make([]uint64, prompt.MaxBlocks/4)
	for i := range lb.LeaseID(3000) {
		long[0] = uint64(i)
		plan := WithPrompt(p, 1, Blocks(long[:1+i%lb.LeaseID(len(long))]...))
		w.must(s, i+1, plan)
		s.Release(w.now, i+1)
		if _, g, err := w.reserve(s, i+10_000, plan); err != nil || g.Cached != len(plan.Prefix.Blocks) {
			t.Fatalf("prompt %d: %d of %d blocks, %v", i, g.Cached, len(plan.Prefix.Blocks), err)
		}
		s.Release(w.now, i+10_000)
	}
	w.want(addrs, 0, 0, 0, 0)
}
