package core

import (
	"errors"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/admission"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/views"
)

// fakeTasks is a store of tasks that answers as it is told, and keeps what it was asked.
type fakeTasks struct {
	grant   lb.Grant      // what Schedule answers
	err     error         // what every call answers beside that
	end     lb.TaskEnd    // what Complete answers
	found   bool          // what Renew answers
	late    bool          // answers wait in pending
	pending []func()      // answers that are still to come
	plan    lb.Plan       // of the last Schedule
	key     uint64        // likewise
	ttl     time.Duration // of the last Schedule or Renew
	id      lb.TaskID     // of the last Complete or Renew
	scope   string        // likewise
	use     lb.TaskUse    // of the last Complete
	calls   []string
	local   lb.TaskStore // which knows the levels
}

// fakeTask is the task that is granted.
var fakeTask = lb.TaskID{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 15: 0xff}

const fakeTaskText = "tsk_0123456789abcdef00000000000000ff"

// fakeTasks puts a store of tasks in place of those of all workers.
func (d *fakeDriver) fakeTasks() *fakeTasks {
	f := &fakeTasks{local: d.workers[0].vm.Stores.Local}
	for _, w := range d.workers {
		w.vm.API = admission.New(w.vm.Env, fakeCore{w.vm, f}, w.vm.WakeAt, views.BudgetScope)
	}
	return f
}

// fakeCore is a VM whose tasks are in that store.
type fakeCore struct {
	admission.Core
	store *fakeTasks
}

func (c fakeCore) Tasks(*config.Config) (lb.TaskStore, bool) { return c.store, false }

func (f *fakeTasks) answer(call string, done func()) {
	f.calls = append(f.calls, call)
	if f.late {
		f.pending = append(f.pending, done)
		return
	}
	done()
}

// flush gives the answers that are still to come.
func (f *fakeTasks) flush() {
	for _, done := range f.pending {
		done()
	}
	f.pending = nil
}

func (f *fakeTasks) Schedule(_ time.Duration, key uint64, ttl time.Duration, p *lb.Plan, done func(lb.Task, error)) {
	f.plan, f.key, f.ttl = *p, key, ttl
	f.answer("schedule", func() { done(lb.Task{ID: fakeTask, Grant: f.grant}, f.err) })
}

func (f *fakeTasks) Complete(
	_ time.Duration, scope string, id lb.TaskID, use lb.TaskUse, done func(lb.TaskEnd, error),
) {
	f.scope, f.id, f.use = scope, id, use
	f.answer("complete", func() { done(f.end, f.err) })
}

func (f *fakeTasks) Renew(
	_ time.Duration, scope string, id lb.TaskID, ttl time.Duration, done func(bool, error),
) {
	f.scope, f.id, f.ttl = scope, id, ttl
	f.answer("renew", func() { done(f.found, f.err) })
}

func (f *fakeTasks) Overrides(now time.Duration, scope string, set *lb.Override, done func([]lb.Override, error)) {
	if f.err != nil {
		done(nil, f.err)
		return
	}
	f.local.Overrides(now, scope, set, done)
}

func (f *fakeTasks) Levels(now time.Duration, scope string, addrs []string, done func([]lb.BudgetLevel, error)) {
	if f.err != nil && !errors.Is(f.err, lb.ErrOverBudget) {
		done(nil, f.err)
		return
	}
	f.local.Levels(now, scope, addrs, done)
}
