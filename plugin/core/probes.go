package core

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/region"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/stats"
)

// A probe of another region is answered by the plugin: how much room there is here. It is held for as long as Redis
// takes to say what is in flight, where that is counted there.

// survey is an answer to a probe in the making: how much room there is by each rule of the region. What another region
// forwards may be of any of them, so the one with the least room counts.
type survey struct {
	rooms  []*room
	left   int  // rules for which Redis has not answered
	asking bool // more rules are to come
	done   func(region.State)
}

// room is how much room there is by one rule.
type room struct {
	plan  lb.Plan
	state region.State
	known bool
}

// survey calls done with what this region says of itself to those who ask: of its own servers, by its rules. It is
// called while a request that is routed to them is being handled, and calls done at once or, with counts in Redis,
// later.
func (r *regions) survey(now time.Duration, request uint32, rules []*config.Config, done func(region.State)) {
	sv := &survey{done: done, asking: true}
	for _, c := range rules {
		if rm := r.roomBy(now, request, sv, c); rm.known && rm.state.Open == 0 {
			break // there can be no less
		}
	}
	sv.asking = false
	sv.finish()
}

// roomBy adds how much room there is by a rule.
func (r *regions) roomBy(now time.Duration, request uint32, sv *survey, c *config.Config) *room {
	cl, plan, why := r.planOf(now, c, r.views.of(now, c.Regions.Cluster, c), request)
	rm := &room{plan: plan, known: why != lb.ReasonChosen}
	if sv.rooms = append(sv.rooms, rm); rm.known {
		return rm
	}
	addrs := addrsOf(&plan)
	_, redis := r.stores.of(c)
	switch {
	case redis != nil && !redis.remote.Ready(now): // each gateway has a part of the caps: nobody knows of all
		rm.known = true
		return rm
	case redis == nil:
		loads, err := r.stores.local.Loads(cl.name, addrs, nil)
		rm.count(loads, r.stores.local.Queue(now, cl.name), err)
		return rm
	}
	sv.left++
	r.ticks.wakeAt(now, now+c.ReserveTimeout)
	redis.remote.Room(now, cl.name, addrs, func(loads []lb.Load, q lb.QueueStats, err error) {
		rm.count(loads, q, err)
		sv.left--
		sv.finish()
	})
	return rm
}

// count counts the endpoints that are open. Of what is not known none is.
func (rm *room) count(loads []lb.Load, q lb.QueueStats, err error) {
	if rm.known = true; err == nil {
		rm.state = queueOf(q)
		rm.state.Open = openOf(&rm.plan, loads)
	}
}

// finish answers once all is known.
func (sv *survey) finish() {
	if sv.asking || sv.left > 0 {
		return
	}
	s := sv.rooms[0].state
	for _, rm := range sv.rooms[1:] {
		s.Open, s.Queued = min(s.Open, rm.state.Open), max(s.Queued, rm.state.Queued)
		s.Wait = max(s.Wait, rm.state.Wait)
	}
	sv.done(s)
}

// openOf returns how many candidates take a request.
func openOf(plan *lb.Plan, loads []lb.Load) (open int) {
	for i := range plan.Candidates {
		if !plan.Candidates[i].IsFull(loads[i]) {
			open++
		}
	}
	return open
}

// queueOf returns what is said of a queue.
func queueOf(q lb.QueueStats) region.State {
	return region.State{Queued: q.Waiting, Wait: time.Duration(q.Waiting) * q.Interval}
}

func addrsOf(plan *lb.Plan) []string {
	addrs := make([]string, len(plan.Candidates))
	for i := range addrs {
		addrs[i] = plan.Candidates[i].Addr
	}
	return addrs
}

// probeAnswer is the answer to the probe of another region.
type probeAnswer struct {
	s          *Stream
	open       bool // it is not given yet
	inCallback bool // the request's own callback runs
}

// answerProbe answers the probe of another region, and returns what becomes of it until then. A stranger learns
// nothing: the request goes on as any other. Who has a probe that was signed knows of the path, and may not make the
// servers work by it: if it is old, was answered, or is for another region, it gets a 404.
func (s *Stream) answerProbe(homes []*config.Config, text string) (a host.Action, answered bool) {
	v := s.plugin.vm
	wall, signed := v.GW.Wall(), false
	for _, c := range homes {
		h := v.regions.of(c)
		route, err := h.key.ReadProbe(text, c.Regions.Name, wall)
		signed = signed || route.From != ""
		if err != nil {
			continue
		}
		if h.replays.Take(&route, wall) != nil {
			break
		}
		views, err := h.board.Views()
		if err != nil {
			break
		}
		return s.holdProbe(h, c, &route, views), true
	}
	v.Stats.Count(stats.ForgedProbes, 1)
	if signed {
		p := &probeAnswer{s: s, open: true}
		s.answer = p
		p.reply(404, nil)
	}
	return host.Hold, signed
}

// holdProbe answers a probe of a home, at once or later.
func (s *Stream) holdProbe(h *home, c *config.Config, probe *region.Route, views []region.View) host.Action {
	v, p := s.plugin.vm, &probeAnswer{s: s, open: true, inCallback: true}
	s.answer = p
	s.SetCluster(c.Regions.Header, c.Regions.Cluster)
	v.regions.survey(v.ReadClock(), s.context, s.plugin.set.RulesOf(c), func(state region.State) {
		reply := func() {
			p.reply(204, [][2]string{{headerAnswer, h.key.SignAnswer(probe, v.GW.Wall(), state, views)}})
		}
		switch {
		case !p.open: // whoever asked has left
		case p.inCallback:
			reply()
		default:
			v.RunAs(s.context, "the answer to a probe", reply, p.resumeFailed)
		}
	})
	p.inCallback = false
	if p.open {
		return host.Stop
	}
	return host.Hold
}

func (p *probeAnswer) reply(status int, headers [][2]string) {
	p.s.Reply(status, headers, "")
	p.open = false
}

func (p *probeAnswer) Read(int, bool) host.Action {
	if p.open {
		return host.Stop
	}
	return host.Proceed
}

func (p *probeAnswer) Late() {}

func (p *probeAnswer) Left() { p.open = false }

// Failed has the gateway balance a probe that could not be answered: who asked takes that for no answer.
func (p *probeAnswer) Failed() host.Action {
	if !p.open {
		return host.Proceed
	}
	p.open = false
	return p.s.first.pass(lb.ReasonPanic)
}

// resumeFailed ends a probe whose answer, from outside of its callbacks, has panicked.
func (p *probeAnswer) resumeFailed() {
	defer p.s.Resume()
	p.Failed()
}
