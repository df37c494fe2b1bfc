package vm

import (
	"errors"
	"slices"

	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/stats"
)

// configs are the configurations in force in a VM.
type configs struct {
	inForce     []*Plugin           // the newest last
	adminSource *config.EnvoySource // where those find endpoints, nil if none of them names a source
	parts       []*config.Config    // of them, those of the newest first
	regions     []*config.Config    // of these, those that name regions
}

// add puts a configuration in force.
func (c *configs) add(p *Plugin) {
	c.inForce = append(c.inForce, p)
	c.update()
}

// remove ends it, if it is in force. Requests that began under it go on.
func (c *configs) remove(p *Plugin) {
	c.inForce = slices.DeleteFunc(c.inForce, func(other *Plugin) bool { return other == p })
	c.update()
}

// contains reports whether the configuration is in force.
func (c *configs) contains(p *Plugin) bool { return slices.Contains(c.inForce, p) }

// allParts returns the parts of all configurations in force, those of the newest first.
func (c *configs) allParts() []*config.Config { return c.parts }

// policies returns those that are in force.
func (c *configs) policies() (names []string) {
	for _, part := range c.parts {
		if part.Enabled && !slices.Contains(names, part.Policy) {
			names = append(names, part.Policy)
		}
	}
	return names
}

// priced returns the names of models with prices: they have labels of their own, whatever is used most.
func (c *configs) priced() (models []string) {
	for _, part := range c.parts {
		models = append(models, part.Prices.Table.Names()...)
	}
	return models
}

// isInspected reports whether one of them has the gateway show what it knows.
func (c *configs) isInspected() bool {
	return slices.ContainsFunc(c.inForce, func(p *Plugin) bool { return p.Set.HasInspect() })
}

// allRegions returns those of them that name regions.
func (c *configs) allRegions() []*config.Config { return c.regions }

// newest returns the configuration that came last, nil when none is in force.
func (c *configs) newest() *Plugin {
	if len(c.inForce) == 0 {
		return nil
	}
	return c.inForce[len(c.inForce)-1]
}

// newestTicker returns its timer.
func (c *configs) newestTicker() *Ticker {
	if p := c.newest(); p != nil {
		return &p.Ticker
	}
	return nil
}

// update takes over what the configurations in force have. The source of endpoints is that of the newest one that names
// one: those that need no endpoints must not take them from the others.
func (c *configs) update() {
	c.adminSource, c.parts, c.regions = nil, nil, nil
	for _, p := range slices.Backward(c.inForce) {
		c.parts = append(c.parts, p.Set.All()...)
		c.regions = append(c.regions, p.Set.Regions()...)
		if source, ok := p.Set.AdminSource(); ok && c.adminSource == nil {
			c.adminSource = &source
		}
	}
}

// ErrNoConfiguration reports that there is no configuration in whose name a call could be made.
var ErrNoConfiguration = errors.New("vm: no configuration is in force")

// Newest returns the configuration that came last, nil when none is in force.
func (v *VM) Newest() *Plugin { return v.configs.newest() }

// configure reads a configuration. It returns false when the gateway should refuse it and keep the previous one.
func (v *VM) configure(name string, raw []byte, h config.Host) (*Plugin, bool) {
	if err := process.Prepare(v.GW.KV()); err != nil {
		// Requests are still served: each will find the store unready and fall back to native balancing.
		v.GW.Log(host.Error, err.Error())
	}
	v.Prompts.ProcessSecret = process.OwnSecret(v.GW.KV(), v.GW.Random)
	got := v.lastGood.accept(name, raw, h)
	if got.set == nil {
		return v.refuse(name, raw, h, got.err)
	}
	if got.first {
		for _, w := range got.set.Warnings() {
			v.GW.Log(host.Warn, "configuration: "+w)
		}
	}
	v.lastGood.reportRefusals(got)
	p := v.activate(name, got.set)
	if got.err != nil {
		p.origin = origin{name, raw, got.digest}
	}
	return p, true
}

// refuse puts the last good configuration in force in place of one that is refused as a whole, if there is one. It
// returns false when the gateway will keep the previous one.
func (v *VM) refuse(name string, raw []byte, h config.Host, why error) (*Plugin, bool) {
	v.Stats.Count(stats.ConfigBad, 1)
	then := "requests fall back to native balancing: "
	set, accepted := v.lastGood.inPlaceOf(name, raw, h)
	if set != nil || !accepted {
		then = "the previous one stays in force: "
	}
	v.GW.Log(host.Error, "configuration refused, "+then+why.Error())
	switch {
	case !accepted:
		return nil, false
	case set == nil:
		v.Stats.Set(stats.ConfigValid, 0)
		return &Plugin{VM: v, ClusterHeaders: config.ClusterHeaders(raw), apis: config.RefusedAPIs(raw)}, true
	}
	p := v.activate(name, set)
	p.apis = config.RefusedAPIs(raw)
	return p, true
}

// activate puts a configuration of the plugin with the name in force.
func (v *VM) activate(name string, set *config.Set) *Plugin {
	p := &Plugin{VM: v, name: name, Set: set, warned: map[string]bool{}}
	v.configs.add(p)
	v.Stats.Pin(v.configs.priced())
	v.Stats.Set(stats.ConfigValid, 1)
	v.Stats.Count(stats.ConfigBad, 0)
	v.Stats.Count(stats.Panics, 0)
	v.Stats.Store(v.Stores.Local.Stats)
	v.Stores.Connect(set)
	v.noteTargets(p)
	return p
}

// refreshLastGood takes over the last good forms of rules that other VMs have noted since: a worker that still has
// requests of an earlier push of the same text keeps that configuration, without a new start.
func (v *VM) refreshLastGood() {
	for _, p := range v.configs.inForce {
		if set := v.lastGood.refresh(&p.origin); set != nil {
			p.Set = set
			v.configs.update()
			v.Stats.Pin(v.configs.priced())
			v.Stores.Connect(set)
		}
	}
}
