package redisclient_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// taskPair is the embedded store and the one in Redis, which get the same calls about tasks at the same times.
type taskPair struct {
	rt     *rapid.T
	rng    *rand.Rand
	conn   *syncTransport
	stores [2]lb.TaskStore
	addrs  []string
	now    time.Duration
	live   [][2]lb.TaskID // by both stores
	told   map[uint64]time.Duration
	yields int // how often the caller with a share was told a longer time for a key than before
}

func newTaskPair(rt *rapid.T, server *redisserver.Server) *taskPair {
	w, kv := dial(rt, server), newMemory()
	w.value("FLUSHALL")
	if err := memstore.Prepare(kv); err != nil {
		rt.Fatal(err)
	}
	d := &taskPair{rt: rt, conn: w, addrs: storetest.Addrs(2), now: time.Hour, told: map[uint64]time.Duration{}}
	d.stores = [2]lb.TaskStore{
		memstore.New(kv, 1, time.Hour),
		redisclient.New(w, redisclient.Options{Owner: 1, TTL: time.Hour, Timeout: time.Hour, KV: newMemory()}),
	}
	d.pass(0)
	return d
}

func (d *taskPair) pass(by time.Duration) {
	d.now += by
	d.conn.setClock(1000*time.Hour+d.now, by)
}

// step schedules some tasks, by up to 140 keys or none, of a caller with a share and one without it; or completes some;
// or lets time pass.
func (d *taskPair) step() {
	d.rng = rand.New(rand.NewPCG(rapid.Uint64().Draw(d.rt, "step"), 1))
	switch d.rng.IntN(6) {
	case 0:
		d.pass(time.Duration(1+d.rng.IntN(700)) * time.Millisecond)
	case 1:
		for n := d.rng.IntN(3); n > 0 && len(d.live) > 0; n-- {
			d.complete(d.rng.IntN(len(d.live)))
		}
	default:
		for range 1 + d.rng.IntN(90) {
			d.schedule(uint64(d.rng.IntN(140)))
		}
	}
}

func (d *taskPair) schedule(key uint64) {
	from, to := []int{0, 0, 1}[key%3], []int{1, 2, 2}[key%3] // the first has few slots, the other one many
	p := storetest.Budgeted(d.addrs[from:to], budget.Limits{Weight: 1, Tokens: 60_000}, int64(1+key*key))
	p.Budget.AgeBonus, p.Budget.MaxHint, p.Random = 2000, 5*time.Second, d.rng.Uint64()
	p.Budget.OwnCaps = key%2 == 1
	for i := range p.Candidates {
		if p.Candidates[i].Cap = []int64{6, 60}[from+i]; p.Budget.OwnCaps {
			p.Candidates[i].Cap /= 3
		}
	}
	var tasks [2]lb.Task
	var errs [2]error
	for i, s := range d.stores {
		s.Schedule(d.now, key, time.Hour, p, func(t lb.Task, err error) { tasks[i], errs[i] = t, err })
	}
	if tasks[0].Grant != tasks[1].Grant || (errs[0] == nil) != (errs[1] == nil) {
		d.rt.Fatalf("key %d: %+v, %v in a gateway, %+v, %v in Redis",
			key, tasks[0].Grant, errs[0], tasks[1].Grant, errs[1])
	}
	if errs[0] != nil && !errors.Is(errs[0], lb.ErrOverBudget) {
		d.rt.Fatal(errs[0])
	}
	if errs[0] == nil {
		d.live = append(d.live, [2]lb.TaskID{tasks[0].ID, tasks[1].ID})
	} else if before, wait := d.told[key], tasks[0].Grant.Expected; p.Budget.OwnCaps {
		if before > 0 && wait > before {
			d.yields++
		}
		d.told[key] = wait
	}
}

func (d *taskPair) complete(i int) {
	use := lb.TaskUse{Tokens: int64(d.rng.IntN(1000)) - 1}
	var ends [2]lb.TaskEnd
	for k, s := range d.stores {
		s.Complete(d.now, "llm", d.live[i][k], use, func(end lb.TaskEnd, err error) {
			if ends[k] = end; err != nil {
				d.rt.Fatal(err)
			}
		})
	}
	if ends[0] != ends[1] {
		d.rt.Fatalf("completed: %v in a gateway, %v in Redis", ends[0], ends[1])
	}
	d.live = append(d.live[:i], d.live[i+1:]...)
}

// Both stores tell callers the same times for tasks, also beyond those that they remember, and place the same tasks.
func TestStoresTellTheSame(t *testing.T) {
	storetest.SetRapid(t, "checks", "20")
	storetest.SetRapid(t, "steps", "60")
	t.Cleanup(redisclient.SetClock())
	server := redisserver.StartT(t, redisserver.Options{})
	yields := 0
	rapid.Check(t, func(rt *rapid.T) {
		d := newTaskPair(rt, server)
		rt.Repeat(map[string]func(*rapid.T){"step": func(*rapid.T) { d.step() }})
		yields += d.yields
	})
	if yields < 10 {
		t.Errorf("%d times a longer one was told: that tests little", yields)
	}
}
