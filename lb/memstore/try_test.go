package memstore_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/lb/memstore/memstoretest"
	"github.com/warmgate/warmgate/lb/storetest"
)

// tryingProcess is a process whose owners try each plan before they reserve it.
type tryingProcess struct {
	*memstoretest.Process
	t     *testing.T
	tries map[string]int // by what has come of them
}

func (p *tryingProcess) NewOwner() lb.Store {
	return &tryingStore{p.NewStore(), p, map[lb.LeaseID]bool{}}
}

type tryingStore struct {
	*memstore.Store
	process *tryingProcess
	known   map[lb.LeaseID]bool // leases that a reservation under their id asks for again, or that are over
}

func (s *tryingStore) Release(now time.Duration, id lb.LeaseID) {
	s.known[id] = true
	s.Store.Release(now, id)
}

// Reserve fails the test unless Try has said what comes of it, and has changed nothing.
func (s *tryingStore) Reserve(now time.Duration, id lb.LeaseID, p *lb.Plan, done func(lb.Grant, error)) {
	process, isNew := s.process, !s.known[id] && p.Wait.Instead == 0
	s.known[id] = true
	const large = 500 // keys, beyond which few plans are tried: all are compared
	hooked := process.OnGet != nil || process.OnSet != nil || process.SetErr != nil
	if !isNew || hooked || len(process.Vals) > large && id%64 != 0 {
		s.Store.Reserve(now, id, p, done)
		return
	}
	before := maps.Clone(process.Vals)
	want := s.Try(now, p)
	for key, val := range process.Vals {
		if !slices.Equal(val, before[key]) {
			process.t.Errorf("a plan that is only tried has changed %q", key)
		}
	}
	answered := false
	s.Store.Reserve(now, id, p, func(g lb.Grant, err error) {
		if answered = true; !want.Waits {
			process.compare(p, want, g, err)
		}
		done(g, err)
	})
	if !answered && !want.Waits {
		process.t.Errorf("tried %+v, and the request waits", want)
	}
	if want.Waits {
		process.tries["waits"]++
	}
}

func (p *tryingProcess) compare(plan *lb.Plan, want memstore.Trial, g lb.Grant, err error) {
	p.t.Helper()
	if !errors.Is(err, want.Err) {
		p.t.Errorf("tried %v, reserved %v", want.Err, err)
		return
	}
	if err != nil {
		p.tries[err.Error()]++
		if want.Grant.Expected != g.Expected {
			p.t.Errorf("tried, it may expect to wait %v, reserved %v", want.Grant.Expected, g.Expected)
		}
		return
	}
	p.tries["granted"]++
	if g.Index != want.Grant.Index || g.Load != want.Grant.Load || g.Cached != want.Grant.Cached {
		p.t.Errorf("tried %+v, reserved %+v", want.Grant, g)
	}
	if !plan.HasBudget() && lb.RuleOf(plan, want.Loads, want.Matched, g.Index) == lb.ByStore {
		p.t.Errorf("candidate %d is not chosen by loads %v and matches %v", g.Index, want.Loads, want.Matched)
	}
}

// What a plan is tried with is what comes of it, in all that the suites of stores do.
func TestTryIsReserve(t *testing.T) {
	all := map[string]int{}
	open := func(t *testing.T) storetest.Backend {
		return &tryingProcess{memstoretest.NewProcess(t), t, all}
	}
	storetest.Run(t, open)
	storetest.RunQueue(t, open)
	storetest.RunBudget(t, open)
	storetest.RunBudgetQueue(t, open)
	for _, what := range []string{"granted", "waits", lb.ErrFull.Error(), lb.ErrOverBudget.Error()} {
		if all[what] == 0 {
			t.Errorf("no try was %q: %v", what, all)
		}
	}
}
