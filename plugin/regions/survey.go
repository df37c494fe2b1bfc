package regions

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/region"
	"github.com/warmgate/warmgate/plugin/config"
)

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
func (r *Regions) survey(now time.Duration, request uint32, rules []*config.Config, done func(region.State)) {
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
func (r *Regions) roomBy(now time.Duration, request uint32, sv *survey, c *config.Config) *room {
	cl, plan, why := r.planOf(now, c, r.views.Of(now, c.Regions.Cluster, c), request)
	rm := &room{plan: plan, known: why != lb.ReasonChosen}
	if sv.rooms = append(sv.rooms, rm); rm.known {
		return rm
	}
	addrs := addrsOf(&plan)
	_, redis := r.stores.Of(c)
	switch {
	case redis != nil && !redis.Remote.Ready(now): // each gateway has a part of the caps: nobody knows of all
		rm.known = true
		return rm
	case redis == nil:
		loads, err := r.stores.Local.Loads(cl.Name, addrs, nil)
		rm.count(loads, r.stores.Local.Queue(now, cl.Name), err)
		return rm
	}
	sv.left++
	r.wakeAt(now, now+c.ReserveTimeout)
	redis.Remote.Room(now, cl.Name, addrs, func(loads []lb.Load, q lb.QueueStats, err error) {
		rm.count(loads, q, err)
		sv.left--
		sv.finish()
	})
	return rm
}

// count counts the endpoints that are open. Of what is not known none is.
func (rm *room) count(loads []lb.Load, q lb.QueueStats, err error) {
	if rm.known = true; err == nil {
		rm.state = region.StateOf(&rm.plan, loads, q)
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

func addrsOf(plan *lb.Plan) []string {
	addrs := make([]string, len(plan.Candidates))
	for i := range addrs {
		addrs[i] = plan.Candidates[i].Addr
	}
	return addrs
}
