package regions

import (
	"github.com/warmgate/warmgate/lb/region"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/stats"
)

// A probe of another region is answered by the plugin: how much room there is here. It is held for as long as Redis
// takes to say what is in flight, where that is counted there.

// Probe is the answer to the probe of another region, which is a request.
type Probe struct {
	s          host.GatewayStream
	context    uint32 // the gateway's
	regions    *Regions
	rulesOf    func(c *config.Config) []*config.Config // that have the regions of one
	balance    func() host.Action                      // has the gateway balance the request
	open       bool                                    // it is not given yet
	inCallback bool                                    // the request's own callback runs
}

// NewProbe returns a probe that is not answered yet. rulesOf returns the rules that have the regions of one, and
// balance has the gateway balance the request.
func (r *Regions) NewProbe(
	s host.GatewayStream, context uint32, rulesOf func(*config.Config) []*config.Config, balance func() host.Action,
) *Probe {
	return &Probe{s: s, context: context, regions: r, rulesOf: rulesOf, balance: balance, open: true}
}

// Answer answers the probe of another region, and returns what becomes of it until then. One that none of the homes
// takes gets an empty 404, whoever has made it: servers are not made to work by it, and a stranger learns nothing of
// the region.
func (p *Probe) Answer(homes []*config.Config, texts region.Texts) host.Action {
	r := p.regions
	wall := r.GW.Wall()
	for _, c := range homes {
		h := r.Of(c)
		route, key, err := h.keys.ReadProbe(texts, c.Regions.Name, wall)
		if err != nil {
			continue
		}
		if h.replays.Take(&route, wall) != nil {
			break
		}
		views, err := h.Board.Views()
		if err != nil {
			break
		}
		return p.hold(key, c, &route, views)
	}
	if len(homes) > 0 {
		r.Stats.Count(stats.ForgedProbes, 1)
	}
	p.reply(404, nil)
	return host.Hold
}

// hold answers a probe of a home, at once or later, with the key by which it was signed.
func (p *Probe) hold(key *region.Key, c *config.Config, probe *region.Route, views []region.View) host.Action {
	r := p.regions
	p.inCallback = true
	p.s.SetCluster(c.Regions.Header, c.Regions.Cluster)
	r.survey(r.ReadClock(), p.context, p.rulesOf(c), func(state region.State) {
		reply := func() {
			wall := r.GW.Wall()
			told := state.SharedBy(r.Of(c).replays.Askers(wall, c.Regions.Interval))
			p.reply(204, [][2]string{{headerAnswer, key.SignAnswer(probe, wall, told, views)}})
		}
		switch {
		case !p.open: // whoever asked has left
		case p.inCallback:
			reply()
		default:
			r.RunAs(p.context, "the answer to a probe", reply, p.resumeFailed)
		}
	})
	p.inCallback = false
	if p.open {
		return host.Stop
	}
	return host.Hold
}

func (p *Probe) reply(status int, headers [][2]string) {
	p.s.Reply(status, headers, "")
	p.open = false
}

func (p *Probe) Read(int, bool) host.Action {
	if p.open {
		return host.Stop
	}
	return host.Proceed
}

func (p *Probe) Late() {}

func (p *Probe) Left() { p.open = false }

// Failed has the gateway balance a probe that could not be answered: who asked takes that for no answer.
func (p *Probe) Failed() host.Action {
	if !p.open {
		return host.Proceed
	}
	p.open = false
	return p.balance()
}

// resumeFailed ends a probe whose answer, from outside of its callbacks, has panicked.
func (p *Probe) resumeFailed() {
	defer p.s.Resume()
	p.Failed()
}
