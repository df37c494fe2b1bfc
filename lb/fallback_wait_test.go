package lb_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
)

// waitingPlan returns a plan over one endpoint that takes one request.
func waitingPlan(addrs []string) *lb.Plan {
	p := storetest.Even(addrs)
	p.Candidates[0].Cap = 1
	p.Wait = lb.Wait{Max: 10 * time.Second, Length: 100, Class: lb.Class{ID: 1, Weight: 1}}
	return p
}

// pass lets time pass, with a poll.
func (l *fallback) pass(d time.Duration) {
	l.now += d
	l.Poll(l.now)
}

func (l *fallback) wantLog(want ...string) {
	l.t.Helper()
	if !slices.Equal(l.remote.log, want) {
		l.t.Fatalf("the remote store was called with\n%s, want\n%s", strings.Join(l.remote.log, "\n"),
			strings.Join(want, "\n"))
	}
	l.remote.log = nil
}

// wantOutcome expects a request that was answered once with the error, or that waits if calls is 0.
func (o *outcome) wantOutcome(t *testing.T, calls int, err error) {
	t.Helper()
	if o.calls != calls || !errors.Is(o.err, err) || (o.err == nil) != (err == nil) {
		t.Fatalf("answered %d times, with %v; want %d times, %v", o.calls, o.err, calls, err)
	}
}

// lose has the remote store give a request back that has waited there.
func (l *fallback) lose(id lb.LeaseID, waited time.Duration) {
	l.remote.answer(id, lb.Grant{Queued: true, Waited: waited}, errBroken)
}

// Requests that wait in the remote store when it fails wait on in the embedded store, in the order in which they came.
func TestFallbackOfWaitingRequests(t *testing.T) {
	l, addrs := newFallback(t), storetest.Addrs(1)
	p := waitingPlan(addrs)
	var waiting []*outcome
	for id := range lb.LeaseID(3) {
		waiting = append(waiting, l.reserve(id+1, p))
		l.pass(time.Second)
	}
	l.remote.down = true
	for _, id := range []lb.LeaseID{3, 1, 2} {
		l.lose(id, time.Duration(4-id)*time.Second)
	}
	waiting[2].wantOutcome(t, 1, nil) // the embedded store did not know of the others yet
	l.pass(time.Second)
	l.Release(l.now, 3)
	l.pass(time.Second)
	waiting[0].wantOutcome(t, 1, nil)
	if g := waiting[0].grant; !g.Queued || g.Waited != 4*time.Second {
		t.Errorf("the first one was granted %+v", g)
	}
	l.pass(6 * time.Second)
	waiting[1].wantOutcome(t, 1, lb.ErrWaitOver)
	l.wantLocal(addrs, 1)
	l.Release(l.now, 1)
	l.wantLocal(addrs, 0)
}

// When the remote store is back, those that still wait are reserved there again, first those that came first, with the
// time since when they wait.
func TestWaitingRequestsReturn(t *testing.T) {
	l, addrs := newFallback(t), storetest.Addrs(1)
	p := waitingPlan(addrs)
	l.remote.down = true
	holder := l.reserve(1, p)
	holder.wantOutcome(t, 1, nil)
	a := l.reserve(2, p)
	l.pass(time.Second)
	b := l.reserve(3, p)
	l.pass(time.Second)
	l.remote.down, l.remote.log = false, nil
	l.pass(time.Second)
	l.wantLog("poll", "reserve 2", "reserve 3")
	if since := l.remote.plans[2].Wait.Since; since != l.now-3*time.Second {
		t.Errorf("the first one came at %v, by its plan at %v", l.now-3*time.Second, since)
	}
	l.pass(time.Second)
	l.wantLog("poll")
	l.remote.answer(2, lb.Grant{Queued: true, Waited: 4 * time.Second}, nil)
	a.wantOutcome(t, 1, nil)
	l.wantLocal(addrs, 2)
	l.Release(l.now, 3)
	b.wantOutcome(t, 0, nil)
	l.wantLog("release 3")
}

// Waiting requests go back a few at a time, and more as long as the remote store answers. When it does not, they stay
// away for a while.
func TestPaceOfReturns(t *testing.T) {
	l, addrs := newFallback(t), storetest.Addrs(1)
	p := waitingPlan(addrs)
	p.Wait.Length = 1000
	l.remote.down = true
	for id := range lb.LeaseID(101) {
		l.reserve(id+1, p)
	}
	l.remote.down = false
	went := func(d time.Duration) int {
		before := len(l.remote.pending)
		l.pass(d)
		return len(l.remote.pending) - before
	}
	for i, want := range []int{4, 0, 8, 16} {
		d := 25 * time.Millisecond
		if want == 0 {
			d = time.Millisecond // polled again too early
		}
		if n := went(d); n != want {
			t.Errorf("poll %d: %d go back, want %d", i, n, want)
		}
	}
	l.remote.answer(l.remote.order[0], lb.Grant{}, errBroken)
	for i, want := range []int{0, 0, 0, 0, 0, 0, 0, 4, 8} {
		if n := went(25 * time.Millisecond); n != want {
			t.Errorf("poll %d after a failure: %d go back, want %d", i, n, want)
		}
	}
}

// A reservation that the remote store has not answered may still be carried out there, and a request that has waited
// there may have been granted something meanwhile: it has another id when it is reserved again.
func TestIDsOfWaitingRequests(t *testing.T) {
	l, addrs := newFallback(t), storetest.Addrs(1)
	p := waitingPlan(addrs)
	l.reserve(1, p)
	l.remote.answer(1, lb.Grant{}, nil) // takes the endpoint
	a, b := l.reserve(2, p), l.reserve(3, p)
	l.remote.down = true
	l.remote.answer(2, lb.Grant{}, errBroken)
	l.lose(3, time.Second)
	l.pass(time.Second)
	l.remote.down, l.remote.log = false, nil
	l.pass(time.Second)
	again, waited := lb.LeaseID(2|1<<56), lb.LeaseID(3|1<<56)
	if l.remote.pending[again] == nil || l.remote.pending[waited] == nil || len(l.remote.pending) != 2 {
		t.Fatalf("the remote store has been asked for %v", l.remote.order)
	}
	l.remote.answer(again, lb.Grant{}, nil)
	l.remote.answer(waited, lb.Grant{}, nil)
	a.wantOutcome(t, 1, nil)
	b.wantOutcome(t, 1, nil)
	l.remote.log = nil
	l.Amend(l.now, 2, "", 5)
	l.Release(l.now, 2)
	l.Release(l.now, 3)
	if !l.remote.released[again] || l.remote.released[2] || !l.remote.released[waited] {
		t.Errorf("released: %v", l.remote.released)
	}
	l.wantLocal(addrs, 1)
}

// A request that is released while it waits in the embedded store does not return.
func TestReleaseWhileWaitingLocally(t *testing.T) {
	l, addrs := newFallback(t), storetest.Addrs(1)
	p := waitingPlan(addrs)
	l.remote.down = true
	l.reserve(1, p)
	o := l.reserve(2, p)
	l.Release(l.now, 2)
	l.Release(l.now, 1)
	l.remote.down, l.remote.log = false, nil
	l.pass(time.Second)
	o.wantOutcome(t, 0, nil)
	l.wantLog("poll")
	l.wantLocal(addrs, 0)
}

// The refusals of the remote store hold: the embedded one is not asked.
func TestRefusalsOfWaitingRequests(t *testing.T) {
	for _, err := range []error{lb.ErrFull, lb.ErrQueueFull, lb.ErrHopeless, lb.ErrEvicted, lb.ErrWaitOver} {
		l := newFallback(t)
		o := l.reserve(1, waitingPlan(storetest.Addrs(1)))
		l.remote.answer(1, lb.Grant{Expected: time.Second}, err)
		o.wantOutcome(t, 1, err)
		if o.grant.Expected != time.Second || len(l.fallback) > 0 {
			t.Errorf("%v: %+v, fallback for %v", err, o.grant, l.fallback)
		}
	}
}

// A request is in the queue of either store.
func TestWaitsInEitherStore(t *testing.T) {
	l, p := newFallback(t), waitingPlan(storetest.Addrs(1))
	wants := func(id lb.LeaseID, want bool) {
		t.Helper()
		if l.Waits(id) != want {
			t.Errorf("request %d waits: %v", id, !want)
		}
	}
	l.remote.down = true
	l.reserve(1, p)
	l.reserve(2, p)
	wants(1, false)
	wants(2, true)
	l.remote.down = false
	l.pass(time.Second)
	wants(2, false) // the remote store has not answered
	l.remote.waiting[2] = true
	wants(2, true)
	l.remote.waiting[2] = false
	l.remote.answer(2, lb.Grant{Index: 0}, nil)
	wants(2, false)
}

// Nothing is kept of a request that is refused in the end, in either store.
func TestIDsOfRefusedRequests(t *testing.T) {
	for _, locally := range []bool{false, true} {
		l, addrs := newFallback(t), storetest.Addrs(1)
		p := waitingPlan(addrs)
		l.reserve(1, p)
		l.remote.answer(1, lb.Grant{}, nil)
		o := l.reserve(2, p)
		l.remote.down = true
		l.remote.answer(2, lb.Grant{}, errBroken)
		l.remote.down = false
		l.pass(time.Second)
		if n := lb.RemoteIDs(l.FallbackStore); n != 1 {
			t.Fatalf("%d requests have another id, want 1", n)
		}
		again := lb.LeaseID(2 | 1<<56)
		if locally {
			l.remote.down = true
			l.remote.answer(again, lb.Grant{}, errBroken)
			l.pass(10 * time.Second)
		} else {
			l.remote.answer(again, lb.Grant{}, lb.ErrWaitOver)
		}
		o.wantOutcome(t, 1, lb.ErrWaitOver)
		if n := lb.RemoteIDs(l.FallbackStore); n != 0 {
			t.Errorf("locally %v: %d ids are left", locally, n)
		}
	}
}
