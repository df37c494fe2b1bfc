package storetest

import (
	"testing"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
)

// testPrefix: a prompt goes where most of it is cached, and counts the tokens that are not. The index is shared by all
// owners.
func testPrefix(t *testing.T, w *world) {
	a, b := w.NewOwner(), w.NewOwner()
	addrs := Addrs(5)
	turn1, turn2, other := Blocks(1, 2), Blocks(1, 2, 3), Blocks(1, 4)
	p := Even(addrs)
	chosen := w.must(a, 1, WithPrompt(p, 10, turn1))
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
		w.want(addrs, 0, 0, 0, 0, 0) // flushes deferred releases
		addr, g := w.visit(c.owner, id, WithPrompt(p, 10, c.blocks))
		if addr != chosen || g.Cached != c.cached || g.Load != (lb.Load{Requests: 1, Tokens: c.tokens}) {
			t.Fatalf("reservation %d: %s %+v; want %s with %d blocks and %d tokens",
				id, addr, g, chosen, c.cached, c.tokens)
		}
	}
	if _, g := w.visit(a, 30, WithPrompt(p, 10, Blocks(7, 1, 2))); g.Cached != 0 {
		t.Errorf("%d blocks of another prompt match", g.Cached)
	}
	w.want(addrs, 0, 0, 0, 0, 0)
}

// testPrefixLoad: cached tokens outweigh load up to their credit and no further. The endpoint to which a prompt then
// goes is recorded to have it as well.
func testPrefixLoad(t *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(3)
	plan := WithPrompt(Even(addrs), 0.5, Blocks(1))
	busy := Even(addrs[:1])
	busy.Unit = lb.Tokens
	if addr, _ := w.visit(s, 1, WithPrompt(busy, 0, Blocks(1))); addr != addrs[0] {
		t.Fatal(addr)
	}
	busy.Tokens = promptTokens/2 - 1
	w.must(s, 2, busy)
	if addr, _ := w.visit(s, 3, plan); addr != addrs[0] {
		t.Fatalf("goes to %s although load costs less than the credit", addr)
	}
	busy.Tokens = 2
	w.must(s, 4, busy)
	other, _ := w.visit(s, 5, plan)
	if other == addrs[0] {
		t.Fatal("stays where load costs more than the credit")
	}
	if addr, g := w.visit(s, 6, plan); addr != other || g.Cached != 4 {
		t.Errorf("the next one goes to %s, %d blocks cached; want %s, which has it by now", addr, g.Cached, other)
	}
	s.Release(w.now, 2)
	s.Release(w.now, 4)
	w.want(addrs, 0, 0, 0)
}

// onlyAt returns the plan with no other candidate than one endpoint.
func onlyAt(plan *lb.Plan, addr string) *lb.Plan {
	only := *plan
	only.Candidates = nil
	for _, c := range plan.Candidates {
		if c.Addr == addr {
			only.Candidates = append(only.Candidates, c)
		}
	}
	return &only
}

// testPrefixForget: forgotten blocks of an endpoint do not match any more, all others still do.
func testPrefixForget(t *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(2)
	plan := WithPrompt(Even(addrs), 10, Blocks(1, 2, 3))
	chosen, _ := w.visit(s, 1, plan)
	only := onlyAt(plan, chosen)
	cached := func(id lb.LeaseID) int {
		_, g := w.visit(s, id, only)
		return g.Cached
	}
	for i, c := range []struct {
		addr string
		n    int
		want int
	}{{"10.9.9.9:80", 0, 12}, {chosen, 12, 12}, {chosen, 7, 7}} {
		s.ForgetPrompt(w.now, 1, plan, c.addr, c.n)
		// The reservation in cached records the whole prompt again.
		if got := cached(lb.LeaseID(10 + i)); got != c.want {
			t.Fatalf("after forgetting all but %d blocks of %s, %d match, want %d", c.n, c.addr, got, c.want)
		}
	}
	s.ForgetPrompt(w.now, 1, plan, chosen, 0)
	if got := cached(20); got != 0 {
		t.Errorf("%d blocks match after all were forgotten", got)
	}
}

// testPrefixDeep: more endpoints than an entry has room for have the same beginning. Each is found by the rest.
func testPrefixDeep(t *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(9)
	for i := range addrs {
		one := WithPrompt(Even(addrs[i:i+1]), 1, Blocks(1, 100+uint64(i)))
		w.visit(s, lb.LeaseID(i+1), one)
	}
	for i := range addrs {
		addr, g, err := w.reserve(s, lb.LeaseID(i+50), WithPrompt(Even(addrs), 1, Blocks(1, 100+uint64(i), 3)))
		if err != nil || addr != addrs[i] || g.Cached != 8 {
			t.Errorf("conversation %d goes to %s with %d blocks, %v; want %s with 8", i, addr, g.Cached, err, addrs[i])
		}
	}
}

// testPrefixMany: conversations of one application begin alike and then differ. However many there are, each matches
// completely in its next turn.
func testPrefixMany(t *testing.T, w *world) {
	const conversations = 150
	s, p := w.NewOwner(), Even(Addrs(4))
	id := lb.LeaseID(0)
	for _, common := range [][]uint64{nil, {1}, {1, 2}, {1, 2, 3}} {
		for pass := range 2 {
			for i := range uint64(conversations) {
				seeds := append(append([]uint64(nil), common...), 1000*uint64(len(common)+1)+i, 7)
				plan := WithPrompt(p, 1, Blocks(seeds...))
				id++
				_, g := w.visit(s, id, plan)
				if pass == 1 && g.Cached != len(plan.Prefix.Blocks) {
					t.Fatalf("conversation %d, behind %d common messages: %d of %d blocks match",
						i, len(common), g.Cached, len(plan.Prefix.Blocks))
				}
			}
		}
	}
}

// testPrefixBounds: prompts of up to as many blocks as a chain may have match right after they were recorded, also when
// more were recorded than the index holds.
func testPrefixBounds(t *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(4)
	p := Even(addrs)
	long := make([]uint64, prompt.MaxBlocks/4)
	visits := lb.LeaseID(3000)
	if testing.Short() {
		visits = 1000
	}
	for i := range visits {
		long[0] = uint64(i)
		plan := WithPrompt(p, 1, Blocks(long[:1+i%lb.LeaseID(len(long))]...))
		w.visit(s, i+1, plan)
		if _, g := w.visit(s, i+10_000, plan); g.Cached != len(plan.Prefix.Blocks) {
			t.Fatalf("prompt %d: %d of %d blocks", i, g.Cached, len(plan.Prefix.Blocks))
		}
	}
	w.want(addrs, 0, 0, 0, 0)
}
