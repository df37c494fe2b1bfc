package stats

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// maxGauges is how many endpoints of a cluster have gauges at the same time.
const maxGauges = 64

// Cluster is the gauges of a cluster, and the counters of what its parts have counted themselves.
type Cluster struct {
	r         *Registry
	name      string
	ejections uint64 // counted so far
	losses    uint64 // of caches, counted so far
	endpoints map[string]bool
	targets   map[string]bool // with gauges of their budgets
	classes   map[string]bool // of its queue
	models    map[string]bool // that endpoints have lacked
}

// NewCluster returns the statistics of a cluster, none of which is shown yet. It is not inlined, for the size of the
// artifacts.
//
//go:noinline
func NewCluster(r *Registry, name string) *Cluster {
	return &Cluster{
		r: r, name: name, endpoints: map[string]bool{}, targets: map[string]bool{}, classes: map[string]bool{},
		models: map[string]bool{},
	}
}

// keep sets a gauge that is to be shown, or is already: once it is shown it is kept right.
func (s *Registry) keep(name string, n uint64, show bool) {
	if show || s.Has(name) {
		s.SetIf(name, n)
	}
}

// rest sets gauges to 0 that are shown.
func (s *Registry) rest(names ...string) {
	for _, name := range names {
		if s.Has(name) {
			s.Set(name, 0)
		}
	}
}

// Ejections shows how many ejections this VM has decided so far, and how many endpoints are ejected now.
func (c *Cluster) Ejections(decided uint64, now int) {
	if n := decided - c.ejections; n > 0 && c.r.CountIf(OfCluster(Ejections, c.name), n) {
		c.ejections = decided
	}
	c.r.keep(OfCluster(Ejected, c.name), uint64(now), now > 0)
}

// Engines shows of how many endpoints there are fresh metrics, and how many of these lack a needed one.
func (c *Cluster) Engines(fresh, lacking int) {
	c.r.SetIf(OfCluster(Fresh, c.name), uint64(fresh))
	c.r.SetIf(OfCluster(Missing, c.name), uint64(lacking))
}

// Lacking shows how many endpoints lack each of these models, and that none lacks those that it has shown before.
func (c *Cluster) Lacking(models map[string]int) {
	for model := range c.models {
		if models[model] == 0 {
			c.r.rest(ofModel(LackModel, c.name, model))
			delete(c.models, model)
		}
	}
	for model, n := range models {
		if n > 0 {
			c.models[model] = true
			c.r.SetIf(ofModel(LackModel, c.name, model), uint64(n))
		}
	}
}

// Losses counts the losses of caches so far.
func (c *Cluster) Losses(n uint64) {
	if n > c.losses && c.r.CountIf(OfCluster(Losses, c.name), n-c.losses) {
		c.losses = n
	}
}

// Caches shows how long caches keep prompts.
func (c *Cluster) Caches(retention time.Duration) {
	c.r.SetIf(OfCluster(Retention, c.name), uint64(retention/time.Second))
}

// Table shows how much of what caches hold the prefix index has room for.
func (c *Cluster) Table(percent uint64) { c.r.SetIf(OfCluster(Table, c.name), percent) }

// Add gives an endpoint gauges, if there is room for them.
func (c *Cluster) Add(addr string) {
	if len(c.endpoints) < maxGauges && c.r.room(OfEndpoint(Inflight, c.name, addr)) {
		c.endpoints[addr] = true
	}
}

// Remove leaves the gauges of an endpoint as they are.
func (c *Cluster) Remove(addr string) { delete(c.endpoints, addr) }

// Endpoints returns those that have gauges.
func (c *Cluster) Endpoints() []string {
	addrs := make([]string, 0, len(c.endpoints))
	for a := range c.endpoints {
		addrs = append(addrs, a)
	}
	return addrs
}

// Load shows what is in flight at an endpoint, and its push limit, 0 for none. tokens: a configuration counts them.
func (c *Cluster) Load(addr string, l lb.Load, tokens bool, limit int64) {
	c.r.Set(OfEndpoint(Inflight, c.name, addr), uint64(l.Requests))
	if name := OfEndpoint(Tokens, c.name, addr); tokens || c.r.Has(name) {
		c.r.Set(name, uint64(l.Tokens))
	}
	c.r.keep(OfEndpoint(PushLimit, c.name, addr), uint64(limit), limit > 0)
}

// Class shows how many requests of a class wait.
func (c *Cluster) Class(class string, waiting int) {
	c.classes[class] = true
	c.r.SetIf(OfClass(Queue, c.name, class), uint64(waiting))
}

// Pressure shows the backpressure, from 0 to 1.
func (c *Cluster) Pressure(share float64) {
	c.r.SetIf(OfCluster(Pressure, c.name), uint64(math.Round(100*share)))
}

// Parallelism shows how many requests in flight clients should have.
func (c *Cluster) Parallelism(n uint64) { c.r.SetIf(OfCluster(Parallelism, c.name), n) }

// ClearQueue shows a queue in which nothing waits.
func (c *Cluster) ClearQueue() {
	c.r.rest(OfCluster(Pressure, c.name), OfCluster(Parallelism, c.name))
	for class := range c.classes {
		c.r.rest(OfClass(Queue, c.name, class))
	}
	clear(c.classes)
}

// AddTarget notes that an endpoint with gauges is a target with a budget. It is not inlined, for the size of the
// artifacts.
//
//go:noinline
func (c *Cluster) AddTarget(name string) {
	if c.endpoints[name] {
		c.targets[name] = true
	}
}

// HasTarget reports whether the target has gauges of its budget, or is to have them.
func (c *Cluster) HasTarget(name string) bool { return c.targets[name] }

// KeepTargets shows nothing left of the budgets of targets that are none any more.
func (c *Cluster) KeepTargets(is func(name string) bool) {
	for name := range c.targets {
		if !is(name) {
			c.clearBudget(name)
			delete(c.targets, name)
		}
	}
}

// budgetGauges are those of a target.
var budgetGauges = []string{BudgetLeft, LeftRequests, BudgetClosed}

// Budget shows what is left of a target's budget. Below 0 there is no such limit.
func (c *Cluster) Budget(target string, l budget.Level) {
	for i, n := range []float64{l.Tokens, l.Requests, float64(l.Closed.Milliseconds())} {
		c.r.keep(OfEndpoint(budgetGauges[i], c.name, target), uint64(max(n, 0)), n >= 0)
	}
}

func (c *Cluster) clearBudget(target string) {
	for _, stat := range budgetGauges {
		c.r.rest(OfEndpoint(stat, c.name, target))
	}
}

// Clear sets the gauges of a cluster that is about to be forgotten to what they are at rest. Those of loads are there
// already.
func (c *Cluster) Clear() {
	for _, stat := range []string{Ejected, Fresh, Missing, Retention, Table} {
		c.r.rest(OfCluster(stat, c.name))
	}
	for a := range c.endpoints {
		c.r.rest(OfEndpoint(PushLimit, c.name, a))
	}
	c.Lacking(nil)
	c.KeepTargets(func(string) bool { return false })
	c.ClearQueue()
}
