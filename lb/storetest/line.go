package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/warmgate/warmgate/e2e/queuecheck"
	"github.com/warmgate/warmgate/lb"
)

// line is a world whose requests may wait.
type line struct {
	*world
	owners  []lb.Store
	next    lb.LeaseID
	history queuecheck.History
	still   bool                // time does not pass
	faults  bool                // writes of the backend may fail
	warm    map[uint64][]string // endpoints that a prompt was granted, by the key of its first block
}

// asked is a request that was reserved.
type asked struct {
	owner lb.Store
	id    lb.LeaseID
	plan  *lb.Plan
	calls int // of done
	lb.Grant
	err  error
	addr string // that it was granted
	gone bool   // released
}

func (r *asked) waits() bool { return r.calls == 0 }

// join adds n owners.
func (l *line) join(n int) []lb.Store {
	for range n {
		l.owners = append(l.owners, l.NewOwner())
	}
	return l.owners[len(l.owners)-n:]
}

// moment lets a millisecond pass.
func (l *line) moment() {
	if !l.still {
		l.tick(time.Millisecond)
	}
}

// ask reserves, a millisecond after what was before: places in the queue are only so exact.
func (l *line) ask(s lb.Store, p *lb.Plan) *asked {
	l.moment()
	l.next++
	r := &asked{owner: s, id: l.next, plan: p}
	l.entered(r)
	s.Reserve(l.now, r.id, p, func(g lb.Grant, err error) {
		if r.calls++; r.calls > 1 {
			l.t.Errorf("done was called %d times for %d", r.calls, r.id)
		}
		if s.Waits(r.id) {
			l.t.Errorf("request %d waits, says its store, which has answered it", r.id)
		}
		if r.Grant, r.err = g, err; err == nil {
			r.addr = p.Candidates[g.Index].Addr
		}
		l.answered(r)
	})
	return r
}

// take reserves and expects a grant at once.
func (l *line) take(s lb.Store, p *lb.Plan) *asked {
	l.t.Helper()
	r := l.ask(s, p)
	if r.waits() || r.err != nil || r.Queued {
		l.t.Fatalf("request %d: waits %v, %v, queued %v; it should be granted at once",
			r.id, r.waits(), r.err, r.Queued)
	}
	return r
}

// queue reserves and expects that the request waits.
func (l *line) queue(s lb.Store, p *lb.Plan) *asked {
	l.t.Helper()
	r := l.ask(s, p)
	if !r.waits() || !s.Waits(r.id) {
		l.t.Fatalf("request %d was answered with %q, %v; it should wait", r.id, r.addr, r.err)
	}
	return r
}

// refuse reserves and expects the error at once.
func (l *line) refuse(s lb.Store, p *lb.Plan, want error) *asked {
	l.t.Helper()
	r := l.ask(s, p)
	if r.waits() || !errors.Is(r.err, want) {
		l.t.Fatalf("request %d: waits %v, %v; want %v at once", r.id, r.waits(), r.err, want)
	}
	return r
}

// release releases a millisecond later.
func (l *line) release(r *asked) {
	l.moment()
	l.ends(r)
	if r.owner.Release(l.now, r.id); r.owner.Waits(r.id) {
		l.t.Errorf("request %d waits, says its store, which was told that it does not", r.id)
	}
}

// poll polls all owners.
func (l *line) poll() {
	for _, o := range l.owners {
		o.Poll(l.now)
	}
}

// granted polls and expects that of the requests exactly these were granted, in any order, and returns the others.
func (l *line) granted(among []*asked, want ...*asked) (others []*asked) {
	l.t.Helper()
	l.poll()
	for _, r := range among {
		switch expected := slices.Contains(want, r); {
		case expected && (r.waits() || r.err != nil):
			l.t.Fatalf("request %d waits %v, %v; it should be granted", r.id, r.waits(), r.err)
		case expected && !r.Queued:
			l.t.Fatalf("request %d was granted as if it had not waited", r.id)
		case !expected && !r.waits():
			l.t.Fatalf("request %d was answered with %q, %v; it should wait", r.id, r.addr, r.err)
		case !expected:
			others = append(others, r)
		}
	}
	return others
}

// ended polls and expects that the request was refused with the error.
func (l *line) ended(r *asked, want error) {
	l.t.Helper()
	l.poll()
	if r.waits() || !errors.Is(r.err, want) {
		l.t.Fatalf("request %d: waits %v, %v; want %v", r.id, r.waits(), r.err, want)
	}
}

// drain releases the holder, and then each request that is granted, until all were, and returns their order.
func (l *line) drain(holder *asked, waiting []*asked) (order []int) {
	l.t.Helper()
	for len(order) < len(waiting) {
		l.release(holder)
		l.poll()
		before := len(order)
		for i, r := range waiting {
			if r.waits() || slices.Contains(order, i) {
				continue
			}
			if r.err != nil {
				l.t.Fatalf("request %d: %v", r.id, r.err)
			}
			order, holder = append(order, i), r
		}
		if len(order) != before+1 {
			l.t.Fatalf("one release led to %d grants", len(order)-before)
		}
	}
	l.release(holder)
	return order
}

// expectOrder drains and compares the order in which the requests were granted.
func (l *line) expectOrder(holder *asked, waiting []*asked, want ...int) {
	l.t.Helper()
	if got := l.drain(holder, waiting); !slices.Equal(got, want) {
		l.t.Fatalf("granted in the order %v, want %v", got, want)
	}
}

// silence lets time pass in which only the given owners poll, until an owner that does not is silent for sure: it has
// missed ten polls, and two more.
func (l *line) silence(poll ...lb.Store) {
	for range lb.Silence/lb.PollPeriod + 2 {
		l.tick(lb.PollPeriod)
		for _, s := range poll {
			s.Poll(l.now)
		}
	}
}
