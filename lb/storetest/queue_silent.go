package storetest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// testQueueSilentTurn: the turn of an owner that does not poll goes to others, and its place is kept for it.
func testQueueSilentTurn(t *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	silent, alive := o[0], o[1]
	p := limited(addrs, 1, wait(high))
	holder := l.take(alive, p)
	first, second, third := l.queue(silent, p), l.queue(alive, p), l.queue(alive, p)
	l.silence(alive)
	l.release(holder)
	if alive.Poll(l.now); second.waits() || second.err != nil {
		t.Fatalf("behind a silent owner, the next waits %v, %v", second.waits(), second.err)
	}
	silent.Poll(l.now)
	l.release(second)
	l.granted([]*asked{first, third}, first)
	l.want(addrs, 1)
	l.release(first)
	l.granted([]*asked{third}, third)
	l.release(third)
	l.want(addrs, 0)
}

// testQueueSilentBegins: an owner that was silent, and has a request wait again, has its turn.
func testQueueSilentBegins(_ *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	p := limited(addrs, 1, wait(high))
	holder := l.take(o[1], p)
	l.release(l.queue(o[0], p))
	l.silence(o[1])
	first, second := l.queue(o[0], p), l.queue(o[1], p)
	l.release(holder)
	l.granted([]*asked{first, second}, first)
}

// testQueueSilentGrants: what was granted to an owner that does not poll goes to others, long before it is presumed
// dead. It was only slow, and waits again in its place.
func testQueueSilentGrants(t *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(2)
	silent, alive := o[0], o[1]
	p := limited(addrs, 1, wait(high))
	holders := []*asked{l.take(alive, p), l.take(alive, p)}
	lost := []*asked{l.queue(silent, p), l.queue(silent, p), l.queue(silent, p)}
	next := []*asked{l.queue(alive, p), l.queue(alive, p), l.queue(alive, p)}
	for _, r := range holders {
		l.release(r)
	}
	if alive.Poll(l.now); !next[0].waits() {
		t.Fatal("the first grant was not to who came first")
	}
	l.silence(alive)
	for _, r := range next[:2] {
		if r.waits() || r.err != nil {
			t.Fatalf("what a silent owner was granted is not given to others: waits %v, %v", r.waits(), r.err)
		}
	}
	l.want(addrs, 1, 1)
	l.granted(append(lost, next[2]))
	l.release(next[0])
	l.granted(append(lost, next[2]), lost[0])
	l.release(next[1])
	l.granted(append(lost[1:], next[2]), lost[1])
	l.release(lost[0])
	l.granted([]*asked{lost[2], next[2]}, lost[2])
	l.want(addrs, 1, 1)
	for _, r := range []*asked{lost[1], lost[2]} {
		l.release(r)
	}
	l.granted(next[2:], next[2])
	l.release(next[2])
	l.want(addrs, 0, 0)
}

// testQueueSilentKnows: what an owner may have learned of stays its own, however long it is silent.
func testQueueSilentKnows(t *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	silent, alive := o[0], o[1]
	p := limited(addrs, 1, wait(high))
	holder := l.take(alive, p)
	first, second := l.queue(silent, p), l.queue(alive, p)
	l.release(holder)
	l.granted([]*asked{first, second}, first)
	l.silence(alive)
	if !second.waits() {
		t.Fatal("an endpoint was granted twice")
	}
	l.want(addrs, 1)
	l.release(first)
	l.granted([]*asked{second}, second)
}

// testQueueSilentRandom runs random histories in which owners are silent now and then. Nothing is granted twice or
// above a cap by that, and nobody loses a place.
func testQueueSilentRandom(_ *testing.T, l *line) {
	l.histories(20, 20, func(fresh *line, seed uint64) {
		c := &chaos{
			line: fresh, rng: rand.New(rand.NewPCG(seed, 9)), moved: map[*asked]string{},
			strict: seed%2 == 1, prompts: seed%3 == 1,
		}
		c.begin()
		c.owners = append(c.owners, track(c.NewOwner()))
		for range 1000 {
			if c.rng.IntN(25) == 0 {
				c.hush()
			}
			c.step()
			c.poll()
		}
		c.undisturbed(c.settle)
		c.undisturbed(c.audit)
		c.undisturbed(c.end)
		c.checkKept()
	})
}

// hush has one owner do nothing for up to a second, in which the others go on. None of these moves a lease: what the
// silent one was granted before, and takes later, would be above the cap.
func (c *chaos) hush() {
	all := c.owners
	i := c.rng.IntN(len(all))
	c.silent, c.owners = all[i], append(append([]lb.Store{}, all[:i]...), all[i+1:]...)
	for until := c.now + time.Duration(c.rng.IntN(1000))*time.Millisecond; c.now < until && len(c.owners) > 0; {
		c.step()
		c.pass(lb.PollPeriod)
		c.poll()
	}
	c.owners, c.silent = all, nil
	c.undisturbed(c.settle)
}

// settle lets all owners find what they were granted, and put back what they have lost. None is presumed dead for being
// silent again and again.
func (c *chaos) settle() {
	for _, o := range c.owners {
		_ = o.Heartbeat(c.now)
	}
	for range 4 {
		c.pass(lb.PollPeriod)
		c.poll()
	}
}
