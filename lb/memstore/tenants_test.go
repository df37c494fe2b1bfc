package memstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/memstore/memstoretest"
	"github.com/warmgate/warmgate/lb/storetest"
)

// Whoever makes up names gets no more than the room there is for tenants: shared memory does not grow, and those who
// are known are counted as before. When the names are no longer in use there is room for others.
func TestNamesThatAreMadeUp(t *testing.T) {
	p := memstoretest.NewProcess(t)
	s, now, id := p.NewStore(), time.Hour, lb.LeaseID(0)
	reserve := func(tenant int) (err error) {
		id++
		plan := storetest.TenantPlan(tenant, budget.Limits{Tokens: 6000}, 0, 4000)
		s.Reserve(now, id, plan, func(_ lb.Grant, e error) { err = e })
		s.Release(now, id)
		return err
	}
	if err := reserve(-1); err != nil {
		t.Fatal(err)
	}
	known := 0
	for i := range 10_000 {
		switch err := reserve(i); {
		case err == nil:
			known++
		case !errors.Is(err, lb.ErrNoRoom):
			t.Fatal(err)
		}
	}
	if known < 4000 || known > 4096 {
		t.Errorf("there is room for %d tenants", known)
	}
	if err := reserve(-1); !errors.Is(err, lb.ErrOverBudget) {
		t.Errorf("a tenant that was known is answered with %v", err)
	}
	largest, all := 0, 0
	for _, val := range p.Vals {
		largest, all = max(largest, len(val)), all+len(val)
	}
	if t.Logf("the largest table has %d bytes, all have %d", largest, all); largest > 56_000 || all > 520_000 {
		t.Errorf("%d bytes, %d in the largest", all, largest)
	}
	for range 63 {
		now += time.Second
		if err := s.Heartbeat(now); err != nil {
			t.Fatal(err)
		}
	}
	if err := reserve(20_000); err != nil {
		t.Errorf("a minute later: %v", err)
	}
}

func BenchmarkTenants(b *testing.B) {
	for _, n := range []int{10, 300, 1000, 4000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := memstoretest.NewProcess(b).NewStore()
			limits := lb.TenantBudget{Limits: budget.Limits{Tokens: 1e9, Requests: 1e9}, MaxConcurrent: 100}
			b.ReportAllocs()
			id := lb.LeaseID(0)
			serve := func() {
				id++
				plan := limits.Plan("tenants/llm", uint64(int(id)%n+1)*0x9e3779b97f4a7c15, 1000)
				s.Reserve(time.Hour, id, plan, func(lb.Grant, error) {})
				s.Release(time.Hour, id)
			}
			for range n {
				serve()
			}
			for b.Loop() {
				serve()
			}
		})
	}
}
