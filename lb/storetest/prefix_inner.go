package storetest

import (
	"testing"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
)

// oneText returns the blocks of a prompt that is one text of n pieces, four of which are a block. Behind the first
// block it is cut at each piece. Longer texts begin with shorter ones.
func oneText(n int) (blocks []prompt.Block) {
	const each = 4
	for i, b := range Blocks(1, 2, 3, 4, 5)[:n] {
		b.Fine = i%each < each-1
		b.Inner = b.Fine && i < n/each*each
		if i >= each-1 {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// testPrefixInner: a prompt is known up to the piece in which an earlier one ended; pieces in the middle of a prompt
// are looked up and not recorded.
func testPrefixInner(t *testing.T, w *world) {
	a, b, addrs := w.NewOwner(), w.NewOwner(), Addrs(4)
	text := func(n int) *lb.Plan {
		p := WithPrompt(Even(addrs), 10, oneText(n))
		p.Prefix.Bytes = 100 * n
		return p
	}
	chosen := w.must(a, 1, text(7))
	a.Release(w.now, 1)
	for i, c := range []struct{ pieces, want int }{
		{14, 4},  // the first block and the three pieces behind it
		{11, 5},  // two blocks: the pieces behind were in the middle of the earlier prompt
		{16, 11}, // three blocks of four pieces, and two pieces
		{16, 13}, // all of it
	} {
		addr, g := w.visit(b, lb.LeaseID(10+i), text(c.pieces))
		if addr != chosen || g.Cached != c.want {
			t.Errorf("%d pieces go to %s with %d blocks; want %s, %d blocks", c.pieces, addr, g.Cached, chosen, c.want)
		}
	}
	only := onlyAt(text(7), chosen)
	for i, c := range []struct{ n, want int }{{4, 4}, {2, 2}, {4, 4}, {1, 1}, {0, 0}} {
		a.ForgetPrompt(w.now, 1, text(16), chosen, c.n)
		if _, g := w.visit(a, lb.LeaseID(20+i), only); g.Cached != c.want { // it is recorded again
			t.Errorf("after all but %d blocks were forgotten %d match, want %d", c.n, g.Cached, c.want)
		}
	}
	served := addrs[0]
	if served == chosen {
		served = addrs[1]
	}
	a.RecordPrompt(w.now, 2, text(19), served)
	if addr, g := w.visit(b, 30, text(20)); addr != served || g.Cached != 16 {
		t.Errorf("after another has served it it goes to %s with %d blocks, want %s with 16", addr, g.Cached, served)
	}
}

// testQueueInner: one that waits is told how many blocks of its prompt are known, too.
func testQueueInner(t *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	text := func(n int) *lb.Plan {
		p := WithPrompt(limited(addrs, 1, wait(high)), 10, oneText(n))
		p.Prefix.Bytes = 100 * n
		return p
	}
	l.release(l.take(o[0], text(7)))
	holder := l.take(o[0], prompted(addrs, 0, 99))
	r, p := l.queue(o[1], text(14)), text(14)
	l.release(holder)
	l.granted([]*asked{r}, r)
	if r.Cached != 4 || r.Load.Tokens != p.AddedTokens(4) {
		t.Fatalf("the grant is %+v", r.Grant)
	}
}
