package memstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/lb/memstore/memstoretest"
	"github.com/warmgate/warmgate/lb/storetest"
)

// Each scope has a table of its own until all slots are in use. Further scopes are refused, not counted wrongly.
func TestManyScopes(t *testing.T) {
	p, addrs := memstoretest.NewProcess(t), storetest.Addrs(1)
	a, b := p.NewStore(), p.NewStore()
	plan := storetest.Even(addrs)
	for i := range 256 {
		plan.Scope = fmt.Sprintf("outbound|80||svc-%d.default.svc.cluster.local", i)
		reserve(t, a, lb.LeaseID(i), plan)
		reserve(t, b, lb.LeaseID(i), plan)
		if l := p.Loads(plan.Scope, addrs); l[0].Requests != 2 {
			t.Fatalf("scope %d: %v", i, l)
		}
	}
	plan.Scope = "one too many"
	a.Reserve(time.Hour, 999, plan, func(_ lb.Grant, err error) {
		if !errors.Is(err, lb.ErrNoRoom) {
			t.Errorf("scope 257: %v", err)
		}
	})
}

// Keys of shared memory cannot be deleted: their number must depend on the owners that are alive at the same time, not
// on all that there ever were.
func TestKeysAreBounded(t *testing.T) {
	p, addrs := memstoretest.NewProcess(t), storetest.Addrs(4)
	keeper, now := p.NewStore(), time.Hour
	reserve(t, keeper, 1, storetest.Even(addrs))
	var after10 int
	for life := range 60 {
		s := p.NewStore()
		reserveAt(t, s, now, 1, storetest.Even(addrs))
		for range 7 {
			now += time.Second
			if err := keeper.Heartbeat(now); err != nil {
				t.Fatal(err)
			}
		}
		if life == 10 {
			after10 = len(p.Vals)
		}
	}
	if len(p.Vals) != after10 {
		t.Fatalf("%d keys after 60 owners, %d after 10", len(p.Vals), after10)
	}
}

func reserveAt(t testing.TB, s lb.Store, now time.Duration, id lb.LeaseID, p *lb.Plan) {
	t.Helper()
	s.Reserve(now, id, p, func(_ lb.Grant, err error) {
		if err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkReserveRelease(b *testing.B) {
	for _, n := range []int{8, 64, 512} {
		for name, plan := range map[string]*lb.Plan{
			"costs":   storetest.Even(storetest.Addrs(n)),
			"budgets": storetest.Budgeted(storetest.Addrs(n), budget.Limits{Weight: 1, Tokens: 1e9}, 100),
		} {
			plan.List = lb.NewList(plan.Candidates)
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				s := memstoretest.NewProcess(b).NewStore()
				var id lb.LeaseID
				b.ReportAllocs()
				for b.Loop() {
					id++
					plan.Random = uint64(id)
					s.Reserve(time.Hour, id, plan, func(lb.Grant, error) {})
					s.Release(time.Hour, id)
				}
			})
		}
	}
}

func BenchmarkScheduleComplete(b *testing.B) {
	for _, n := range []int{0, 100, 1000} { // other tasks
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := memstoretest.NewProcess(b).NewStore()
			plan := storetest.Budgeted(storetest.Addrs(10), budget.Limits{Weight: 1, Tokens: 1e9}, 100)
			key := uint64(0)
			schedule := func() (id lb.TaskID) {
				key++
				plan.Random = key
				s.Schedule(time.Hour, key, time.Minute, plan, func(t lb.Task, _ error) { id = t.ID })
				return id
			}
			for range n {
				schedule()
			}
			b.ReportAllocs()
			for b.Loop() {
				s.Complete(time.Hour, plan.Scope, schedule(), lb.TaskUse{Tokens: 100}, func(lb.TaskEnd, error) {})
			}
		})
	}
}

// FuzzSharedMemory uses the store with any values in shared memory: it may refuse to reserve, but does not panic.
func FuzzSharedMemory(f *testing.F) {
	p := memstoretest.NewProcess(f)
	s := p.NewStore()
	reserve(f, s, 1, storetest.Even(storetest.Addrs(3)))
	budgeted := storetest.Budgeted(storetest.Addrs(3), budget.Limits{Weight: 1, Tokens: 600}, 500)
	budgeted.Budget.AgeBonus = 10
	use := func(s *memstore.Store) {
		var task lb.TaskID
		for key := range uint64(5) {
			s.Schedule(time.Hour, key, time.Second, budgeted, func(t lb.Task, _ error) { task = t.ID })
		}
		s.Complete(time.Hour, "llm", task, lb.TaskUse{Tokens: 7}, func(lb.TaskEnd, error) {})
		s.Renew(time.Hour, "llm", task, time.Second, func(bool, error) {})
		waits := *budgeted
		waits.Wait = lb.Wait{Max: time.Second, Length: 9, Class: lb.Class{ID: 1, Weight: 1}}
		s.Reserve(time.Hour, 10, &waits, func(lb.Grant, error) {})
		s.Reserve(time.Hour, 11, budgeted, func(lb.Grant, error) {})
		s.Settle(time.Hour, 11, budgeted.Candidates[0].Addr, 70, 1)
		s.Restrict(time.Hour, "llm", budgeted.Candidates[1].Addr, budget.Restriction{RetryAfter: time.Second})
		s.Poll(time.Hour + 500*time.Millisecond)
		s.Release(time.Hour, 10)
		s.Release(time.Hour, 11)
	}
	use(s)
	for _, v := range p.Vals {
		if len(v) > 16 {
			f.Add(v, v, v)
		}
	}
	f.Fuzz(func(t *testing.T, table, directory, assignment []byte) {
		p := memstoretest.NewProcess(t)
		for i := range 256 {
			p.Vals[fmt.Sprintf("warmgate/4/table/%d", i)] = table
		}
		p.Vals["warmgate/4/roster"], p.Vals["warmgate/4/taking"] = directory, assignment
		s := p.NewStore()
		plan := storetest.Even(storetest.Addrs(3))
		for id := range lb.LeaseID(3) {
			s.Reserve(time.Hour, id, plan, func(lb.Grant, error) {})
		}
		_ = s.Heartbeat(time.Hour)
		use(s)
		_ = s.Heartbeat(time.Hour + 5*time.Second)
		s.Amend(time.Hour, 0, plan.Candidates[1].Addr, 7)
		for id := range lb.LeaseID(3) {
			s.Release(time.Hour, id)
		}
	})
}
