package placement

import (
	"cmp"
	"errors"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/plugin/host"
)

// This file is how a trial ends where another request is counted: with what would become of it.

// Foresight is what would become of a placement, as its plan was tried: see [memstore.Store.Try].
type Foresight struct {
	Of    *Placement
	Asked bool // its store was asked
	Trial memstore.Trial
}

// Forget frees what was found out about each candidate, which need not be kept for as long as the request runs.
func (f *Foresight) Forget() { f.Trial = memstore.Trial{} }

// Foresee finds out what would become of a trial that is planned.
func (f *Foresight) Foresee(now time.Duration) Result {
	pl := f.Of
	pl.Enter(PhaseUncounted)
	v, l := pl.Shared, &pl.Lease
	if l.Redis != nil {
		return f.askRedis(now)
	}
	if p := pl.charge.tenantPlan(); p != nil {
		t := v.Stores.Local.Try(now, p)
		if errors.Is(t.Err, lb.ErrOverBudget) || errors.Is(t.Err, lb.ErrFull) {
			expected := cmp.Or(t.Grant.Expected, host.MinWait)
			return Result{Step: Refused, Why: lb.ReasonTenantOverBudget, Expected: expected}
		}
	}
	return f.took(v.Stores.Local.Try(now, &l.Reservation.Plan))
}

// askRedis goes by what all gateways have in flight. What endpoints have of prompts, and what is left of budgets, is
// not looked up there. While Redis does not answer this gateway's counts decide, with its caps unshared.
func (f *Foresight) askRedis(now time.Duration) (r Result) {
	pl := f.Of
	v, p := pl.Shared, &pl.Lease.Reservation.Plan
	addrs := make([]string, len(p.Candidates))
	for i := range addrs {
		addrs[i] = p.Candidates[i].Addr
	}
	inCallback, answered := true, false
	v.Stores.RemoteLoads(now, pl.Config, pl.Scope, addrs, func(loads []lb.Load, err error) {
		t := memstore.Trial{Loads: loads}
		if err != nil {
			t = v.Stores.Local.Try(now, p)
		} else if t.Grant.Index = lb.Choose(p, loads, nil); t.Grant.Index == lb.Full {
			if t.Waits = p.Wait.Waits(); !t.Waits {
				t.Err = lb.ErrFull
			}
		}
		r, answered = f.took(t), true
		if !inCallback && pl.Phase != PhaseDone {
			v.RunAs(pl.Context, "the answer to a trial", func() { pl.driver.Answered(r) }, pl.driver.GrantRecovered)
		}
	})
	if inCallback = false; answered {
		return r
	}
	v.WakeAt(now, now+pl.Config.ReserveTimeout)
	return Result{Step: Waits}
}

// took takes over what would become of a trial.
func (f *Foresight) took(t memstore.Trial) Result {
	l := &f.Of.Lease
	r := &l.Reservation
	f.Trial, f.Asked = t, true
	r.Grant, r.err = t.Grant, t.Err
	if t.Err == nil && !t.Waits {
		l.Chosen = r.Plan.Candidates[t.Grant.Index].Addr
		l.Addr, l.Load = l.Chosen, t.Grant.Load.Requests
	}
	return Result{Step: Foreseen}
}

// Reason returns the reason under which the request would be counted; ReasonChosen also for one that would wait.
func (f *Foresight) Reason() lb.Reason {
	pl := f.Of
	r := &pl.Lease.Reservation
	switch {
	case pl.Config.Shadow:
		return lb.ReasonShadow
	case r.err != nil:
		return pl.Wait.refusalOf(r.err)
	}
	return pl.Kept.Placed(r.Reason, r.Grant.Cached)
}
