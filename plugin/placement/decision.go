package placement

import (
	"math"
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/internal/state"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/request"
)

// This file is how a choice is shown to those who look into the gateway.

// Decision returns what is shown of the choice, with so many candidates at most: the cheapest ones and the chosen one.
func (f *Foresight) Decision(most int) state.Decision {
	pl, t, shown := f.Of, &f.Trial, request.Shown{Of: &f.Of.Subject}
	r := &pl.Lease.Reservation
	d := state.Decision{
		Cluster: pl.Scope, API: shown.API(), Model: shown.Model(), Endpoint: pl.Lease.Chosen,
		Prompt: r.Request.PromptTokens, Output: r.Request.OutputTokens, Blocks: len(r.Plan.Prefix.Blocks),
		WaitMS: pl.Wait.waited.Milliseconds(),
	}
	if pl.Config != nil {
		d.Policy = pl.Config.Policy
	}
	if pl.Wait.Class != nil {
		d.Class = pl.Wait.Class.Name
	}
	if len(t.Loads) == 0 || len(t.Loads) != len(r.Plan.Candidates) {
		return d
	}
	chosen := lb.Full
	if d.Endpoint != "" {
		chosen = r.Grant.Index
	}
	d.Rule = lb.RuleOf(&r.Plan, t.Loads, t.Matched, chosen).String()
	d.Candidates, d.Others = candidatesOf(&r.Plan, t, chosen, most)
	return d
}

// candidatesOf returns what a request costs at candidates of its plan, and how many are left out.
func candidatesOf(p *lb.Plan, t *memstore.Trial, chosen, most int) (list []state.Candidate, others int) {
	terms := lb.AppendTerms(nil, p, t.Loads, t.Matched)
	cheapest := make([]int, len(terms))
	for i := range cheapest {
		cheapest[i] = i
	}
	order.By(cheapest, func(a, b *int) bool {
		return terms[*a].Total < terms[*b].Total || terms[*a].Total == terms[*b].Total && *a < *b
	})
	if at := slices.Index(cheapest, chosen); at >= most {
		cheapest[most-1] = chosen
	}
	for _, i := range cheapest[:min(most, len(cheapest))] {
		c, k, l := &p.Candidates[i], &terms[i], t.Loads[i]
		list = append(list, state.Candidate{
			Addr: c.Addr, Cost: finite(k.Total), Base: finite(k.Base), Load: finite(k.Load), Stall: finite(k.Stall),
			Over: finite(k.Over), Credit: finite(k.Credit), Matched: finite(k.Match),
			Requests: l.Requests, Tokens: l.Tokens,
			Weight: finite(c.Weight), Cap: c.Cap, TokenCap: c.TokenCap, Full: k.Full,
		})
		if c.OverSlope > 0 {
			list[len(list)-1].Capacity = finite(c.Capacity)
		}
	}
	return list, len(cheapest) - len(list)
}

// finite returns a number that JSON has.
func finite(x float64) float64 {
	if math.IsNaN(x) {
		return math.MaxFloat64
	}
	return min(max(x, -math.MaxFloat64), math.MaxFloat64)
}

// maxExplained is how many candidates, and how many others, are shown of a trial.
const maxExplained = 256

// maxHomes is how many places of a session are shown.
const maxHomes = 8

// Explain returns what is shown of a trial.
func (f *Foresight) Explain() state.Decision {
	pl, t, d := f.Of, &f.Trial, f.Decision(maxExplained)
	r := &pl.Lease.Reservation
	if pl.Config == nil || r.view == nil {
		return d
	}
	d.Excluded = f.excluded(pl.Shared.Clock())
	if !f.Asked {
		return d
	}
	d.Waits, d.ExpectedMS = t.Waits, t.Grant.Expected.Milliseconds()
	if d.Waits && d.Rule == lb.ByStore.String() {
		d.Rule = "" // others wait in front of it
	}
	p := &r.Plan
	d.Plan = &state.Plan{
		Unit: p.Unit.String(), Adds: int64(p.Added()), PerRequest: p.PerRequest, Credit: finite(p.Prefix.Credit),
		CreditGrowth: finite(p.Prefix.CreditGrowth), LoadFactor: p.Home.LoadFactor,
		MaxWaitMS: p.Wait.Max.Milliseconds(),
	}
	if math.IsInf(d.Plan.LoadFactor, 1) {
		d.Plan.LoadFactor = -1
	}
	for _, i := range p.Home.Order[:min(len(p.Home.Order), maxHomes)] {
		d.Plan.Home = append(d.Plan.Home, p.Candidates[i].Addr)
	}
	if p.HasBudget() {
		d.Plan.Charge = p.AddedTokens(0)
	}
	if pl.Lease.Redis != nil && d.Blocks > 0 {
		d.Plan.Matches = "not_known"
	}
	d.Plan.Target = f.target()
	return d
}

// target returns what it changes how soon the answer is to come, nil if it may come at any time.
func (f *Foresight) target() *state.Target {
	pl, r := f.Of, &f.Of.Lease.Reservation
	wanted := r.Request.Target.Or(pl.Config.Prefix.Target)
	if !pl.Config.ReadsPrompt() || wanted == (lb.Target{}) {
		return nil
	}
	t := &state.Target{
		TTFTMS: wanted.TTFT.Milliseconds(), PerTokenUS: wanted.PerToken.Microseconds(), Effect: "none",
	}
	if r.Plan.Target == (lb.Target{}) {
		return t
	}
	t.Effect = "weighed"
	request := r.Request
	request.AnyTime = true
	other, why := pl.policy.Plan(pl.Shared.Clock(), &request, r.view)
	if why != lb.ReasonChosen || len(other.Candidates) != len(r.Plan.Candidates) {
		return t
	}
	plan := r.Plan
	plan.List = other.List
	if i := lb.Choose(&plan, f.Trial.Loads, f.Trial.Matched); i != lb.Full && pl.Lease.Chosen != "" &&
		plan.Candidates[i].Addr != pl.Lease.Chosen {
		t.Effect, t.Without = "decided", plan.Candidates[i].Addr
	}
	return t
}

// excluded returns why endpoints of the cluster are no candidates.
func (f *Foresight) excluded(now time.Duration) (list []state.Excluded) {
	pl := f.Of
	r := &pl.Lease.Reservation
	all := make([]lb.Candidate, len(r.view.Endpoints))
	for i := range all {
		all[i].Addr = r.view.Endpoints[i].Addr
	}
	is := addrsOf(r.Plan.Candidates)
	serves := addrsOf(pl.Cluster.Facts.Filter(now, &r.Request, lb.NewList(all)).Candidates) // the model
	health := clusters.HealthOf(pl.Config)
	for i := range r.view.Endpoints {
		e := &r.view.Endpoints[i]
		if is[e.Addr] || len(list) == maxExplained {
			continue
		}
		why := "policy"
		switch {
		case e.State != lb.Healthy:
			why = e.State.String()
		case pl.Cluster.Health.EjectedSince(-1, now, e.Addr, &health):
			why = "ejected"
		case !r.Request.MayUse(e.Addr):
			why = "subset"
		case !serves[e.Addr]:
			why = "model"
		}
		list = append(list, state.Excluded{Addr: e.Addr, Why: why})
	}
	return list
}

func addrsOf(cs []lb.Candidate) map[string]bool {
	addrs := make(map[string]bool, len(cs))
	for i := range cs {
		addrs[cs[i].Addr] = true
	}
	return addrs
}
