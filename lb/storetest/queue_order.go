package storetest

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/queuecheck"
	"github.com/warmgate/warmgate/lb"
)

// testQueueWeights: of what is served while both classes wait, each has its share in tokens, however many tokens the
// single requests have.
func testQueueWeights(_ *testing.T, l *line) {
	const waiting = 12
	grants := 3600
	if testing.Short() {
		grants = 1200
	}
	o, addrs := l.join(2), Addrs(4)
	rng := rand.New(rand.NewPCG(1, 2))
	next := func(class lb.Class) *asked {
		p := limited(addrs, 2, wait(class))
		p.Tokens = int64(100 + rng.IntN(900))
		if class == low {
			p.Tokens *= 3
		}
		return l.ask(o[rng.IntN(2)], p)
	}
	var all []*asked
	for range 8 + waiting {
		all = append(all, next(high), next(low))
	}
	for range grants {
		held := slices.IndexFunc(all, func(r *asked) bool { return !r.waits() })
		l.release(all[held])
		all[held] = all[len(all)-1]
		all = all[:len(all)-1]
		l.poll()
		for _, class := range []lb.Class{high, low} {
			n := 0
			for _, r := range all {
				if r.waits() && r.plan.Wait.Class == class {
					n++
				}
			}
			if n < waiting {
				all = append(all, next(class))
			}
		}
	}
	l.check(queuecheck.Rules{Share: 0.05, MinGrants: grants / 2, Open: true})
	served, total := map[uint64]float64{}, 0.0
	for _, e := range l.history {
		switch {
		case e.Kind == queuecheck.Entered && e.Request.Class == className(low):
			served[e.ID] = e.Request.Cost
		case e.Kind == queuecheck.Granted:
			total += served[e.ID]
		}
	}
	if total == 0 {
		l.t.Fatal("the lower class was served nothing")
	}
}

// testQueueIdleClass: a class that comes late has no claim to what another was served before.
func testQueueIdleClass(t *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	of := func(class lb.Class) *lb.Plan {
		p := limited(addrs, 1, wait(class))
		p.Tokens = 100
		return p
	}
	holder := l.take(o[0], of(low))
	var early, late []*asked
	for range 50 {
		early = append(early, l.queue(o[0], of(low)))
	}
	for _, r := range early[:40] {
		l.release(holder)
		l.granted([]*asked{r}, r)
		holder = r
	}
	late = append(late, early[40:]...)
	for range 40 {
		late = append(late, l.queue(o[1], of(high)))
	}
	got := 0
	for _, i := range l.drain(holder, late)[:27] {
		if i < 10 {
			got++
		}
	}
	if got < 2 || got > 4 {
		t.Fatalf("of 27 grants, %d were of the class with a ninth of the weights", got)
	}
}

func testQueueStrict(_ *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	of := func(class lb.Class) *lb.Plan {
		p := limited(addrs, 1, wait(class))
		p.Wait.Strict = true
		return p
	}
	holder := l.take(o[0], of(low))
	waiting := []*asked{
		l.queue(o[0], of(low)), l.queue(o[1], of(high)), l.queue(o[0], of(low)), l.queue(o[1], of(high)),
		l.queue(o[0], of(high)),
	}
	l.expectOrder(holder, waiting, 1, 3, 4, 0, 2)
}

// testQueueAging: with strict order, a lower class of which some have waited long has a tenth of what is granted, in
// turns of its tenants, and no more.
func testQueueAging(_ *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	of := func(class lb.Class, tenant uint64) *lb.Plan {
		p := limited(addrs, 1, wait(class))
		p.Tokens, p.Wait.Strict, p.Wait.Aging, p.Wait.Tenant = 900, true, 2*time.Second, tenant
		return p
	}
	holder := l.take(o[0], of(high, 1))
	waiting := []*asked{l.queue(o[0], of(low, 1)), l.queue(o[1], of(low, 1)), l.queue(o[1], of(low, 2))}
	l.tick(2100 * time.Millisecond)
	for range 20 {
		waiting = append(waiting, l.queue(o[0], of(high, 1)))
	}
	l.expectOrder(holder, waiting, 3, 0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 2, 13, 14, 15, 16, 17, 18, 19, 20, 21, 1, 22)
}

// testQueueTenants: a tenant with many requests does not hold up one with few.
func testQueueTenants(t *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	of := func(tenant uint64) *lb.Plan {
		p := limited(addrs, 1, wait(high))
		p.Wait.Tenant, p.Tokens = tenant, 100
		return p
	}
	holder := l.take(o[0], of(3))
	var waiting []*asked
	for range 12 {
		waiting = append(waiting, l.queue(o[0], of(1)))
	}
	for range 4 {
		waiting = append(waiting, l.queue(o[1], of(2)))
	}
	order := l.drain(holder, waiting)
	few := 0
	for n, i := range order[:8] {
		if i >= 12 {
			few++
		}
		if ahead := n + 1 - 2*few; ahead < -2 || ahead > 2 {
			t.Fatalf("granted in the order %v: of the first %d only %d were of the tenant with 4", order, n+1, few)
		}
	}
	l.check(queuecheck.Rules{Tenants: 200})
}
