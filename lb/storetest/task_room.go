package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// testTaskMany: tasks that have ended are remembered up to some number, and what they counted is gone.
func testTaskMany(_ *testing.T, w *work) {
	s, addrs := w.caller(), Addrs(3)
	p := Budgeted(addrs, budget.Limits{Weight: 1}, 10)
	var last lb.Task
	for i := range uint64(2000) {
		last = w.admit(s, i+1, p)
		w.complete(s, last.ID, 20, lb.TaskCompleted)
	}
	w.complete(s, last.ID, -1, lb.TaskEnded)
	for i := range uint64(100) {
		w.admit(s, 5000+i, p)
	}
	w.pass(taskTTL+time.Second, s)
	w.want(addrs, 0, 0, 0)
}

// testTaskRoom: however many have ended, a table has room for 4,096 tasks that live, and what is forgotten for that is
// what ended first.
func testTaskRoom(_ *testing.T, w *work) {
	s, addrs := w.caller(), Addrs(3)
	p := Budgeted(addrs, budget.Limits{Weight: 1}, 10)
	var ended []lb.TaskID
	end := func(n int) {
		for range n {
			ended = append(ended, w.admit(s, 0, p).ID)
			w.complete(s, ended[len(ended)-1], -1, lb.TaskCompleted)
		}
	}
	end(1024)
	live := make([]lb.TaskID, 0, 4096)
	for len(live) < 4090 {
		live = append(live, w.admit(s, 0, p).ID)
	}
	w.complete(s, ended[len(ended)-1], -1, lb.TaskEnded)
	end(10)
	w.complete(s, ended[len(ended)-1], -1, lb.TaskEnded)
	for len(live) < 4096 {
		live = append(live, w.admit(s, 0, p).ID)
	}
	for _, id := range live {
		w.renew(s, id, true)
	}
	w.complete(s, live[0], -1, lb.TaskCompleted)
	w.admit(s, 0, p)
	w.pass(taskTTL+time.Second, s)
	w.want(addrs, 0, 0, 0)
}

// testTaskPassesOn: a task is abandoned by a call that is refused itself, and a request waits for its slot.
func testTaskPassesOn(t *testing.T, w *work) {
	s, addrs := w.caller(), Addrs(1)
	w.admit(s, 0, slots(addrs, 2, 10))
	w.must(s, 1, slots(addrs, 2, 59_000))
	p := slots(addrs, 2, 10)
	p.Wait = lb.Wait{Max: time.Minute, Length: 10, Class: lb.Class{ID: 1, Weight: 1}}
	granted := false
	s.Reserve(w.now, 2, p, func(_ lb.Grant, err error) {
		if granted = err == nil; !granted {
			t.Fatalf("a request that waits: %v", err)
		}
	})
	if !s.Waits(2) || granted {
		t.Fatal("a request does not wait although all slots are taken")
	}
	w.tick(taskTTL + time.Millisecond) // without a heartbeat, which would give the slot back
	if _, err := w.schedule(s, 0, slots(addrs, 2, 50_000)); !errors.Is(err, lb.ErrOverBudget) {
		t.Fatalf("a task for which there are no tokens: %v", err)
	}
	if !granted {
		t.Fatal("what a refused call has given back was not passed on")
	}
	w.want(addrs, 2)
}
