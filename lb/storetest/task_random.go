package storetest

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// taskHistory is a random history of tasks, and what should have become of them.
type taskHistory struct {
	*work
	rt      *rapid.T
	callers []caller
	addrs   []string
	states  []budget.State
	flight  []int64
	last    int
	tasks   []*knownTask
	keys    uint64
}

// knownTask is a task as it should be in the store.
type knownTask struct {
	id     lb.TaskID
	key    uint64
	at     int
	tokens int64
	until  time.Duration
	end    lb.TaskEnd // TaskUnknown while it lives

	charged bool // when it was completed after it was abandoned
}

// With this rate and weights that are powers of 2 all amounts are exact, in whichever order tasks expire.
const taskSlots, taskRate = 2, 7500

// testTaskRandom runs schedules with lost and repeated replies, completions that come twice or late, renewals, and
// owners that die, and compares each answer, and what is left of budgets, with a model.
func testTaskRandom(t *testing.T, w *work) {
	SetRapid(t, "checks", "60")
	SetRapid(t, "steps", "100")
	rapid.Check(t, func(rt *rapid.T) {
		h := &taskHistory{
			work: &work{world: w.another(t)}, rt: rt, addrs: Addrs(3), last: -1,
			states: make([]budget.State, 3), flight: make([]int64, 3),
		}
		for range 3 {
			h.callers = append(h.callers, h.caller())
		}
		rt.Repeat(map[string]func(*rapid.T){"step": func(*rapid.T) { h.step() }})
		h.seconds(int(taskTTL/time.Second) + 1)
		for i, l := range h.Loads("llm", h.addrs) {
			if l != (lb.Load{}) {
				rt.Fatalf("after the last task endpoint %d carries %+v", i, l)
			}
		}
	})
}

func (h *taskHistory) draw(label string, n int) int { return rapid.IntRange(0, n-1).Draw(h.rt, label) }

func (h *taskHistory) ms() float64 { return float64(h.now / time.Millisecond) }

// expire abandons and forgets what the store does at each step.
func (h *taskHistory) expire() {
	for _, k := range h.tasks {
		k.until = min(k.until, h.now+taskTTL) // the clock was set back
	}
	h.tasks = slices.DeleteFunc(h.tasks, func(k *knownTask) bool { return k.end != lb.TaskUnknown && h.now >= k.until })
	for _, k := range h.tasks {
		if k.end == lb.TaskUnknown && h.now >= k.until {
			h.states[k.at].Refund(h.ms(), float64(k.tokens))
			h.ended(k, lb.TaskAbandoned)
		}
	}
}

func (h *taskHistory) ended(k *knownTask, end lb.TaskEnd) {
	h.flight[k.at]--
	k.end, k.until = end, h.now+taskTTL
}

// forget forgets the budgets that are unused, as stores may do with a heartbeat. Only a clock that is set back then
// shows whether they have.
func (h *taskHistory) forget() {
	for i := range h.states {
		if h.flight[i] == 0 && h.states[i].IsUnused(h.ms()) {
			h.states[i] = budget.State{}
		}
	}
}

// seconds lets n seconds pass, with the heartbeats of all.
func (h *taskHistory) seconds(n int) {
	for range n {
		h.tick(time.Second)
		h.expire()
		h.forget()
		for _, c := range h.callers {
			if err := c.Heartbeat(h.now); err != nil {
				h.rt.Fatal(err)
			}
		}
	}
}

func (h *taskHistory) step() {
	i := h.draw("caller", len(h.callers))
	c := h.callers[i]
	switch h.draw("action", 14) {
	case 0:
		h.callers[i] = h.caller() // the other one is dead: its tasks are not
	case 1, 2:
		h.seconds(1 + h.draw("seconds", 4))
	case 3:
		h.tick(time.Duration(1+h.draw("ms", 999)) * time.Millisecond)
	case 4, 5:
		h.completeOne(c)
	case 6:
		h.renewOne(c)
	case 8:
		h.setClock()
	case 7: // the reply was lost, or comes twice
		if h.keys > 0 {
			h.scheduleOne(c, uint64(h.draw("key", int(h.keys)))+1)
		}
	default:
		h.keys++
		h.scheduleOne(c, h.keys)
	}
	for i, l := range h.Loads("llm", h.addrs) {
		if expected := h.flight[i]; l.Requests != expected && !h.overdue() {
			h.rt.Fatalf("endpoint %d has %d in flight, want %d", i, l.Requests, expected)
		}
	}
}

// overdue reports whether a task is to be abandoned by the next step.
func (h *taskHistory) overdue() bool {
	return slices.ContainsFunc(h.tasks, func(k *knownTask) bool { return h.now >= k.until })
}

// setClock sets the clock forward or back, unless the backend has one of its own.
func (h *taskHistory) setClock() {
	if _, ok := h.Backend.(Passer); !ok {
		h.seconds(1)
		h.now = max(time.Minute, h.now+time.Duration(h.draw("seconds", 61)-30)*time.Second)
		h.seconds(1)
	}
}

// put notes the states of the endpoints.
func (h *taskHistory) put(ts []budget.Target) {
	for i := range ts {
		h.states[i] = ts[i].State
	}
}

// one returns a task, of those that have ended, too; an unknown one if there is none.
func (h *taskHistory) one() *knownTask {
	if n := h.draw("task", len(h.tasks)+1); n < len(h.tasks) {
		return h.tasks[n]
	}
	return &knownTask{id: lb.TaskID{0xff}, end: lb.TaskEnd(0xff)}
}

func (h *taskHistory) completeOne(c caller) {
	h.expire()
	k, actual := h.one(), int64(h.draw("actual", 1500))-1
	want := map[lb.TaskEnd]lb.TaskEnd{
		lb.TaskUnknown: lb.TaskCompleted, lb.TaskCompleted: lb.TaskEnded, lb.TaskAbandoned: lb.TaskAbandoned,
	}[k.end]
	use := lb.TaskUse{Tokens: actual, Closed: time.Duration(max(0, h.draw("closed", 6)-3)) * time.Second}
	use.Most = time.Duration(h.draw("most", 3)) * time.Second
	h.completeWith(c, k.id, use, want)
	switch {
	case want == lb.TaskCompleted && actual >= 0:
		h.states[k.at].Settle(h.ms(), float64(actual-k.tokens))
	case want == lb.TaskAbandoned && k.charged:
		return
	case want == lb.TaskAbandoned && actual >= 0:
		h.states[k.at].Correct(h.ms(), float64(actual), 1)
		k.charged = true
	}
	if r := use.Restriction(); use.Closed > 0 && (want == lb.TaskCompleted || want == lb.TaskAbandoned) {
		h.states[k.at].Restrict(h.ms(), &r)
	}
	if want == lb.TaskCompleted {
		h.ended(k, lb.TaskCompleted)
	}
}

func (h *taskHistory) renewOne(c caller) {
	h.expire()
	k := h.one()
	h.renew(c, k.id, k.end == lb.TaskUnknown)
	if k.end == lb.TaskUnknown {
		k.until = h.now + taskTTL
	}
}

func (h *taskHistory) scheduleOne(c caller, key uint64) {
	h.expire()
	p := Budgeted(h.addrs, budget.Limits{}, int64(1+h.draw("tokens", 1500)))
	ts, last := make([]budget.Target, len(h.addrs)), -1
	for i := range ts {
		p.Candidates[i].Cap = taskSlots
		p.Budget.Limits[i] = budget.Limits{Weight: float64(int(1) << i), Tokens: taskRate}
		ts[i] = budget.Target{Limits: p.Budget.Limits[i], State: h.states[i], Full: h.flight[i] >= taskSlots}
		if i == h.last && !ts[i].IsUnused(h.ms()) {
			last = i
		}
		ts[i].Apply(h.ms(), ts[i].Limits)
	}
	task, err := h.schedule(c, key, p)
	for _, k := range h.tasks {
		if k.key == key && k.end == lb.TaskUnknown {
			if err != nil || task.ID != k.id || task.Grant.Index != k.at {
				h.rt.Fatalf("key %d gave %+v, %v; it has the task %+v", key, task, err, k)
			}
			k.until = h.now + taskTTL
			return
		}
	}
	at := budget.Choose(ts, last, float64(p.Budget.Tokens))
	if at == budget.None {
		first, ms := budget.Tell(ts, float64(p.Budget.Tokens)) // without an age bonus nobody is remembered
		wait := time.Duration(math.Ceil(ms)) * time.Millisecond
		want := lb.Grant{Index: first, Left: ts[first].Left(), Expected: wait}
		if !errors.Is(err, lb.ErrOverBudget) || task.Grant != want {
			h.rt.Fatalf("key %d: %+v, %v; nobody can take it, want %+v", key, task.Grant, err, want)
		}
		h.put(ts)
		return
	}
	budget.Charge(ts, at, h.ms(), float64(p.Budget.Tokens))
	if err != nil || task.Grant.Index != at || task.Grant.Left != ts[at].Left() {
		h.rt.Fatalf("key %d: %+v, %v; want %d with %+v left", key, task, err, at, ts[at].Left())
	}
	h.put(ts)
	h.last = at
	h.flight[at]++
	h.tasks = append(h.tasks, &knownTask{
		id: task.ID, key: key, at: at, tokens: p.Budget.Tokens, until: h.now + taskTTL,
	})
}
