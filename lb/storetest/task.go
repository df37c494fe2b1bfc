package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// work is a world with tasks.
type work struct {
	*world
	random uint64
}

// caller is an owner that is asked for tasks.
type caller interface {
	lb.Store
	lb.TaskStore
}

func (w *work) caller() caller { return w.NewOwner().(caller) }

// tasks of the suite live for taskTTL unless they are renewed.
const taskTTL = 10 * time.Second

// schedule schedules a task, and expects done to be called once before Schedule returns.
func (w *work) schedule(s caller, key uint64, p *lb.Plan) (task lb.Task, err error) {
	w.t.Helper()
	calls := 0
	w.random += 0x9e3779b97f4a7c15
	p.Random = w.random
	s.Schedule(w.now, key, taskTTL, p, func(t lb.Task, e error) { task, err = t, e; calls++ })
	if calls != 1 {
		w.t.Fatalf("done was called %d times", calls)
	}
	return task, err
}

// admit schedules a task and fails the test unless it is admitted.
func (w *work) admit(s caller, key uint64, p *lb.Plan) lb.Task {
	w.t.Helper()
	task, err := w.schedule(s, key, p)
	if err != nil {
		w.t.Fatalf("task with key %d: %v", key, err)
	}
	return task
}

// wait schedules a task and expects that it is refused, for so long.
func (w *work) wait(s caller, key uint64, p *lb.Plan, want time.Duration) {
	w.t.Helper()
	task, err := w.schedule(s, key, p)
	if !errors.Is(err, lb.ErrOverBudget) || task.Grant.Expected != want {
		w.t.Fatalf("task with key %d: %v, expected in %v; want %v in %v",
			key, err, task.Grant.Expected, lb.ErrOverBudget, want)
	}
}

// complete completes a task that has used so many tokens, and expects what becomes of it.
func (w *work) complete(s caller, id lb.TaskID, actual int64, want lb.TaskEnd) {
	w.t.Helper()
	w.completeWith(s, id, lb.TaskUse{Tokens: actual}, want)
}

// completeWith completes a task of which more is said.
func (w *work) completeWith(s caller, id lb.TaskID, use lb.TaskUse, want lb.TaskEnd) {
	w.t.Helper()
	calls := 0
	s.Complete(w.now, "llm", id, use, func(end lb.TaskEnd, err error) {
		if calls++; end != want || err != nil {
			w.t.Fatalf("completed: %v, %v; want %v", end, err, want)
		}
	})
	if calls != 1 {
		w.t.Fatalf("done was called %d times", calls)
	}
}

// renew renews a task and expects whether it lives.
func (w *work) renew(s caller, id lb.TaskID, want bool) {
	w.t.Helper()
	calls := 0
	s.Renew(w.now, "llm", id, taskTTL, func(found bool, err error) {
		if calls++; found != want || err != nil {
			w.t.Fatalf("renewed: %v, %v; want %v", found, err, want)
		}
	})
	if calls != 1 {
		w.t.Fatalf("done was called %d times", calls)
	}
}

// slots returns a plan over the addresses with so many slots each, and buckets of 60,000 tokens.
func slots(addrs []string, n, tokens int64) *lb.Plan {
	p := Budgeted(addrs, budget.Limits{Weight: 1, Tokens: 60_000}, tokens)
	for i := range p.Candidates {
		p.Candidates[i].Cap = n
	}
	return p
}

func testTaskComplete(t *testing.T, w *work) {
	s, addrs := w.caller(), Addrs(2)
	a, b := w.admit(s, 0, slots(addrs, 2, 100)), w.admit(s, 0, slots(addrs, 2, 100))
	if a.ID == b.ID || a.Grant.Index == b.Grant.Index || b.Grant.Load != (lb.Load{Requests: 1, Tokens: 100}) {
		t.Fatalf("%+v, %+v", a, b)
	}
	w.want(addrs, 1, 1)
	if l := w.Loads("llm", addrs)[0]; l.Tokens != 100 {
		t.Fatalf("%+v in flight", l)
	}
	w.complete(s, a.ID, -1, lb.TaskCompleted)
	w.complete(s, b.ID, -1, lb.TaskCompleted)
	w.want(addrs, 0, 0)
	w.pass(time.Second, s)
	w.complete(s, a.ID, -1, lb.TaskEnded)
	w.renew(s, a.ID, false)
	other := a.ID
	other[15]++
	w.complete(s, other, -1, lb.TaskUnknown)
	w.want(addrs, 0, 0)
	w.pass(taskTTL+time.Second, s)
	w.complete(s, a.ID, -1, lb.TaskUnknown)
}

func testTaskSettle(_ *testing.T, w *work) {
	s, addrs := w.caller(), Addrs(1)
	a := w.admit(s, 0, slots(addrs, 0, 10_000))
	w.complete(s, a.ID, 40_000, lb.TaskCompleted)
	w.complete(s, a.ID, 60_000, lb.TaskEnded)
	w.wait(s, 0, slots(addrs, 0, 30_000), 10*time.Second)
	b := w.admit(s, 0, slots(addrs, 0, 20_000))
	w.complete(s, b.ID, 0, lb.TaskCompleted)
	w.admit(s, 0, slots(addrs, 0, 20_000))
	w.wait(s, 0, slots(addrs, 0, 30_000), 30*time.Second)
}

func testTaskKey(t *testing.T, w *work) {
	a, b, addrs := w.caller(), w.caller(), Addrs(2)
	first := w.admit(a, 7, slots(addrs, 1, 60_000))
	again := w.admit(b, 7, slots(addrs, 1, 60_000))
	if first.ID != again.ID || first.Grant.Index != again.Grant.Index {
		t.Fatalf("the same key gave %+v and then %+v", first, again)
	}
	w.want(addrs, 1, 0)
	if other := w.admit(b, 8, slots(addrs, 1, 60_000)); other.ID == first.ID {
		t.Fatal("another key gave the same task")
	}
	if again := w.admit(a, 7, slots(addrs, 1, 60_000)); first.ID != again.ID {
		t.Fatal("a key gave another task although all is taken")
	}
	w.complete(b, first.ID, -1, lb.TaskCompleted)
	w.want(addrs, 0, 1)
}

// testTaskOtherCall: a key is that of one call, as long as its task lives.
func testTaskOtherCall(_ *testing.T, w *work) {
	s, addrs := w.caller(), Addrs(2)
	other := slots(addrs[1:], 1, 200)
	other.Budget.Call = 1
	first := w.admit(s, 7, slots(addrs, 1, 100))
	for range 2 {
		if task, err := w.schedule(w.caller(), 7, other); !errors.Is(err, lb.ErrOtherCall) {
			w.t.Fatalf("another call with the key: %+v, %v", task, err)
		}
		w.want(addrs, 1, 0)
	}
	w.pass(taskTTL-time.Second, s)
	if again := w.admit(s, 7, slots(addrs, 1, 100)); again.ID != first.ID {
		w.t.Fatalf("the same call: %+v, want %+v", again, first)
	}
	w.pass(taskTTL, s) // nothing renews it but its own call
	if second := w.admit(s, 7, other); second.ID == first.ID || !second.ID.IsOf(1) || second.ID.IsOf(0) {
		w.t.Fatalf("after the task has ended: %+v", second)
	}
	w.want(addrs, 0, 1)
}

// testTaskEndedKey: who uses a key for each piece of work, and not for each call, never works without a slot.
func testTaskEndedKey(t *testing.T, w *work) {
	s, addrs := w.caller(), Addrs(1)
	plan := func() *lb.Plan { return slots(addrs, 1, 10) }
	first := w.admit(s, 7, plan())
	w.complete(s, first.ID, -1, lb.TaskCompleted)
	second := w.admit(s, 7, plan())
	if second.ID == first.ID {
		t.Fatal("the key of a completed task gave that one")
	}
	w.want(addrs, 1)
	w.wait(s, 8, plan(), 250*time.Millisecond)
	w.complete(s, first.ID, -1, lb.TaskEnded)
	if again := w.admit(s, 7, plan()); again.ID != second.ID {
		t.Fatal("the key of a task that lives gave another one")
	}
	w.pass(taskTTL-time.Second, s)
	w.renew(s, second.ID, true)
	w.pass(2*time.Second, s) // the first one is forgotten, the key's task is not
	if again := w.admit(s, 7, plan()); again.ID != second.ID {
		t.Fatal("when another task of its key was forgotten the key gave a new one")
	}
	w.pass(taskTTL+time.Second, s)
	third := w.admit(s, 7, plan())
	if third.ID == second.ID {
		t.Fatal("the key of an abandoned task gave that one")
	}
	w.complete(s, third.ID, -1, lb.TaskCompleted)
	w.want(addrs, 0)
	w.admit(s, 8, plan())
}

func testTaskOtherKey(t *testing.T, w *work) {
	s, addrs := w.caller(), Addrs(2)
	first := w.admit(s, 7, slots(addrs[:1], 1, 60_000))
	second := w.admit(s, 7, slots(addrs[1:], 1, 60_000))
	if first.ID == second.ID {
		t.Fatal("the task is at an endpoint that is no candidate")
	}
	w.want(addrs, 0, 1)
	w.complete(s, first.ID, -1, lb.TaskAbandoned)
	w.admit(s, 0, slots(addrs[:1], 1, 60_000)) // slot and tokens were given back
}

func testTaskAbandoned(_ *testing.T, w *work) {
	s, addrs := w.caller(), Addrs(1)
	task := w.admit(s, 7, slots(addrs, 1, 60_000))
	w.pass(taskTTL-time.Second, s)
	w.want(addrs, 1)
	w.pass(2*time.Second, s)
	w.want(addrs, 0)
	w.complete(s, task.ID, -1, lb.TaskAbandoned)
	w.renew(s, task.ID, false)
	second := w.admit(s, 7, slots(addrs, 1, 60_000)) // all tokens are there again
	if second.ID == task.ID {
		w.t.Fatal("a key gave a task that was abandoned")
	}
	w.pass(taskTTL+time.Second, s)
	w.complete(s, task.ID, -1, lb.TaskUnknown)
}

// A task that is completed after it was abandoned has used tokens all the same: it is charged them, once.
func testTaskLate(_ *testing.T, w *work) {
	s, addrs := w.caller(), Addrs(1)
	task := w.admit(s, 0, slots(addrs, 1, 60_000))
	w.pass(taskTTL+time.Second, s)
	w.complete(s, task.ID, -1, lb.TaskAbandoned)
	for i := range time.Duration(2) {
		w.complete(s, task.ID, 30_000, lb.TaskAbandoned)
		w.wait(s, 0, slots(addrs, 1, 60_000), (30+5*i)*time.Second) // the second one behind the first
	}
	w.want(addrs, 0)
	second := w.admit(s, 0, slots(addrs, 1, 30_000))
	w.pass(taskTTL, s) // this call is the first to find that it was not renewed
	w.complete(s, second.ID, 0, lb.TaskAbandoned)
	w.wait(s, 0, slots(addrs, 1, 60_000), 20*time.Second)
	w.pass(taskTTL+time.Second, s)
	w.complete(s, task.ID, 30_000, lb.TaskUnknown)
}

// What a caller was told by a target closes that for all, however the task ended, unless that was told before.
func testTaskCloses(_ *testing.T, w *work) {
	s, addrs := w.caller(), Addrs(1)
	closing := func(id lb.TaskID, seconds int, end lb.TaskEnd) {
		w.completeWith(s, id, lb.TaskUse{Tokens: -1, Closed: time.Duration(seconds) * time.Second}, end)
	}
	first, second := w.admit(s, 0, slots(addrs, 2, 100)), w.admit(s, 0, slots(addrs, 2, 100))
	closing(first.ID, 5, lb.TaskCompleted)
	w.wait(w.caller(), 0, slots(addrs, 2, 100), 5*time.Second)
	closing(first.ID, 50, lb.TaskEnded)
	w.wait(s, 0, slots(addrs, 2, 100), 5100*time.Millisecond)
	w.pass(taskTTL+time.Second, s)
	w.complete(s, w.admit(s, 0, slots(addrs, 2, 100)).ID, 0, lb.TaskCompleted)
	closing(second.ID, 7, lb.TaskAbandoned)
	w.wait(s, 0, slots(addrs, 2, 100), 7*time.Second)
	closing(lb.TaskID{1}, 70, lb.TaskUnknown)
	w.wait(s, 0, slots(addrs, 2, 100), 7100*time.Millisecond)
}

func testTaskRenewed(_ *testing.T, w *work) {
	s, addrs := w.caller(), Addrs(1)
	task := w.admit(s, 0, slots(addrs, 1, 100))
	for range 5 {
		w.pass(taskTTL-time.Second, s)
		w.renew(s, task.ID, true)
	}
	w.want(addrs, 1)
	w.complete(s, task.ID, -1, lb.TaskCompleted)
	w.want(addrs, 0)
}

func testTaskDeadOwner(_ *testing.T, w *work) {
	dead, alive, addrs := w.caller(), w.caller(), Addrs(1)
	task := w.admit(dead, 0, slots(addrs, 3, 100))
	w.must(dead, 1, slots(addrs, 3, 100))
	w.must(alive, 1, slots(addrs, 3, 100))
	w.want(addrs, 3)
	w.pass(TTL+2*time.Second, alive)
	w.want(addrs, 2)
	w.renew(alive, task.ID, true)
	w.pass(TTL, alive)
	w.complete(alive, task.ID, -1, lb.TaskCompleted)
	w.want(addrs, 1)
}

func testTaskShared(_ *testing.T, w *work) {
	a, b, addrs := w.caller(), w.caller(), Addrs(1)
	w.must(a, 1, slots(addrs, 2, 20_000))
	task := w.admit(b, 0, slots(addrs, 2, 20_000))
	w.expects(a, 2, slots(addrs, 2, 10), 250*time.Millisecond)
	w.wait(b, 0, slots(addrs, 2, 10), 250*time.Millisecond)
	a.Release(w.now, 1)
	w.expects(b, 2, slots(addrs, 2, 30_000), 10*time.Second)
	w.complete(a, task.ID, -1, lb.TaskCompleted)
	w.wait(a, 0, slots(addrs, 2, 30_000), 10*time.Second)
	w.want(addrs, 0)
}

func testTaskRefused(t *testing.T, w *work) {
	s, addrs := w.caller(), Addrs(2)
	w.admit(s, 0, slots(addrs, 0, 60_000))
	w.admit(s, 0, slots(addrs, 0, 60_000))
	w.wait(s, 5, slots(addrs, 0, 2000), 2*time.Second)
	w.tick(time.Second)
	w.wait(s, 5, slots(addrs, 0, 2000), time.Second)
	task, err := w.schedule(s, 0, slots(addrs, 0, 3000))
	if !errors.Is(err, lb.ErrOverBudget) || task.ID != (lb.TaskID{}) && task.Grant.Left.Tokens != 1000 {
		t.Fatalf("%v, %+v", err, task)
	}
	w.tick(time.Second)
	w.admit(s, 5, slots(addrs, 0, 2000))
	w.want(addrs, 2, 1)
}

// aside returns a plan with an age bonus.
func aside(addrs []string, tokens int64) *lb.Plan {
	p := slots(addrs, 0, tokens)
	p.Budget.AgeBonus = 10_000
	return p
}

func testTaskAside(_ *testing.T, w *work) {
	s, addrs := w.caller(), Addrs(1)
	w.admit(s, 0, aside(addrs, 60_000))
	w.wait(s, 1, aside(addrs, 5000), 5*time.Second)
	w.tick(2 * time.Second)
	w.wait(s, 2, aside(addrs, 100), 3100*time.Millisecond) // behind the first one, which has waited for 2 s
	w.wait(s, 0, aside(addrs, 100), 3200*time.Millisecond) // behind both
	w.refused(s, 1, aside(addrs, 100))
	w.tick(3 * time.Second)
	w.wait(s, 0, aside(addrs, 100), 300*time.Millisecond) // still behind both: the 3.2 s, less 3, and 100 ms
	w.admit(s, 1, aside(addrs, 5000))
	w.wait(s, 0, aside(addrs, 100), 400*time.Millisecond)
	w.tick(100 * time.Millisecond)
	w.admit(s, 2, aside(addrs, 100))
	w.tick(100 * time.Millisecond)
	w.admit(s, 0, aside(addrs, 100))
}

// testTaskBehind: who is refused because of a cap is told to come after those that were refused before.
func testTaskBehind(_ *testing.T, w *work) {
	s, addrs := w.caller(), Addrs(1)
	p := aside(addrs, 10)
	p.Candidates[0].Cap = 1
	first := w.admit(s, 0, p)
	w.tick(400 * time.Millisecond)
	w.complete(s, first.ID, -1, lb.TaskCompleted)
	second := w.admit(s, 0, p)
	for i := range time.Duration(3) {
		w.wait(s, 1, p, 400*time.Millisecond)
		w.wait(s, 2, p, 800*time.Millisecond)
		w.wait(s, 3, p, 1200*time.Millisecond)
		w.wait(s, 0, p, (1600+400*i)*time.Millisecond) // nobody knows whether it is the same one
	}
	w.complete(s, second.ID, -1, lb.TaskCompleted)
	w.admit(s, 2, p)
	w.wait(s, 3, p, 800*time.Millisecond)
}

func testTaskAsideExpires(_ *testing.T, w *work) {
	s, addrs := w.caller(), Addrs(1)
	w.admit(s, 0, aside(addrs, 60_000))
	w.wait(s, 1, aside(addrs, 5000), 5*time.Second) // the wait that it got was 5.6 s at most
	w.tick(6500 * time.Millisecond)
	w.wait(s, 0, aside(addrs, 2000), 500*time.Millisecond)
	w.tick(100*time.Millisecond + time.Millisecond)
	w.admit(s, 0, aside(addrs, 2000))
}

func testTaskUnknown(_ *testing.T, w *work) {
	s := w.caller()
	w.complete(s, lb.TaskID{1}, 5, lb.TaskUnknown)
	w.renew(s, lb.TaskID{1}, false)
	w.must(s, 1, Even(Addrs(1)))
	w.complete(s, lb.TaskID{1}, 5, lb.TaskUnknown)
	w.renew(s, lb.TaskID{1}, false)
}
