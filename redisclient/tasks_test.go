package redisclient_test

import (
	"errors"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// taskBench is a server with tasks, whose clock is the test's.
type taskBench struct {
	*clocked
	t     *testing.T
	store *redisclient.Store
	now   time.Duration
	plan  *lb.Plan
}

const benchTaskTTL = 30 * time.Second

func newTaskBench(t *testing.T, version string, slots int64) *taskBench {
	b := openClocked(t, redisserver.StartT(t, redisserver.Options{Version: version}), false, nil)(t).(*clocked)
	p := storetest.Budgeted(storetest.Addrs(2), budget.Limits{Weight: 1, Tokens: 60_000}, 10)
	for i := range p.Candidates {
		p.Candidates[i].Cap = slots
	}
	return &taskBench{clocked: b, t: t, store: b.NewOwner().(eager).Store, now: time.Hour, plan: p}
}

// pass lets seconds pass, with a heartbeat after each.
func (b *taskBench) pass(seconds int) {
	for range seconds {
		b.now += time.Second
		b.Pass(time.Second)
		if err := b.store.Heartbeat(b.now); err != nil || b.store.HeartbeatErr() != nil {
			b.t.Fatal(err, b.store.HeartbeatErr())
		}
	}
}

func (b *taskBench) schedule(key uint64) (task lb.Task, err error) {
	b.plan.Random++
	b.store.Schedule(b.now, key, benchTaskTTL, b.plan, func(t lb.Task, e error) { task, err = t, e })
	return task, err
}

// admit schedules n tasks.
func (b *taskBench) admit(n int) (ids []lb.TaskID) {
	b.t.Helper()
	for range n {
		task, err := b.schedule(0)
		if err != nil {
			b.t.Fatal(err)
		}
		ids = append(ids, task.ID)
	}
	return ids
}

func (b *taskBench) complete(id lb.TaskID) (end lb.TaskEnd) {
	b.t.Helper()
	b.store.Complete(b.now, "llm", id, lb.TaskUse{Tokens: -1}, func(e lb.TaskEnd, err error) {
		if end = e; err != nil {
			b.t.Error(err)
		}
	})
	return end
}

func (b *taskBench) inFlight() (n int64) {
	for _, l := range b.Loads("llm", storetest.Addrs(2)) {
		n += l.Requests
	}
	return n
}

// Whatever key is lost, the totals are those of the tasks that are left, after a few heartbeats.
func TestTasksSurviveLosses(t *testing.T) {
	keys := redisclient.KeysOf("llm")
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			for _, c := range []struct {
				lost string
				want int64
			}{
				{keys.Table, 150},
				{keys.Rows, 150},
				{keys.Owners, 150},
				{keys.Budget, 150},
				{keys.Tasks, 0},
				{keys.Expiry, 0},
			} {
				b := newTaskBench(t, version, 0)
				ids := b.admit(150)
				b.pass(1)
				b.conn.value("DEL", c.lost)
				b.pass(3)
				if got := b.inFlight(); got != c.want {
					t.Errorf("%s lost: %d in flight, want %d", c.lost, got, c.want)
				}
				want := lb.TaskCompleted
				if c.want == 0 {
					want = lb.TaskUnknown
				}
				for _, id := range ids[:70] {
					if end := b.complete(id); end != want {
						t.Fatalf("%s lost: completed as %v, want %v", c.lost, end, want)
					}
				}
				if got := b.inFlight(); got != max(0, c.want-70) {
					t.Errorf("%s lost: %d in flight after 70 have ended", c.lost, got)
				}
				b.admit(1)
				b.pass(int(benchTaskTTL/time.Second) + 1)
				if got := b.inFlight(); got != 0 {
					t.Errorf("%s lost: %d in flight after the TTL", c.lost, got)
				}
			}
		})
	}
}

// Abandoned tasks are back within their TTL and a second, however many there are, and a clock that is set back does not
// make them live for longer.
func TestManyTasksAreAbandoned(t *testing.T) {
	b := newTaskBench(t, redisserver.Default, 0)
	b.admit(3000)
	b.pass(int(benchTaskTTL/time.Second) - 1)
	if got := b.inFlight(); got != 3000 {
		t.Fatalf("%d in flight before the TTL", got)
	}
	b.pass(2)
	if got := b.inFlight(); got != 0 {
		t.Errorf("%d in flight a second after the TTL", got)
	}
	b.pass(int(benchTaskTTL/time.Second) + 1)
	if n := b.conn.value("HLEN", redisclient.KeysOf("llm").Tasks).Int; n > 3 {
		t.Errorf("%d fields are left", n)
	}
	b.admit(10)
	b.Pass(-time.Hour)
	b.pass(int(benchTaskTTL/time.Second) + 1)
	if got := b.inFlight(); got != 0 {
		t.Errorf("%d in flight after the clock was set back and the TTL", got)
	}
	for _, key := range b.conn.value("KEYS", redisclient.KeyPrefix+"*").Items {
		switch ttl := b.conn.value("PTTL", string(key.Str)).Int; {
		case ttl <= 0:
			t.Errorf("%s lives for ever", key.Str)
		case ttl < time.Hour.Milliseconds():
			t.Errorf("%s lives for %d ms: a pause of this machine would change what tests see", key.Str, ttl)
		}
	}
}

// A lost reply costs no slot for longer than until the call is repeated with its key, or else until the TTL.
func TestLostRepliesOfTasks(t *testing.T) {
	b := newTaskBench(t, redisserver.Default, 1)
	b.admit(0)
	b.conn = b.dial()
	lossy := dial(t, b.server)
	store := newStore(lossy, 77, 20*time.Millisecond)
	schedule := func(key uint64) (task lb.Task, err error) {
		store.Schedule(b.now, key, benchTaskTTL, b.plan, func(t lb.Task, e error) { task, err = t, e })
		store.Expire(b.now + time.Second)
		return task, err
	}
	if _, err := schedule(1); err != nil {
		t.Fatal(err)
	}
	lossy.fate = func([]byte) int { return replyLost }
	if _, err := schedule(2); !errors.Is(err, redisclient.ErrTimeout) {
		t.Fatalf("a lost reply: %v", err)
	}
	lossy.fate = nil
	if _, err := schedule(3); !errors.Is(err, lb.ErrOverBudget) {
		t.Fatalf("both slots are taken, and a third task: %v", err)
	}
	task, err := schedule(2)
	if err != nil || b.inFlight() != 2 {
		t.Fatalf("the call was repeated: %v, %d in flight", err, b.inFlight())
	}
	again, err := schedule(2)
	if err != nil || again.ID != task.ID || b.complete(task.ID) != lb.TaskCompleted || b.inFlight() != 1 {
		t.Fatalf("%+v and %+v, %v; %d in flight", task, again, err, b.inFlight())
	}
}

// Answers about tasks that no script returns are refused, and what is sent is as documented.
func TestFormatsOfTasks(t *testing.T) {
	plan := formatPlan()
	plan.Budget = lb.Budget{Tokens: 3, AgeBonus: 2, MaxHint: time.Millisecond, OwnCaps: true}
	plan.Budget.Limits = make([]budget.Limits, 3)
	plan.Random = 0x2122232425262728
	m := &manualTransport{}
	s := newManualStore(m, newMemory())
	var task lb.Task
	var refused error
	s.Schedule(formatTime, 0x1112131415161718, 0x01020304*time.Millisecond, plan, func(t lb.Task, err error) {
		task, refused = t, err
	})
	id := lb.NewTaskID(plan.Random, 1, 1, 0)
	m.wantArguments(t, 1, string(id[:]), formatID0, "16909060", "60000",
		"\x00\x00\x00\x00\x00\x00\x08\x40"+formatTwo+formatOne+formatOne, "1")
	m.answer(formatTime, 1, "$46\r\n0123456789abcdef"+"\x02\x00"+"\x34\x33\x32\x31"+"\x28\x27\x26\x25\x24\x23\x22\x21"+
		formatHalf+formatOne+"\r\n")
	want := lb.Task{ID: lb.TaskID([]byte("0123456789abcdef")), Grant: lb.Grant{
		Index: 2, Load: lb.Load{Requests: 0x31323334, Tokens: 0x2122232425262728},
		Left: budget.Left{Tokens: 0.5, Requests: 1},
	}}
	if task != want || refused != nil {
		t.Errorf("%+v, %v; want %+v", task, refused, want)
	}
	use := lb.TaskUse{Tokens: -7, Closed: 1500 * time.Millisecond, Most: time.Second}
	s.Complete(formatTime, "llm", want.ID, use, func(end lb.TaskEnd, err error) {
		if end != lb.TaskEnded || err != nil {
			t.Errorf("completed: %v, %v", end, err)
		}
	})
	m.wantArguments(t, 2, "0123456789abcdef", "-1", "1500", "1000", "1")
	m.answer(formatTime, 2, ":2\r\n")
	s.Renew(formatTime, "llm", want.ID, time.Second, func(found bool, err error) {
		if !found || err != nil {
			t.Errorf("renewed: %v, %v", found, err)
		}
	})
	m.wantArguments(t, 3, "0123456789abcdef", "1000", "1")
	m.answer(formatTime, 3, ":1\r\n")
	for _, reply := range []string{
		"$3\r\nabc\r\n", ":1\r\n", "*1\r\n:-1\r\n",
		"$46\r\n" + string(make([]byte, 16)) + "\x03" + string(make([]byte, 29)) + "\r\n", // no such candidate
	} {
		s.Schedule(formatTime, 0, time.Second, plan, func(_ lb.Task, err error) { refused = err })
		m.answer(formatTime, len(m.cmds)-1, reply)
		if redisclient.Cause(refused) != "garbage" {
			t.Errorf("%q: %v", reply, refused)
		}
	}
	for _, reply := range []string{":4\r\n", ":-1\r\n", "$1\r\n1\r\n"} {
		s.Complete(formatTime, "llm", want.ID, lb.TaskUse{Tokens: 1}, func(_ lb.TaskEnd, err error) { refused = err })
		m.answer(formatTime, len(m.cmds)-1, reply)
		if redisclient.Cause(refused) != "garbage" {
			t.Errorf("%q: %v", reply, refused)
		}
	}
}
