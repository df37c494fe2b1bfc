package redisclient_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/memstore/memstoretest"
	"github.com/warmgate/warmgate/lb/storetest"
)

// queuePair is the embedded store and the one in Redis, each with some owners, which get the same calls at the same
// times.
type queuePair struct {
	rt     *rapid.T
	rng    *rand.Rand // seeded for each step, so that a failing history is reduced to few steps
	redis  *clocked
	local  *memstoretest.Process
	stores [2][]lb.Store // by owner
	addrs  []string
	limits [][2]int64 // of the endpoints: caps in requests and in tokens
	fixed  bool       // neither caps nor leases change: else Redis may notice later when an endpoint is full
	strict bool
	full   bool // more come than are served
	many   bool // tenants
	spend  bool // the endpoints have budgets
	bonus  float64
	total  *pairTotal
	apart  bool // the stores expected other waits

	now    time.Duration
	next   lb.LeaseID
	ended  [2][]pairEnd // in the present step
	asked  map[lb.LeaseID]int
	active []lb.LeaseID        // that wait or hold a lease
	anew   map[lb.LeaseID]bool // that have waited before they came
}

// pairEnd is an answer to a request.
type pairEnd struct {
	id    lb.LeaseID
	owner int
	grant lb.Grant
	err   error
}

// pairTotal counts what happened in all histories.
type pairTotal struct {
	granted, waited, refused, warm int
	evicted                        int // of those refused
	paced, apart                   int // times that a store expected some wait, and that the other expected another one
	histories, apartIn             int // all, and those in which they did
}

// pace notes the time that each store expects, between two grants or until one. Redis has whole milliseconds, and
// notices a grant or two later that an open endpoint has nobody who may have it, so that a pace is of other grants.
func (d *queuePair) pace(local, redis time.Duration) {
	if local == 0 && redis == 0 {
		return
	}
	if d.total.paced++; (local - redis).Abs() <= 2*time.Millisecond+local/20 {
		return
	}
	if d.total.apart++; !d.apart {
		d.apart = true
		d.total.apartIn++
	}
}

// check requires that the stores expected the same nearly always. In one history of some hundred a grant is noticed so
// late that all that follows has another mean.
func (p *pairTotal) check(t *testing.T) {
	t.Helper()
	t.Logf("in all histories so far: %+v", *p)
	few := min(p.histories/2, 1+p.histories/20)
	if p.apart > 20+p.paced/20 && p.apartIn > few { // 20 for short runs
		t.Errorf("%d of %d times, in %d of %d histories, one store expected another wait than the other",
			p.apart, p.paced, p.apartIn, p.histories)
	}
}

func newQueuePair(rt *rapid.T, open func() storetest.Backend, t testing.TB, total *pairTotal) *queuePair {
	d := &queuePair{rt: rt, redis: open().(*clocked), total: total, now: time.Hour, asked: map[lb.LeaseID]int{}}
	d.anew = map[lb.LeaseID]bool{}
	total.histories++
	d.seed()
	d.fixed, d.strict, d.full = d.rng.IntN(2) == 0, d.rng.IntN(2) == 0, d.rng.IntN(3) == 0
	d.addrs = storetest.Addrs(1 + d.rng.IntN(4)) // more are not recorded to have one prompt
	for range d.addrs {
		d.limits = append(d.limits, d.limit())
	}
	d.local = memstoretest.NewProcess(t)
	for range 1 + d.rng.IntN(3) {
		d.stores[0] = append(d.stores[0], d.local.NewOwner())
		d.stores[1] = append(d.stores[1], d.redis.NewOwner())
	}
	return d
}

// limit draws the caps of an endpoint: one at least, so that it can be full.
func (d *queuePair) limit() [2]int64 {
	requests, tokens := int64(1+d.rng.IntN(3)), int64(100*(1+d.rng.IntN(16)))
	switch d.rng.IntN(4) {
	case 0:
		return [2]int64{0, tokens}
	case 1:
		return [2]int64{requests, tokens}
	}
	return [2]int64{requests, 0}
}

func (d *queuePair) seed() { d.rng = rand.New(rand.NewPCG(rapid.Uint64().Draw(d.rt, "step"), 3)) }

// both calls f for each store of an owner.
func (d *queuePair) both(owner int, f func(kind int, s lb.Store)) {
	for kind := range d.stores {
		f(kind, d.stores[kind][owner])
	}
}

var pairClasses = []lb.Class{
	{ID: 3, Rank: 0, Weight: 8, Reserved: 2}, {ID: 9, Rank: 1, Weight: 2}, {ID: 4, Rank: 2, Weight: 1, Reserved: 3},
}

// plan draws a plan.
func (d *queuePair) plan() *lb.Plan {
	from := d.rng.IntN(len(d.addrs))
	to := from + 1 + d.rng.IntN(len(d.addrs)-from)
	if d.rng.IntN(3) > 0 {
		from, to = 0, len(d.addrs)
	}
	p := storetest.Even(d.addrs[from:to])
	for i := range p.Candidates {
		p.Candidates[i].Cap, p.Candidates[i].TokenCap = d.limits[from+i][0], d.limits[from+i][1]
	}
	p.Random, p.Unit, p.Tokens = d.rng.Uint64(), lb.Unit(d.rng.IntN(2)), int64(100*(1+d.rng.IntN(10)))
	if d.spend {
		d.budget(p, from)
	} else if d.rng.IntN(2) == 0 {
		blocks := storetest.Blocks(uint64(1+d.rng.IntN(6)), uint64(1+d.rng.IntN(2)))
		p = storetest.WithPrompt(p, 0.5+3*d.rng.Float64(), blocks)
		p.Prefix.TTL = time.Hour // a minute would end some ticks late in Redis: see prefix.lua
		p.Prefix.Takes = time.Duration(d.rng.IntN(4)*d.rng.IntN(300)) * time.Millisecond
	}
	if d.rng.IntN(2) == 0 && !d.spend {
		for _, i := range d.rng.Perm(len(p.Candidates)) {
			p.Home.Order = append(p.Home.Order, uint16(i))
		}
		p.Home.LoadFactor = float64(d.rng.IntN(2)) * 1.25
	}
	if d.rng.IntN(20) == 0 {
		return p
	}
	p.Wait = lb.Wait{
		Max: time.Duration(27+20*d.rng.IntN(200)) * time.Millisecond, Class: pairClasses[d.rng.IntN(3)],
		Tenant: d.tenant(), Strict: d.strict, Skip: d.rng.IntN(5), Length: 12, Reserved: 5,
		Aging:        time.Duration(d.rng.IntN(3)) * 400 * time.Millisecond,
		Patience:     time.Duration(d.rng.IntN(10)) * 20 * time.Millisecond,
		TenantLength: d.rng.IntN(2) * 6,
	}
	if d.spend {
		p.Wait.Max += 4 * time.Second
	}
	p.Wait.Max += time.Minute // none is hopeless: Redis may notice at a poll only that an endpoint is open or full
	if d.many {               // then the queue is never empty
		p.Wait.Max, p.Wait.Length = p.Wait.Max+time.Minute, 40
	}
	if d.rng.IntN(16) == 0 { // nothing is healthy for it
		p = &lb.Plan{Scope: p.Scope, Random: p.Random, Tokens: p.Tokens, Wait: p.Wait}
	}
	return p
}

// budget gives the endpoints of the plan, of which the first one has the number, budgets.
func (d *queuePair) budget(p *lb.Plan, first int) {
	p.Budget.Tokens, p.Budget.AgeBonus = p.Tokens, d.bonus
	for i := range p.Candidates {
		l := budget.Limits{Weight: float64(1 + (first+i)%3), Tokens: 6000 * float64(1+(first+i)%2)}
		if first+i == 2 {
			l.Requests = 300
		}
		p.Budget.Limits = append(p.Budget.Limits, l)
	}
}

func (d *queuePair) tenant() uint64 {
	if d.many {
		return lb.TurnOf(d.rng.Uint64N(1000), d.rng.Uint64N(5))
	}
	if d.full { // one may hold most
		return lb.TurnOf(d.rng.Uint64N(3)*d.rng.Uint64N(2), d.rng.Uint64N(3))
	}
	return lb.TurnOf(d.rng.Uint64N(2), d.rng.Uint64N(3))
}

// reserve has a new request come.
func (d *queuePair) reserve(since time.Duration) {
	d.next++
	id, owner, p := d.next, d.rng.IntN(len(d.stores[0])), d.plan()
	d.asked[id] = owner
	d.active = append(d.active, id)
	p.Wait.Since = since
	d.anew[id] = since > 0
	d.rt.Logf("%v: reserve %d for %d: %v, %+v, %d tokens", d.now, id, owner, p.Candidates, p.Wait, p.Tokens)
	d.both(owner, func(kind int, s lb.Store) {
		s.Reserve(d.now, id, p, func(g lb.Grant, err error) {
			d.ended[kind] = append(d.ended[kind], pairEnd{id, owner, g, err})
		})
	})
}

// release ends one of the requests that came first.
func (d *queuePair) release() {
	i := d.rng.IntN(min(len(d.active), 6))
	id := d.active[i]
	d.active = slices.Delete(d.active, i, i+1)
	served := int64(d.rng.IntN(3000)) - 1000
	d.rt.Logf("%v: release %d, served %d", d.now, id, served)
	d.both(d.asked[id], func(_ int, s lb.Store) {
		if served >= 0 {
			s.NoteServed(id, served)
		}
		s.Release(d.now, id)
	})
}

// step makes one call to both stores, lets all owners poll, and compares what has become of all requests.
func (d *queuePair) step() {
	d.seed()
	d.ended = [2][]pairEnd{}
	switch n := d.rng.IntN(25); {
	case n < 12 || d.full && n < 18:
		d.reserve(0)
	case n == 12 && len(d.active) > 0:
		d.reserve(d.now - time.Duration(d.rng.IntN(20))*20*time.Millisecond)
	case n < 20 && len(d.active) > 0:
		d.release()
	case n < 22 && len(d.active) > 0 && !d.fixed:
		id, addr, tokens := d.active[d.rng.IntN(len(d.active))], "", int64(100*d.rng.IntN(10))
		if d.rng.IntN(2) == 0 {
			addr = d.addrs[d.rng.IntN(len(d.addrs))]
		}
		d.rt.Logf("%v: amend %d %s %d", d.now, id, addr, tokens)
		d.both(d.asked[id], func(_ int, s lb.Store) { s.Amend(d.now, id, addr, tokens) })
	case n == 22 && !d.fixed:
		d.limits[d.rng.IntN(len(d.limits))] = d.limit()
	default:
		by := time.Duration(1+d.rng.IntN(15)) * 20 * time.Millisecond
		if d.spend { // buckets refill slowly
			by *= 5
		}
		d.now += by
		d.redis.Pass(by)
		for owner := range d.stores[0] {
			d.both(owner, func(_ int, s lb.Store) { _ = s.Heartbeat(d.now) })
		}
	}
	if d.many && len(d.active) > 30 {
		d.release()
	}
	for range 2 {
		for owner := range d.stores[0] {
			d.both(owner, func(_ int, s lb.Store) { s.Poll(d.now) })
		}
	}
	d.compare()
}

// paces reports whether the stores notice the same pace, or nearly.
func (d *queuePair) paces() bool { return d.fixed && !d.full }

// compare expects that the same requests were answered in the same way.
func (d *queuePair) compare() {
	for kind := range d.ended {
		slices.SortFunc(d.ended[kind], func(a, b pairEnd) int { return cmp.Compare(a.id, b.id) })
		for i := range d.ended[kind] {
			e := &d.ended[kind][i].grant
			e.Left = budget.Left{} // Redis does not tell it for those that have waited
			if e.Queued = e.Waited > 0; d.anew[d.ended[kind][i].id] {
				e.Queued, e.Waited = false, 0
			}
			if e.Load = (lb.Load{}); d.ended[kind][i].err != nil { // the others may have changed it since
				*e = lb.Grant{Expected: e.Expected}
			}
		}
	}
	for i := range min(len(d.ended[0]), len(d.ended[1])) {
		a, b := &d.ended[0][i].grant.Expected, &d.ended[1][i].grant.Expected
		if d.paces() {
			d.pace(*a, *b)
		}
		*a, *b = 0, 0
	}
	if a, b := fmt.Sprint(d.ended[0]), fmt.Sprint(d.ended[1]); a != b {
		d.rt.Fatalf("request %d, at %v:\nin a gateway %s\nin Redis     %s", d.next, d.now, a, b)
	}
	if len(d.ended[0]) > 0 {
		d.rt.Logf("%v", d.ended[0])
	}
	for _, e := range d.ended[1] {
		switch {
		case e.err != nil:
			if d.total.refused++; errors.Is(e.err, lb.ErrEvicted) {
				d.total.evicted++
			}
			d.active = slices.DeleteFunc(d.active, func(id lb.LeaseID) bool { return id == e.id })
		case e.grant.Queued:
			d.total.waited++
		default:
			d.total.granted++
		}
		if e.grant.Cached > 0 {
			d.total.warm++
		}
	}
	if a, b := d.local.Loads("llm", d.addrs), d.redis.Loads("llm", d.addrs); !slices.Equal(a, b) {
		d.rt.Fatalf("request %d, at %v: the loads are %v in a gateway, %v in Redis", d.next, d.now, a, b)
	}
	a, b := d.stores[0][0].Queue(d.now, "llm"), d.stores[1][0].Queue(d.now, "llm")
	if d.paces() {
		d.pace(a.Interval, b.Interval)
	}
	if a.Waiting != b.Waiting || fmt.Sprint(a.ByClass) != fmt.Sprint(b.ByClass) {
		d.rt.Fatalf("at %v: %+v wait in a gateway, %+v in Redis", d.now, a, b)
	}
}

// Both stores grant the same endpoints to the same requests in the same order.
func TestQueuesAreTheSame(t *testing.T) {
	storetest.SetRapid(t, "steps", "250")
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			histories(t, version, 25)
			open := openClocked(t, redisserver.StartT(t, redisserver.Options{Version: version}), false, nil)
			var total pairTotal
			rapid.Check(t, func(rt *rapid.T) {
				d := newQueuePair(rt, func() storetest.Backend { return open(t) }, t, &total)
				rt.Repeat(map[string]func(*rapid.T){"step": func(*rapid.T) { d.step() }})
			})
			total.check(t)
		})
	}
}

// So they do with budgets, and charge the same.
func TestQueuesWithBudgetsAreTheSame(t *testing.T) {
	storetest.SetRapid(t, "steps", "250")
	var total pairTotal // on all versions: on one there may be too few histories to tell
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			histories(t, version, 25)
			open := openClocked(t, redisserver.StartT(t, redisserver.Options{Version: version}), false, nil)
			rapid.Check(t, func(rt *rapid.T) {
				d := newQueuePair(rt, func() storetest.Backend { return open(t) }, t, &total)
				d.spend, d.bonus = true, []float64{0, 300}[d.rng.IntN(2)]
				rt.Repeat(map[string]func(*rapid.T){"step": func(*rapid.T) { d.step() }})
			})
			total.check(t)
		})
	}
	// One has waited for five that have not; the standard deviation of this ratio over runs is a fifth of it.
	if testing.Short() { // with fewer histories it says nothing
		return
	}
	if total.waited < total.granted/20 || total.granted < total.waited/20 {
		t.Errorf("of those that were granted %d had waited, %d not: the plans test little", total.waited, total.granted)
	}
}

// Both stores remember and forget the same ones of many tenants.
func TestQueuesOfManyTenantsAreTheSame(t *testing.T) {
	storetest.SetRapid(t, "checks", "1")
	open := openClocked(t, redisserver.StartT(t, redisserver.Options{}), false, nil)
	var total pairTotal
	waits := 400
	if testing.Short() {
		waits = 200
	}
	rapid.Check(t, func(rt *rapid.T) {
		d := newQueuePair(rt, func() storetest.Backend { return open(t) }, t, &total)
		before := total.waited
		for d.many = true; total.waited < before+waits; {
			d.step()
		}
	})
	total.check(t)
}
