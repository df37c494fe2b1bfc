package vm

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/views"
)

// Who takes a target out of the configuration and adds it again wants it to be asked whether it is open, though it has
// said before that it is closed.

// addedTarget is a target that a configuration has added again.
type addedTarget struct {
	part *config.Config
	name string
}

// targetTimes is when targets were taken out, by their names; 0 while they are in force.
type targetTimes map[string]time.Duration

// takenOut is for how long it is remembered that a target was taken out: no store knows longer that it is closed.
const takenOut = time.Hour

// noteTargets notes which targets the newest configuration in force has added again, and which are taken out by it.
func (v *VM) noteTargets(p *Plugin) {
	now, all := v.ReadClock(), v.configs.targets()
	for name, since := range v.targets {
		switch {
		case slices.Contains(all, name):
		case since == 0:
			v.targets[name] = now
		case now-since > takenOut:
			delete(v.targets, name)
		}
	}
	for _, part := range p.Set.All() {
		for _, name := range targetsOf(part) {
			if v.targets[name] > 0 {
				p.added = append(p.added, addedTarget{part, name})
			}
		}
	}
	for _, name := range all {
		v.targets[name] = 0
	}
}

// targets returns the names of the targets in force: of each plugin those of its newest configuration, since older ones
// only have requests to end.
func (c *configs) targets() (names []string) {
	var seen []string // names of plugins
	for _, p := range slices.Backward(c.inForce) {
		if slices.Contains(seen, p.name) {
			continue
		}
		seen = append(seen, p.name)
		for _, part := range p.Set.All() {
			names = append(names, targetsOf(part)...)
		}
	}
	return names
}

// targetsOf returns the names of a part's targets.
func targetsOf(c *config.Config) []string {
	if b := c.Budget(); b != nil {
		return b.Names()
	}
	return nil
}

// reopen has the targets that a configuration has added again be asked. It is called at ticks: not before a
// configuration has started can Redis be called, and a VM that only tries one has no ticks.
func (v *VM) reopen(now time.Duration, p *Plugin) {
	added := p.added
	p.added = nil
	for _, t := range added {
		v.reopenTarget(now, t.part, t.name)
	}
}

// reopenTarget has a target of the configuration be asked; an endpoint in each cluster that may have it.
func (v *VM) reopenTarget(now time.Duration, c *config.Config, name string) {
	store, _ := v.Stores.Of(c)
	if c.AmongClusters() {
		store.Restrict(now, views.BudgetScope, name, budget.Restriction{Reopen: true})
		return
	}
	for cluster := range v.Clusters {
		store.Restrict(now, cluster, name, budget.Restriction{Reopen: true})
	}
}
