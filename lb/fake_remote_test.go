package lb_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// fakeRemote is a remote store whose answers the test provides. It logs its calls.
type fakeRemote struct {
	down     bool
	owners   int
	log      []string
	pending  map[lb.LeaseID]func(lb.Grant, error)
	order    []lb.LeaseID // of pending
	released map[lb.LeaseID]bool
	plans    map[lb.LeaseID]lb.Plan
	waiting  map[lb.LeaseID]bool
}

func newFakeRemote() *fakeRemote {
	return &fakeRemote{
		pending: map[lb.LeaseID]func(lb.Grant, error){}, released: map[lb.LeaseID]bool{},
		plans: map[lb.LeaseID]lb.Plan{}, waiting: map[lb.LeaseID]bool{},
	}
}

func (f *fakeRemote) record(format string, args ...any) {
	f.log = append(f.log, fmt.Sprintf(format, args...))
}

func (f *fakeRemote) Reserve(_ time.Duration, id lb.LeaseID, p *lb.Plan, done func(lb.Grant, error)) {
	f.record("reserve %s", name(id))
	f.pending[id], f.plans[id] = done, *p
	f.order = append(f.order, id)
}

// answer answers a reservation. One that was released fails with ErrReleased, whatever happened to it, as RemoteStore
// requires.
func (f *fakeRemote) answer(id lb.LeaseID, g lb.Grant, err error) {
	done := f.pending[id]
	delete(f.pending, id)
	f.order = slices.DeleteFunc(f.order, func(i lb.LeaseID) bool { return i == id })
	if f.released[id] {
		g, err = lb.Grant{}, lb.ErrReleased
	}
	done(g, err)
}

func (f *fakeRemote) Amend(_ time.Duration, id lb.LeaseID, addr string, tokens int64) {
	f.record("amend %s %s %d", name(id), addr, tokens)
}

func (f *fakeRemote) NoteServed(id lb.LeaseID, tokens int64) {
	f.record("served %s %d", name(id), tokens)
}

func (f *fakeRemote) Release(_ time.Duration, id lb.LeaseID) {
	f.record("release %s", name(id))
	f.released[id] = true
}

func (f *fakeRemote) Adopt(_ time.Duration, id lb.LeaseID, scope, addr string, tokens int64) {
	f.record("adopt %s %s %s %d", name(id), scope, addr, tokens)
}

func (f *fakeRemote) Heartbeat(time.Duration) error                 { f.record("heartbeat"); return nil }
func (f *fakeRemote) Poll(time.Duration) time.Duration              { f.record("poll"); return 0 }
func (f *fakeRemote) Waits(id lb.LeaseID) bool                      { return f.waiting[id] }
func (f *fakeRemote) Queue(time.Duration, string) lb.QueueStats     { return lb.QueueStats{Waiting: 7} }
func (f *fakeRemote) Ready(time.Duration) bool                      { return !f.down }
func (f *fakeRemote) Expire(now time.Duration) (next time.Duration) { return now + 1 }
func (f *fakeRemote) Owners() int                                   { return f.owners }

func (f *fakeRemote) Settle(_ time.Duration, id lb.LeaseID, addr string, tokens, requests int64) {
	f.record("settle %s %s %d %d", name(id), addr, tokens, requests)
}

func (f *fakeRemote) Restrict(_ time.Duration, scope, addr string, _ budget.Restriction) {
	f.record("restrict %s %s", scope, addr)
}

func (f *fakeRemote) Schedule(_ time.Duration, key uint64, _ time.Duration, _ *lb.Plan, done func(lb.Task, error)) {
	f.record("schedule %d", key)
	done(lb.Task{ID: lb.TaskID{1}}, nil)
}

func (f *fakeRemote) Complete(_ time.Duration, _ string, id lb.TaskID, use lb.TaskUse, done func(lb.TaskEnd, error)) {
	f.record("complete %d %d", id[0], use.Tokens)
	done(lb.TaskCompleted, nil)
}

func (f *fakeRemote) Renew(_ time.Duration, _ string, id lb.TaskID, _ time.Duration, done func(bool, error)) {
	f.record("renew %d", id[0])
	done(true, nil)
}

func (f *fakeRemote) Overrides(_ time.Duration, scope string, _ *lb.Override, done func([]lb.Override, error)) {
	f.record("overrides %s", scope)
	done(nil, nil)
}

func (f *fakeRemote) Levels(_ time.Duration, _ string, addrs []string, done func([]lb.BudgetLevel, error)) {
	f.record("levels %d", len(addrs))
	done(make([]lb.BudgetLevel, len(addrs)), nil)
}
