package queue_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/queue"
)

// tenantLoad is a tenant of whom requests always wait.
type tenantLoad struct {
	class  lb.Class
	tenant uint64
	guess  int64   // that each request is estimated at
	mean   float64 // tokens of its answers, which have a long tail
	served float64
}

// Whatever is estimated, and however long requests are: of two that always wait, tenants of a class or classes by their
// weights, neither is served more than the other by more than what can be in flight.
func TestServedTokensAreShared(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		classes := []lb.Class{interactive, batch}[:rapid.IntRange(1, 2).Draw(rt, "classes")]
		places := rapid.IntRange(1, 8).Draw(rt, "places")
		tenants := make([]*tenantLoad, rapid.IntRange(2, 12).Draw(rt, "tenants"))
		for i := range tenants {
			tenants[i] = &tenantLoad{
				class: classes[i%len(classes)], tenant: uint64(i),
				guess: int64(rapid.IntRange(1, 3000).Draw(rt, "guess")),
				mean:  float64(rapid.IntRange(100, 3000).Draw(rt, "mean")),
			}
		}
		competeFor(rt, places, 0, tenants)
	})
}

// With strict order a class of those that have waited for long gets its tenth by what was served, not by what was
// estimated of it or of those that pass it.
func TestTheAgedAreServedTheirPart(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		places, tenants := rapid.IntRange(1, 8).Draw(rt, "places"), make([]*tenantLoad, 2)
		for i, class := range []lb.Class{interactive, batch} {
			tenants[i] = &tenantLoad{
				class: class, tenant: uint64(i), guess: int64(rapid.IntRange(100, 2000).Draw(rt, "guess")),
				mean: float64(rapid.IntRange(100, 2000).Draw(rt, "mean")),
			}
		}
		limit := competeFor(rt, places, time.Millisecond, tenants) + 16*8000
		if got, want := tenants[1].served, (tenants[0].served+tenants[1].served)/10; math.Abs(got-want) > limit {
			rt.Errorf("%+v were served %g tokens, want %g", *tenants[1], got, want)
		}
	})
}

// competeFor has the tenants compete, in strict order if there is an aging, and returns by how much one may be further
// ahead of another than its part.
func competeFor(rt *rapid.T, places int, aging time.Duration, tenants []*tenantLoad) float64 {
	const tail = 4 // no request is longer by more than this factor
	q, full, now := &queue.Queue{}, loads{0: {Requests: 1 << 20}}, start
	list, _ := q.List(1, []queue.Entry{{Row: 0, Cap: 1 << 20}})
	of, busy, id, most := map[lb.LeaseID]*tenantLoad{}, []lb.LeaseID{}, lb.LeaseID(0), 0.0
	add := func(l *tenantLoad) {
		id++
		of[id] = l
		w := &lb.Wait{
			Max: time.Hour, Since: now, Class: l.class, Tenant: l.tenant, Length: 1e6, Strict: aging > 0, Aging: aging,
		}
		q.Add(now, &queue.Ticket{Owner: 1, ID: id, Wait: w, Tokens: l.guess, List: list, Wants: queue.NoRow})
	}
	for _, l := range tenants {
		most = max(most, float64(l.guess), tail*l.mean)
		for range 2 {
			add(l)
		}
	}
	free := func() {
		full[0] = lb.Load{Requests: full[0].Requests - 1}
		for _, g := range q.Dispatch(now, full, nil) {
			q.Remove(1, g.ID)
			busy = append(busy, g.ID)
			add(of[g.ID])
		}
	}
	for range places {
		free()
	}
	limit := float64(2*places+2) * most
	for n := range 2000 {
		now += time.Millisecond
		i := rapid.IntRange(0, len(busy)-1).Draw(rt, "ends")
		l := of[busy[i]]
		busy = append(busy[:i], busy[i+1:]...)
		tokens := math.Ceil(l.mean * min(tail, -math.Log(rapid.Float64Range(0.001, 1).Draw(rt, "length"))))
		l.served += tokens
		q.Correct(now, l.class.ID, l.tenant, int64(tokens)-l.guess)
		if free(); n%50 == 0 && aging == 0 {
			checkShares(rt, limit, tenants)
		}
	}
	return limit
}

// checkShares fails the test if one is further ahead of another than the limit.
func checkShares(rt *rapid.T, limit float64, tenants []*tenantLoad) {
	byClass := map[lb.Class]float64{}
	for _, a := range tenants {
		byClass[a.class] += a.served / a.class.Weight
		for _, b := range tenants {
			if a.class == b.class && a.served > b.served+limit {
				rt.Fatalf("tenant %d was served %g tokens, %d %g", a.tenant, a.served, b.tenant, b.served)
			}
		}
	}
	for a, served := range byClass {
		for b, other := range byClass {
			if served > other+limit*(1/a.Weight+1/b.Weight) {
				rt.Fatalf("class %d was served %g tokens by its weight, %d %g", a.ID, served, b.ID, other)
			}
		}
	}
}
