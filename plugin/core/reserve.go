package core

import (
	"errors"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// This file is the part of a request in which a store chooses the endpoint. The embedded store answers at once; a
// shared one may take a while, in which the gateway holds the request.

// reservation is what a request asks its store for, and the answer.
type reservation struct {
	plan       lb.Plan
	view       *lb.View  // that the plan was made of
	reason     lb.Reason // to count when an endpoint is chosen
	startedAt  time.Duration
	inCallback bool // the request's own callback waits for the answer
	done       bool // it is there
	grant      lb.Grant
	err        error
}

// timedEvery is how many reservations there are for each one whose time is taken.
const timedEvery = 16

// reserve asks the store for an endpoint.
func (s *Stream) reserve() Action {
	v := s.plugin.vm
	s.store, s.redis = v.stores.of(s.cfg)
	now := s.now()
	s.id = v.stores.nextID()
	if s.id%timedEvery == 1 {
		s.reservation.startedAt = v.gw.Now()
	}
	s.phase, s.reservation.inCallback = phaseReserving, true
	s.cluster.inflight++
	if s.redis != nil {
		s.redis.inflight++
	}
	s.store.Reserve(now, s.id, &s.reservation.plan, s.granted)
	if s.reservation.inCallback = false; s.reservation.done {
		return s.finishReservation()
	}
	v.ticks.wakeAt(now, now+s.cfg.ReserveTimeout)
	return Stop
}

// now returns the time. A shared store counts deadlines from it, so it has to be right.
func (s *Stream) now() time.Duration {
	if s.redis != nil {
		return s.plugin.vm.ReadClock()
	}
	return s.plugin.vm.now()
}

// granted is called by the store, within the request's own callback or from outside. What is then thought of the
// request, or of a request before it in the same answer of Redis, must not keep the next one from its answer.
func (s *Stream) granted(g lb.Grant, err error) {
	s.reservation.done, s.reservation.grant, s.reservation.err = true, g, err
	if s.reservation.inCallback || s.phase != phaseReserving {
		return // it goes on in reserve, or has ended and its lease is released
	}
	s.plugin.vm.runAs(s.context, "the answer to a reservation", func() {
		if s.finishReservation() == Proceed {
			s.Resume()
		}
	}, s.answerRecovered)
}

// answerRecovered ends an answer that panicked. There is no callback of the request to let it go on.
func (s *Stream) answerRecovered() {
	defer s.Resume()
	s.recovered()
}

// finishReservation goes on with a request whose store has answered.
func (s *Stream) finishReservation() Action {
	v := s.plugin.vm
	if s.reservation.startedAt > 0 {
		v.stats.reserved(v.gw.Now() - s.reservation.startedAt)
	}
	switch {
	case errors.Is(s.reservation.err, lb.ErrFull):
		s.closeLease()
		return s.shed()
	case s.reservation.err != nil:
		s.closeLease()
		return s.pass(lb.ReasonStoreError)
	}
	s.phase, s.load = phaseLeased, s.reservation.grant.Load.Requests
	s.tokens = s.reservation.plan.Work(s.reservation.grant.Cached)
	if s.chain != nil && !s.chain.uncached {
		s.chain.cached = s.reservation.plan.Prefix.Share(s.reservation.grant.Cached)
	}
	s.chosen = s.reservation.plan.Candidates[s.reservation.grant.Index].Addr
	s.addr = s.chosen
	switch {
	case s.cfg.Shadow:
		s.reservation.reason = lb.ReasonShadow
		s.Unsteer()
	case s.chosenIsGone():
		s.release()
		return s.pass(lb.ReasonNoHealthyEndpoint)
	default:
		if err := s.Steer(s.chosen, others(&s.reservation.plan, s.reservation.grant.Index)); err != nil {
			v.gw.Log(Warn, "the gateway refused the destination "+s.chosen+": "+err.Error())
			s.release()
			return s.pass(lb.ReasonStoreError)
		}
	}
	s.decided(s.reservation.reason)
	s.requestPlaced()
	s.trackBody()
	if s.asked > 0 {
		s.amendWork() // the end of the body has come while the store was asked
	}
	if s.cfg.DetailLog {
		v.gw.Log(Info, "cluster="+s.cluster.name+" "+describe(s.chosen, s.reason, s.load))
	}
	return Proceed
}

// chosenIsGone says whether the endpoint has left, or become unusable, since the store was asked: a gateway may fail a request
// that is sent there all the same.
func (s *Stream) chosenIsGone() bool {
	if s.redis == nil {
		return false
	}
	view := s.plugin.vm.gw.View(s.plugin.vm.now(), s.scope, s.cfg)
	if view == s.reservation.view {
		return false
	}
	if view != nil {
		for i := range view.Endpoints {
			if e := &view.Endpoints[i]; e.Addr == s.chosen {
				return e.State != lb.Healthy && e.State != lb.Degraded
			}
		}
	}
	return true
}

// release gives the lease back, if there is or may be one.
func (s *Stream) release() {
	if s.phase == phaseLeased || s.phase == phaseReserving {
		now := s.now()
		s.closeLease()
		s.store.Release(now, s.id)
	}
}

// closeLease strikes the request off those that are counted.
func (s *Stream) closeLease() {
	s.phase = phasePassed
	s.trackResponse(false)
	delete(s.plugin.vm.bodies.partial, s)
	s.cluster.inflight--
	if s.redis != nil {
		s.redis.inflight--
	}
}

// others returns where retries may go: the candidates after the chosen one, so that not all go to the same, those of
// its tier first.
func others(p *lb.Plan, chosen int) []string {
	const most = 2
	var out []string
	for _, same := range [2]bool{true, false} {
		for i := 1; i < len(p.Candidates) && len(out) < most; i++ {
			// The plan's random bits were used up by the tie; rotating them by the index is enough here.
			at := (chosen + 1 + (i-1+int(p.Tie>>33))%(len(p.Candidates)-1)) % len(p.Candidates)
			if c := &p.Candidates[at]; (c.Tier == p.Candidates[chosen].Tier) == same {
				out = append(out, c.Addr)
			}
		}
	}
	return out
}
