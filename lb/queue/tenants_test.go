package queue_test

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/queue"
)

// Of tenants that have come and gone only some are remembered, however many there are: of these those that have got
// most.
func TestTenantsAreForgotten(t *testing.T) {
	r := newRoom(t, 1)
	r.add(batch, nil) // so that the queue is never empty
	for tenant := range uint64(3000) {
		r.add(batch, func(t *queue.Ticket) { t.Wait.Tenant, t.Tokens = tenant+1, int64(100+tenant*7919%1000) })
		r.free(0)
		if n := r.q.Flows(); n > 2*queue.MaxIdle+2 {
			t.Fatalf("%d tenants are remembered after %d", n, tenant+1)
		}
	}
	heavy := func(t *queue.Ticket) { t.Wait.Tenant, t.Tokens = 1<<31, 1e6 }
	r.add(batch, heavy)
	for r.q.Waiting() > 0 {
		r.free(0)
	}
	r.add(batch, nil)
	for tenant := range uint64(1000) {
		r.add(batch, func(t *queue.Ticket) { t.Wait.Tenant = 5000 + tenant })
		r.free(0)
	}
	first := r.add(batch, heavy)
	second := r.add(batch, func(t *queue.Ticket) { t.Wait.Tenant = 9999 })
	for range 5 {
		if got := r.free(0); got == first {
			t.Fatal("a tenant that has got much is served before others")
		} else if got == second {
			return
		}
	}
	t.Error("a new tenant waits")
}

// With more tenants than there is room for, some share their turn; every class has a turn of its own, and the queue can
// be packed.
func TestTooManyTenants(t *testing.T) {
	if testing.Short() {
		t.Skip("make e2e has it")
	}
	q := &queue.Queue{}
	n, _ := q.List(7, []queue.Entry{{Row: 0, Cap: 1}})
	id := lb.LeaseID(0)
	add := func(class lb.Class, tenant uint64) {
		id++
		w := &lb.Wait{Max: time.Minute, Since: start, Class: class, Tenant: tenant}
		q.Add(start, &queue.Ticket{Owner: 1, ID: id, Wait: w, Tokens: 100, List: n, Wants: queue.NoRow})
	}
	for tenant := range uint64(queue.MaxFlows + 10) {
		add(batch, tenant)
	}
	add(interactive, 1)
	add(interactive, 2)
	if n := q.Flows(); n != queue.MaxFlows+1 {
		t.Errorf("%d flows, want %d", n, queue.MaxFlows+1)
	}
	again, err := queue.Decode(q.Append(nil, start))
	if err != nil || again.Waiting() != int(id) || again.Stats().ByClass[interactive.ID] != 2 {
		t.Errorf("%v: %+v", err, again.Stats())
	}
}
