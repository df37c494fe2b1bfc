package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// testQueueGrant: a release of one owner grants the endpoint to a request of another, before that one knows.
func testQueueGrant(t *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	p := limited(addrs, 1, wait(high))
	p.Tokens = 50
	holder := l.take(o[0], p)
	if next := o[1].Poll(l.now); next != 0 {
		t.Fatalf("nobody waits, but Poll wants to be called at %v", next)
	}
	r := l.queue(o[1], p)
	if o[1].Poll(l.now) <= 0 {
		t.Fatal("Poll does not want to be called again while a request waits")
	}
	l.tick(3 * time.Second)
	l.granted([]*asked{r})
	l.release(holder)
	l.want(addrs, 1)
	o[0].Poll(l.now)
	if !r.waits() {
		t.Fatal("done was called by another owner's Poll")
	}
	l.granted([]*asked{r}, r)
	if r.Load != (lb.Load{Requests: 1, Tokens: 50}) || r.Waited < 3*time.Second || r.Waited > 3100*time.Millisecond {
		t.Fatalf("the grant is %+v after a wait of 3 s", r.Grant)
	}
	if next := o[1].Poll(l.now); next != 0 {
		t.Fatalf("nobody waits any more, but Poll wants to be called at %v", next)
	}
	l.want(addrs, 1)
	l.release(r)
	l.want(addrs, 0)
}

func testQueueFull(_ *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(2)
	never := limited(addrs, 1, lb.Wait{})
	l.take(o[0], never)
	l.take(o[0], never)
	l.refuse(o[1], never, lb.ErrFull)
	l.queue(o[1], limited(addrs, 1, wait(high)))
	l.refuse(o[0], never, lb.ErrFull)
	l.want(addrs, 1, 1)
}

func testQueueFIFO(_ *testing.T, l *line) {
	o, addrs := l.join(4), Addrs(1)
	p := limited(addrs, 1, wait(high))
	holder := l.take(o[0], p)
	var waiting []*asked
	var want []int
	for i := range 24 {
		waiting, want = append(waiting, l.queue(o[i*i%4], p)), append(want, i)
	}
	l.expectOrder(holder, waiting, want...)
	l.want(addrs, 0)
}

// testQueueOvertake: what was granted to a waiting request is not free for those that come later, even before its
// owner has seen the grant.
func testQueueOvertake(_ *testing.T, l *line) {
	o, addrs := l.join(3), Addrs(2)
	both := limited(addrs, 1, wait(high))
	holders := []*asked{l.take(o[0], both), l.take(o[0], both)}
	r := l.queue(o[1], both)
	l.release(holders[0])
	late := l.queue(o[2], both)
	l.refuse(o[2], limited(addrs, 1, lb.Wait{}), lb.ErrFull)
	l.want(addrs, 1, 1)
	l.granted([]*asked{r, late}, r)
	if r.addr != holders[0].addr {
		l.t.Fatalf("granted %s, %s was released", r.addr, holders[0].addr)
	}
	l.release(holders[1])
	l.granted([]*asked{late}, late)
}

// testQueueCandidates: a request is only granted what its plan allows. What it does not wait for is for others.
func testQueueCandidates(_ *testing.T, l *line) {
	o, addrs := l.join(3), Addrs(3)
	first, second := limited(addrs[:1], 1, wait(high)), limited(addrs[1:2], 1, wait(high))
	both := limited(addrs[:2], 1, wait(high))
	a, b := l.take(o[0], first), l.take(o[0], second)
	forFirst := l.queue(o[1], first)
	forBoth := l.queue(o[2], both)
	third := l.take(o[2], limited(addrs, 1, wait(high)))
	if third.addr != addrs[2] {
		l.t.Fatalf("granted %s although %s was open", third.addr, addrs[2])
	}
	l.release(b)
	l.granted([]*asked{forFirst, forBoth}, forBoth)
	l.release(forBoth)
	l.granted([]*asked{forFirst})
	again := l.take(o[0], second)
	l.release(a)
	l.granted([]*asked{forFirst}, forFirst)
	if forFirst.addr != addrs[0] || forBoth.addr != addrs[1] || again.addr != addrs[1] {
		l.t.Fatalf("granted %s, %s and %s", forFirst.addr, forBoth.addr, again.addr)
	}
}

func testQueueScopes(_ *testing.T, l *line) {
	o, addrs := l.join(1), Addrs(1)
	p, other := limited(addrs, 1, wait(high)), limited(addrs, 1, wait(high))
	other.Scope = "other"
	a, b := l.take(o[0], p), l.take(o[0], other)
	r, s := l.queue(o[0], p), l.queue(o[0], other)
	l.release(a)
	l.granted([]*asked{r, s}, r)
	l.release(b)
	l.granted([]*asked{s}, s)
}

// testQueueCaps: caps may rise, which a plan brings. Those that wait go before the request that brought it.
func testQueueCaps(_ *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	p := limited(addrs, 1, wait(high))
	l.take(o[0], p)
	first, second := l.queue(o[0], p), l.queue(o[1], p)
	late := l.queue(o[1], limited(addrs, 3, wait(high)))
	l.want(addrs, 3)
	l.granted([]*asked{first, second, late}, first, second)
}

// testQueueLowerCap: requests in flight above a lower cap stay, and nobody is added.
func testQueueLowerCap(_ *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	p := limited(addrs, 3, wait(high))
	held := []*asked{l.take(o[0], p), l.take(o[0], p), l.take(o[0], p)}
	waiting := []*asked{l.queue(o[1], p), l.queue(o[1], limited(addrs, 1, wait(high)))}
	l.release(held[0])
	l.release(held[1])
	l.granted(waiting)
	l.want(addrs, 1)
	l.release(held[2])
	l.granted(waiting, waiting[0])
	l.want(addrs, 1)
}

func testQueueAmend(_ *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(2)
	p := limited(addrs[:1], 1, wait(high))
	holder := l.take(o[0], p)
	r := l.queue(o[1], p)
	l.tick(time.Millisecond)
	holder.owner.Amend(l.now, holder.id, addrs[1], 0)
	l.granted([]*asked{r}, r)
	l.want(addrs, 1, 1)
}

// testQueueSince: a request that has waited and is reserved anew, for other endpoints say, does not begin again.
func testQueueSince(_ *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	p := limited(addrs, 1, wait(high))
	holder := l.take(o[0], p)
	anew, since := l.queue(o[0], p), l.now
	waiting := []*asked{l.queue(o[1], p), l.queue(o[0], p)}
	l.tick(time.Second)
	l.release(anew)
	again := *p
	again.Wait.Since = since
	waiting = append(waiting, l.queue(o[0], &again))
	l.expectOrder(holder, waiting, 2, 0, 1)
	if w := waiting[2].Waited; w < time.Second {
		l.t.Fatalf("waited for %v", w)
	}
}

// instead reserves for a request that has waited since then, under another id, and then releases the old one.
func (l *line) instead(of *asked, since time.Duration) *asked {
	p := *of.plan
	p.Wait.Since, p.Wait.Instead = since, of.id
	again := l.ask(of.owner, &p)
	if n := of.owner.Queue(l.now, "llm").Waiting; again.waits() && n > 1 {
		l.t.Errorf("%d wait", n)
	}
	l.release(of)
	return again
}

// testQueueInstead: one that is planned anew has all that it was granted under its old id, and was evicted if that was,
// whether or not its owner knows of it.
func testQueueInstead(t *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(2)
	holder := l.take(o[0], short(addrs[:1], high, 1))
	first, since := l.queue(o[1], short(addrs[:1], low, 1)), l.now
	first = l.instead(first, since)
	l.refuse(o[0], short(addrs[:1], low, 1), lb.ErrQueueFull)
	evicting := l.queue(o[0], short(addrs[:1], high, 1))
	if r := l.instead(first, since); r.waits() || !errors.Is(r.err, lb.ErrQueueFull) {
		t.Fatalf("one that was evicted waits %v, %v", r.waits(), r.err)
	}
	l.release(evicting)
	first, since = l.queue(o[1], limited(addrs[:1], 1, wait(high))), l.now
	second := l.queue(o[0], limited(addrs[:1], 1, wait(high)))
	l.release(holder)
	again := l.instead(first, since)
	l.granted([]*asked{again, second}, again)
	l.want(addrs, 1, 0)
	l.release(again)
	l.granted([]*asked{second}, second)
	first, since = l.queue(o[1], limited(addrs[:1], 1, wait(high))), l.now
	l.release(second)
	first.plan = limited(addrs[1:], 1, wait(high)) // without what it was granted
	if again = l.instead(first, since); again.waits() || again.addr != addrs[1] {
		t.Fatalf("waits %v, %q, %v", again.waits(), again.addr, again.err)
	}
	l.want(addrs, 0, 1)
	l.release(again)
	l.want(addrs, 0, 0)
}

// inTokens returns a plan for a request of so many tokens that waits, over endpoints with that cap in tokens.
func inTokens(addrs []string, limit, tokens int64) *lb.Plan {
	p := limited(addrs, 0, wait(high))
	for i := range p.Candidates {
		p.Candidates[i].TokenCap = limit
	}
	p.Unit, p.Tokens = lb.Tokens, tokens
	return p
}

// testQueueTokens: what a release frees is granted until the cap in tokens is reached, however large the last request.
func testQueueTokens(_ *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	small, large := inTokens(addrs, 100, 60), inTokens(addrs, 100, 1000)
	first, second := l.take(o[0], small), l.take(o[1], small)
	waiting := []*asked{l.queue(o[1], small), l.queue(o[0], large), l.queue(o[1], small)}
	l.release(first)
	rest := l.granted(waiting, waiting[0]) // 120 of 100
	l.release(waiting[0])
	rest = l.granted(rest, waiting[1])
	l.release(second)
	l.granted(rest) // 1000 of 100
	l.release(waiting[1])
	l.granted(rest, waiting[2])
	l.want(addrs, 1)
}

// testQueueFewerTokens: a lease that is amended to fewer tokens makes room, one to more does not.
func testQueueFewerTokens(_ *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	p := inTokens(addrs, 100, 150)
	holder := l.take(o[0], p)
	waiting := []*asked{l.queue(o[1], p), l.queue(o[0], p)}
	amend := func(r *asked, tokens int64) {
		l.tick(time.Millisecond)
		r.owner.Amend(l.now, r.id, "", tokens)
	}
	for _, tokens := range []int64{200, 100} {
		amend(holder, tokens)
		l.granted(waiting)
	}
	amend(holder, 99)
	l.granted(waiting, waiting[0])
	amend(waiting[0], 1)
	l.granted(waiting[1:])
	amend(holder, 98)
	l.granted(waiting[1:], waiting[1])
	l.want(addrs, 3)
}

// testQueueLateRoom: a request would rather wait for a full endpoint than take an open one, and is about to be refused,
// since the queue has no place. At some moment of that, another owner frees the endpoint. The request counts if it is
// told that it was placed, and only then.
func testQueueLateRoom(t *testing.T, l *line) {
	if _, ok := l.Backend.(Interleaver); !ok {
		t.Skip("nobody acts between a read and a write of this backend")
	}
	for moment := 1; ; moment++ {
		l = &line{world: l.another(t), still: true}
		o, addrs := l.join(2), Addrs(2)
		holder := l.warmUp(o[0], addrs)
		l.take(o[1], limited([]string{"10.9.9.9:8000"}, 9, wait(high))) // so that it has read the table before
		b, calls := l.Backend.(Interleaver), 0
		b.Between(func() {
			if calls++; calls == moment {
				l.release(holder)
			}
		})
		p := prompted(addrs, 8, warmSeed)
		p.Wait.Patience, p.Wait.Length = 2*time.Second, 0
		r := l.ask(o[1], p)
		b.Between(nil)
		if calls < moment { // nobody has acted
			if moment == 1 || !errors.Is(r.err, lb.ErrQueueFull) {
				t.Errorf("after %d moments the request is answered with %v", moment-1, r.err)
			}
			return
		}
		if r.waits() {
			t.Fatalf("moment %d: the request waits in a queue without a place", moment)
		}
		if r.err == nil {
			l.want(addrs, 1, 0)
			l.release(r)
		}
		l.want(addrs, 0, 0)
	}
}
