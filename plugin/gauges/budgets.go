package gauges

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/stats"
	"github.com/warmgate/warmgate/plugin/views"
)

// This file is the gauges of budgets.

// setBudgets sets the gauges of all targets whose budgets are in the gateway's memory, and asks for those of one
// configuration that are in Redis: they take turns.
func (g *Gauges) setBudgets(now time.Duration) {
	var next *clusters.Cluster
	var of *config.Config
	for _, cl := range g.clusters {
		g.Of(cl).KeepTargets(func(name string) bool { return g.isTarget(cl, name) })
		for c := range cl.Policies {
			switch noteTargets(g.Of(cl), c); {
			case c.Budget() == nil:
			case !c.UsesRedis():
				g.askLevels(now, cl, c)
			case next == nil || cl.LevelsAt[c] < next.LevelsAt[of]:
				next, of = cl, c
			}
		}
	}
	if next != nil {
		next.LevelsAt[of] = now
		g.askLevels(now, next, of)
	}
}

// noteTargets notes which targets of the configuration are in the cluster, before its turn comes: by then nothing may
// be left in flight there, and no request bring them again.
func noteTargets(s *stats.Cluster, c *config.Config) {
	if b := c.Budget(); b != nil {
		for _, name := range b.Names() {
			s.AddTarget(name)
		}
	}
}

// isTarget reports whether a configuration in force may have the target in the cluster.
func (g *Gauges) isTarget(cl *clusters.Cluster, name string) bool {
	return slices.ContainsFunc(g.inForce(), func(c *config.Config) bool {
		b := c.Budget()
		return b != nil && c.AmongClusters() == (cl.Name == views.BudgetScope) && slices.Contains(b.Names(), name)
	})
}

// askLevels has the gauges of the targets of a configuration set that are or were in the cluster. While the store does
// not answer they stay as they are.
func (g *Gauges) askLevels(now time.Duration, cl *clusters.Cluster, c *config.Config) {
	s := g.Of(cl)
	var targets []policy.BudgetTarget
	var names []string
	list := c.Budget().Targets
	for i := range list {
		if t, _ := list[i].InForce(&cl.Overrides); s.HasTarget(t.Name) {
			targets, names = append(targets, t), append(names, t.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	tasks, _ := g.stores.Tasks(c)
	tasks.Levels(now, cl.Name, names, func(levels []lb.BudgetLevel, err error) {
		if err != nil {
			return
		}
		for i, t := range targets {
			s.Budget(t.Name, levels[i].Budget.Level(t.Limits))
		}
	})
}
