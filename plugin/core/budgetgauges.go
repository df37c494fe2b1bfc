package core

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/stats"
)

// This file is the gauges of budgets.

// budgetGauges are those of a target.
var budgetGauges = []string{stats.BudgetLeft, stats.LeftRequests, stats.BudgetClosed}

// setBudgets sets the gauges of all targets whose budgets are in the gateway's memory, and asks for those of one
// configuration that are in Redis: they take turns.
func (g *gauges) setBudgets(now time.Duration) {
	var next *cluster
	var of *config.Config
	for _, cl := range g.clusters {
		g.dropTargets(cl)
		for c := range cl.policies {
			switch cl.noteTargets(c); {
			case c.Budget() == nil:
			case !c.UsesRedis():
				g.askLevels(now, cl, c)
			case next == nil || cl.levelsAt[c] < next.levelsAt[of]:
				next, of = cl, c
			}
		}
	}
	if next != nil {
		next.levelsAt[of] = now
		g.askLevels(now, next, of)
	}
}

// noteTargets notes which targets of the configuration are in the cluster, before its turn comes: by then nothing may
// be left in flight there, and no request bring them again.
func (cl *cluster) noteTargets(c *config.Config) {
	if b := c.Budget(); b != nil {
		for _, name := range b.Names() {
			if cl.gauged[name] {
				cl.targets[name] = true
			}
		}
	}
}

// dropTargets sets the gauges to 0 of what is a target of no configuration any more.
func (g *gauges) dropTargets(cl *cluster) {
	for name := range cl.targets {
		if !g.isTarget(cl, name) {
			g.clearBudget(cl.name, name)
			delete(cl.targets, name)
		}
	}
}

// isTarget reports whether a configuration in force may have the target in the cluster.
func (g *gauges) isTarget(cl *cluster, name string) bool {
	for _, p := range g.configs.inForce {
		for _, c := range p.set.All() {
			b := c.Budget()
			if b != nil && c.AmongClusters() == (cl.name == budgetScope) && slices.Contains(b.Names(), name) {
				return true
			}
		}
	}
	return false
}

// askLevels has the gauges of the targets of a configuration set that are or were in the cluster. While the store does
// not answer they stay as they are.
func (g *gauges) askLevels(now time.Duration, cl *cluster, c *config.Config) {
	var targets []*policy.BudgetTarget
	var names []string
	list := c.Budget().Targets
	for i := range list {
		if t := &list[i]; cl.targets[t.Name] {
			targets, names = append(targets, t), append(names, t.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	tasks, _ := g.stores.tasks(c)
	tasks.Levels(now, cl.name, names, func(levels []lb.BudgetLevel, err error) {
		if err != nil {
			return
		}
		for i, t := range targets {
			g.setLevel(cl.name, t, levels[i].Budget.Level(t.Limits))
		}
	})
}

// setLevel sets the gauges of a target.
func (g *gauges) setLevel(cluster string, t *policy.BudgetTarget, l budget.Level) {
	for i, n := range []float64{l.Tokens, l.Requests, float64(l.Closed.Milliseconds())} {
		// Once it is shown it is kept right, also when there is no such limit any more.
		if name := stats.OfEndpoint(budgetGauges[i], cluster, t.Name); n >= 0 || g.Stats.Has(name) {
			g.Stats.SetIf(name, uint64(max(n, 0)))
		}
	}
}

// clearBudget sets the gauges of a target that is none any more to 0.
func (g *gauges) clearBudget(cluster, addr string) {
	for _, stat := range budgetGauges {
		if name := stats.OfEndpoint(stat, cluster, addr); g.Stats.Has(name) {
			g.Stats.Set(name, 0)
		}
	}
}
