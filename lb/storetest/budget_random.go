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

// budgets is a random history of a scope with budgets, and what each endpoint should have left.
type budgets struct {
	*history
	limits  []budget.Limits // of each address
	caps    []int64
	states  []budget.State
	flight  []int64 // in flight
	crashes bool    // owners may
	last    int     // address that was served last, -1 for none
	scope   string
}

// testBudgetRandom compares a store step by step with package budget: which endpoint is chosen, what is left there, and
// when a refused request is expected to be placed. Owners crash, limits change, and the clock is set.
func testBudgetRandom(t *testing.T, w *world) { testBudgetsRandom(t, w, "llm") }

func testBudgetsRandom(t *testing.T, w *world, scope string) {
	SetRapid(t, "checks", "60")
	SetRapid(t, "steps", "100")
	rapid.Check(t, func(rt *rapid.T) {
		h := &history{world: w.another(t), rt: rt, addrs: Addrs(5)}
		b := &budgets{history: h, last: -1, scope: scope}
		_, b.crashes = h.Backend.(Passer) // whose clock cannot be set
		b.crashes = b.crashes || rapid.Bool().Draw(rt, "crashes")
		for range h.addrs {
			b.limits, b.caps = append(b.limits, b.drawLimits()), append(b.caps, int64(h.draw("cap", 4)))
		}
		b.states, b.flight = make([]budget.State, len(h.addrs)), make([]int64, len(h.addrs))
		for range 3 {
			h.join()
		}
		rt.Repeat(map[string]func(*rapid.T){"step": func(*rapid.T) { b.step() }})
		for _, o := range h.owners {
			for len(o.held) > 0 {
				b.releaseFirst(o)
			}
		}
		for i, l := range h.Loads(scope, h.addrs) {
			if l.Requests != b.flight[i] || b.flight[i] < 0 {
				rt.Fatalf("after the last release endpoint %d has %d in flight, want %d", i, l.Requests, b.flight[i])
			}
		}
	})
}

func (b *budgets) drawLimits() budget.Limits {
	return budget.Limits{
		Weight:   float64(1 + b.draw("weight", 9)),
		Tokens:   float64(3000 * b.draw("tokens a minute", 4)),
		Requests: float64(10 * b.draw("requests a minute", 3)),
	}
}

func (b *budgets) step() {
	i := b.draw("owner", len(b.owners))
	o := b.owners[i]
	at := b.draw("endpoint", len(b.addrs))
	action := b.draw("action", 25)
	if (action == 2 || action == 3) && b.states[at].IsUnused(b.ms()) {
		return // the store may have forgotten it or not
	}
	switch action {
	default:
		b.reserve(o)
	case 0:
		if b.crashes {
			b.crash(i)
		}
	case 1, 12, 13, 14, 15:
		b.releaseFirst(o)
	case 4, 5:
		b.tick(time.Duration(1+b.draw("ms", 5000)) * time.Millisecond)
	case 2:
		b.settle(o, at)
	case 3:
		b.restrict(o, at)
	case 6:
		b.limits[at], b.caps[at] = b.drawLimits(), int64(b.draw("cap", 4))
	case 7:
		b.setClock()
	case 8, 9:
		if !lb.IsOfTenants(b.scope) { // nobody asks for those
			b.look(o.Store.(lb.TaskStore))
		}
	}
}

// settle corrects what an endpoint was charged for a lease, which may be another one's, or be charged nowhere.
func (b *budgets) settle(o *owner, at int) {
	id := lb.LeaseID(1 + b.draw("lease", int(b.next)+1))
	tokens, requests := int64(b.draw("more tokens", 2000))-1000, int64(b.draw("more requests", 3))-1
	l, held := o.held[id]
	if held && lb.IsOfTenants(b.scope) {
		at = slices.Index(b.addrs, l.addr) // no request moves to another tenant
	}
	o.Settle(b.now, id, b.addrs[at], tokens, requests)
	if held && (tokens != 0 || requests != 0) {
		b.states[at].Correct(b.ms(), float64(tokens), float64(requests))
	}
	b.written()
}

// look compares what a store tells of all endpoints.
func (b *budgets) look(s lb.TaskStore) {
	s.Levels(b.now, "llm", b.addrs, func(levels []lb.BudgetLevel, err error) {
		if err != nil {
			b.rt.Fatal(err)
		}
		for i, l := range levels {
			want := relative(b.states[i].Look(b.ms()))
			if relative(l.Budget) != want || l.Requests != b.flight[i] {
				b.rt.Fatalf("endpoint %d: %+v, want %+v and %d in flight", i, l, want, b.flight[i])
			}
		}
	})
}

// relative returns a state with times as seen from its own: a store may have another clock.
func relative(s budget.State) budget.State {
	if s.TakenAt > 0 {
		s.TakenAt -= s.At
	}
	s.At = 0
	return s
}

// ms returns the time in ms.
func (b *budgets) ms() float64 { return float64(b.now / time.Millisecond) }

// restrict has an endpoint say something of its limits.
func (b *budgets) restrict(o *owner, at int) {
	r := budget.Restriction{
		Tokens: float64(b.draw("left", 4000) - 1), Requests: float64(b.draw("requests left", 20) - 1),
		TokensReset: time.Duration(b.draw("reset", 3)) * time.Second, RequestsReset: time.Second,
		RetryAfter: time.Duration(b.draw("retry", 3)) * 700 * time.Millisecond,
		MaxClosed:  time.Duration(b.draw("most", 3)) * 600 * time.Millisecond,
		Reopen:     b.draw("reopen", 8) == 0,
	}
	o.Restrict(b.now, b.scope, b.addrs[at], r)
	b.states[at].Restrict(b.ms(), &r)
}

// setClock sets the clock forward or back, in histories without crashes: after it was set back nobody is dead for a
// while.
func (b *budgets) setClock() {
	if b.crashes {
		return
	}
	b.sweep(time.Second)
	b.now = max(time.Minute, b.now+time.Duration(b.draw("minutes", 41)-20)*time.Minute/10)
	b.sweep(time.Millisecond)
}

// sweep lets so much time pass that the store forgets what is unused. Only a clock that is set back then shows whether
// it has.
func (b *budgets) sweep(d time.Duration) {
	b.tick(d)
	for i := range b.states {
		if b.flight[i] == 0 && b.states[i].IsUnused(b.ms()) {
			b.states[i] = budget.State{}
		}
	}
}

// reserve reserves over some of the endpoints, or at one tenant.
func (b *budgets) reserve(o *owner) {
	from := b.draw("first endpoint", len(b.addrs))
	to := from + 1 + b.draw("more endpoints", len(b.addrs)-from)
	if lb.IsOfTenants(b.scope) {
		to = from + 1
	}
	p := Budgeted(b.addrs[from:to], budget.Limits{}, int64(b.draw("tokens", 2500)))
	p.Scope = b.scope
	p.Budget.Limits = slices.Clone(b.limits[from:to])
	ts, last, changed := make([]budget.Target, to-from), -1, false
	for i := range ts {
		p.Candidates[i].Cap = b.caps[from+i]
		full := b.caps[from+i] > 0 && b.flight[from+i] >= b.caps[from+i]
		ts[i] = budget.Target{Limits: b.limits[from+i], State: b.states[from+i], Full: full}
		if from+i == b.last && !ts[i].IsUnused(b.ms()) {
			last = i
		}
		changed = ts[i].Apply(b.ms(), ts[i].Limits) || changed
	}
	tokens := float64(p.Budget.Tokens)
	want := budget.Choose(ts, last, tokens)
	b.next++
	var g lb.Grant
	var err error
	o.Reserve(b.now, b.next, p, func(got lb.Grant, e error) { g, err = got, e })
	if want == budget.None {
		first := budget.Earliest(ts, tokens)
		expected := time.Duration(math.Ceil(ts[first].Until(tokens))) * time.Millisecond
		w := lb.Grant{Index: first, Left: ts[first].Left(), Expected: expected}
		if !errors.Is(err, lb.ErrOverBudget) || g != w {
			b.rt.Fatalf("request %d: %+v, %v; want %+v", b.next, g, err, w)
		}
		if changed {
			b.put(from, ts)
		}
		return
	}
	if err != nil || g.Index != want {
		b.rt.Fatalf("request %d was granted %d, %v; want %d", b.next, g.Index, err, want)
	}
	budget.Charge(ts, want, b.ms(), tokens)
	b.put(from, ts)
	b.last = from + want
	b.flight[b.last]++
	if g.Left != ts[want].Left() || g.Load.Requests != b.flight[b.last] {
		b.rt.Fatalf("request %d: %+v; %+v are left, %d in flight", b.next, g, ts[want].Left(), b.flight[b.last])
	}
	if b.caps[b.last] > 0 && b.flight[b.last] > b.caps[b.last] {
		b.rt.Fatalf("endpoint %d has %d in flight, its cap is %d", b.last, b.flight[b.last], b.caps[b.last])
	}
	o.held[b.next] = held{b.addrs[b.last], p.Budget.Tokens}
}

// put notes the states of endpoints.
func (b *budgets) put(from int, ts []budget.Target) {
	for i := range ts {
		b.states[from+i] = ts[i].State
	}
}

// releaseFirst releases the owner's oldest lease.
func (b *budgets) releaseFirst(o *owner) {
	if len(o.held) == 0 {
		return
	}
	id := o.ids()[0]
	o.Release(b.now, id)
	b.flight[slices.Index(b.addrs, o.held[id].addr)]--
	delete(o.held, id)
	b.written()
}

// written has the backend write what its owners have put off.
func (b *budgets) written() { b.Loads(b.scope, b.addrs) }

// crash lets an owner fall silent, until its leases are returned, and a new one come. All others use the scope before,
// since owners may return leases only in scopes that they use.
func (b *budgets) crash(i int) {
	dead := b.owners[i]
	b.owners = slices.Delete(b.owners, i, i+1)
	for _, o := range b.owners {
		b.reserve(o)
	}
	for range int((TTL + 2*time.Second) / time.Second) {
		b.tick(time.Second)
	}
	for _, l := range dead.held {
		b.flight[slices.Index(b.addrs, l.addr)]--
	}
	b.join()
}
