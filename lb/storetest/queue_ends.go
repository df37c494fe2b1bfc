package storetest

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

func testQueueMax(t *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	long := limited(addrs, 1, wait(high))
	holder := l.take(o[0], long)
	short := *long
	short.Wait.Max = 3 * time.Second
	r, other := l.queue(o[1], &short), l.queue(o[1], long)
	l.tick(2900 * time.Millisecond)
	l.granted([]*asked{r, other})
	l.tick(150 * time.Millisecond)
	l.ended(r, lb.ErrWaitOver)
	if n := o[0].Queue(l.now, "llm").Waiting; n != 1 {
		t.Fatalf("%d wait, want 1", n)
	}
	l.release(holder)
	l.granted([]*asked{other}, other)
	l.release(r) // has nothing to release
	l.want(addrs, 1)
}

func testQueueRelease(t *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	p := limited(addrs, 1, wait(high))
	holder := l.take(o[0], p)
	gone, next := l.queue(o[1], p), l.queue(o[0], p)
	l.release(gone)
	l.release(gone)
	if n := o[0].Queue(l.now, "llm").Waiting; n != 1 {
		t.Fatalf("%d wait, want 1", n)
	}
	l.want(addrs, 1)
	l.release(holder)
	l.granted([]*asked{gone, next}, next)
	l.want(addrs, 1)
	l.release(next)
	l.granted([]*asked{gone})
	l.want(addrs, 0)
}

// testQueueReleaseGranted: a request ends just when it is granted. The next one gets the endpoint.
func testQueueReleaseGranted(_ *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	p := limited(addrs, 1, wait(high))
	holder := l.take(o[0], p)
	gone, next := l.queue(o[1], p), l.queue(o[0], p)
	l.release(holder)
	l.release(gone)
	l.want(addrs, 1)
	l.granted([]*asked{gone, next}, next)
	l.release(next)
	l.want(addrs, 0)
	l.granted([]*asked{gone})
}

func testQueueDeadOwner(t *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	dead, alive := o[0], o[1]
	p := limited(addrs, 1, wait(high))
	holder := l.take(alive, p)
	lost, next := l.queue(dead, p), l.queue(alive, p)
	l.pass(TTL+2*time.Second, alive)
	if n := alive.Queue(l.now, "llm").Waiting; n != 1 {
		t.Fatalf("%d wait, want 1", n)
	}
	l.release(holder)
	alive.Poll(l.now)
	if next.waits() || next.err != nil || !lost.waits() {
		t.Fatalf("the next waits %v, %v; the lost waits %v", next.waits(), next.err, lost.waits())
	}
	l.want(addrs, 1)
}

// testQueueDeadGrant: a grant that its owner does not claim, because it is dead, is given to the next.
func testQueueDeadGrant(t *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	dead, alive := o[0], o[1]
	p := limited(addrs, 1, wait(high))
	holder := l.take(alive, p)
	l.queue(dead, p)
	next := l.queue(alive, p)
	l.release(holder)
	alive.Poll(l.now)
	if !next.waits() {
		t.Fatal("one endpoint was granted twice")
	}
	l.want(addrs, 1)
	l.pass(TTL+2*time.Second, alive)
	alive.Poll(l.now)
	if next.waits() || next.err != nil {
		t.Fatalf("waits %v, %v", next.waits(), next.err)
	}
	l.want(addrs, 1)
	l.release(next)
	l.want(addrs, 0)
}

func testQueueHeartbeats(_ *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	p := limited(addrs, 1, wait(high))
	holder := l.take(o[0], p)
	r := l.queue(o[1], p)
	l.pass(4*TTL, o...)
	l.granted([]*asked{r})
	l.release(holder)
	l.granted([]*asked{r}, r)
}

func testQueueStats(t *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	a, b := limited(addrs, 1, wait(high)), limited(addrs, 1, wait(low))
	if s := o[0].Queue(l.now, "llm"); s.Waiting != 0 || len(s.ByClass) != 0 || s.Interval != 0 {
		t.Fatalf("an empty queue has %+v", s)
	}
	holder := l.take(o[0], a)
	waiting := []*asked{l.queue(o[0], a), l.queue(o[1], a), l.queue(o[1], b)}
	for _, s := range o {
		got := s.Queue(l.now, "llm")
		if got.Waiting != 3 || len(got.ByClass) != 2 || got.ByClass[high.ID] != 2 || got.ByClass[low.ID] != 1 {
			t.Fatalf("the queue has %+v", got)
		}
	}
	if s := o[0].Queue(l.now, "other"); s.Waiting != 0 {
		t.Fatalf("another scope has %+v", s)
	}
	for len(waiting) > 0 {
		l.release(holder)
		l.poll()
		for i, r := range waiting {
			if !r.waits() {
				holder, waiting = r, append(waiting[:i], waiting[i+1:]...)
				break
			}
		}
	}
	if s := o[1].Queue(l.now, "llm"); s.Waiting != 0 || s.ByClass[high.ID] != 0 || s.ByClass[low.ID] != 0 {
		t.Fatalf("all were granted, the queue has %+v", s)
	}
}

// paced lets requests of the class wait, n of which are left when it has granted one each second for a while.
func (l *line) paced(p *lb.Plan, n int) (left []*asked) {
	const before = 12
	s := l.join(1)[0]
	holder := l.take(s, p)
	for range before + n {
		left = append(left, l.queue(s, p))
	}
	for range before {
		l.pass(time.Second, s)
		s.Release(l.now, holder.id)
		s.Poll(l.now)
		holder, left = left[0], left[1:]
		if holder.waits() || holder.err != nil {
			l.t.Fatalf("request %d waits %v, %v", holder.id, holder.waits(), holder.err)
		}
	}
	return left
}

// testQueueHopeless: with a grant each second and 20 that wait, who can wait for 5 s need not begin to.
func testQueueHopeless(t *testing.T, l *line) {
	p := limited(Addrs(1), 1, wait(high))
	l.paced(p, 20)
	s := l.owners[0]
	if i := s.Queue(l.now, "llm").Interval; i < 500*time.Millisecond || i > 2*time.Second {
		t.Fatalf("the interval between grants is 1 s, not %v", i)
	}
	short := *p
	short.Wait.Max = 5 * time.Second
	r := l.refuse(s, &short, lb.ErrHopeless)
	if r.Expected < 10*time.Second || r.Expected > 40*time.Second {
		t.Fatalf("20 wait, and one is granted each second; expected is %v", r.Expected)
	}
	if n := s.Queue(l.now, "llm").Waiting; n != 20 {
		t.Fatalf("%d wait, want 20", n)
	}
	l.queue(s, p)
}

// testQueueHopelessClass: it counts who goes before the request, not who waits.
func testQueueHopelessClass(_ *testing.T, l *line) {
	w := wait(low)
	w.Strict = true
	l.paced(limited(Addrs(1), 1, w), 20)
	w.Class, w.Max = high, 5*time.Second
	l.queue(l.owners[0], limited(Addrs(1), 1, w))
}

// testQueueHopelessTenant: tenants take turns, however many requests of one of them wait.
func testQueueHopelessTenant(_ *testing.T, l *line) {
	w := wait(high)
	w.Tenant = 1
	l.paced(limited(Addrs(1), 1, w), 20)
	w.Max = 5 * time.Second
	l.refuse(l.owners[0], limited(Addrs(1), 1, w), lb.ErrHopeless)
	w.Tenant = 2
	l.queue(l.owners[0], limited(Addrs(1), 1, w))
}

// testQueueHopelessOpen: a request that waits for its prompt, while another endpoint is open to it, may have that.
func testQueueHopelessOpen(_ *testing.T, l *line) {
	addrs, w := Addrs(2), wait(high)
	l.paced(limited(addrs[:1], 1, w), 20)
	w.Max, w.Patience = 5*time.Second, time.Second
	s := l.owners[0]
	p := WithPrompt(limited(addrs, 1, w), 2, Blocks(1, 1))
	s.RecordPrompt(l.now, 1, p, addrs[0])
	l.queue(s, p)
}
