package main

import (
	"errors"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// This file is the part of a request in which a store chooses the endpoint. The embedded store answers at once; a
// shared one may take a while, in which the gateway holds the request.

// reservation is what a request asks its store for, and the answer.
type reservation struct {
	plan   lb.Plan
	view   *lb.View  // that the plan was made of
	reason lb.Reason // to count when an endpoint is chosen
	from   time.Duration
	here   bool // the request's own callback waits for the answer
	done   bool // it is there
	grant  lb.Grant
	err    error
}

// timedEvery is how many reservations there are for each one whose time is taken.
const timedEvery = 16

// reserve asks the store for an endpoint.
func (s *stream) reserve() action {
	v := s.plugin.vm
	s.store, s.shared = v.storeOf(s.cfg)
	now := s.now()
	v.lastID++
	s.id = v.lastID
	if s.id%timedEvery == 1 {
		s.ask.from = v.gw.Now()
	}
	s.phase, s.ask.here = phaseReserving, true
	s.cluster.leased++
	if s.shared != nil {
		s.shared.open++
	}
	s.store.Reserve(now, s.id, &s.ask.plan, s.answer)
	if s.ask.here = false; s.ask.done {
		return s.answered()
	}
	v.wake(now, now+s.cfg.ReserveTimeout)
	return stop
}

// now returns the time. A shared store counts deadlines from it, so it has to be right.
func (s *stream) now() time.Duration {
	if s.shared != nil {
		return s.plugin.vm.read()
	}
	return s.plugin.vm.now()
}

// answer is called by the store, within the request's own callback or from outside. What is then thought of the
// request, or of a request before it in the same answer of Redis, must not keep the next one from its answer.
func (s *stream) answer(g lb.Grant, err error) {
	s.ask.done, s.ask.grant, s.ask.err = true, g, err
	if s.ask.here || s.phase != phaseReserving {
		return // it goes on in reserve, or has ended and its lease is released
	}
	s.plugin.vm.visit(s, "the answer to a reservation", func() {
		if s.answered() == proceed {
			s.Resume()
		}
	}, s.answerRecovered)
}

// answerRecovered ends an answer that panicked. There is no callback of the request to let it go on.
func (s *stream) answerRecovered() {
	defer s.Resume()
	s.recovered()
}

// answered goes on with a request whose store has answered.
func (s *stream) answered() action {
	v := s.plugin.vm
	if s.ask.from > 0 {
		v.stats.reserved(v.gw.Now() - s.ask.from)
	}
	switch {
	case errors.Is(s.ask.err, lb.ErrFull):
		s.close()
		return s.shed()
	case s.ask.err != nil:
		s.close()
		return s.pass(lb.ReasonStoreError)
	}
	s.phase, s.load = phaseLeased, s.ask.grant.Load.Requests
	s.tokens = s.ask.plan.AddedTokens(s.ask.grant.Cached)
	if s.prompted != nil && !s.prompted.uncached {
		s.prompted.cached = s.ask.plan.Prefix.Fraction(s.ask.grant.Cached)
	}
	s.chosen = s.ask.plan.Candidates[s.ask.grant.Index].Addr
	s.addr = s.chosen
	switch {
	case s.cfg.Shadow:
		s.ask.reason = lb.ReasonShadow
		s.Unsteer()
	case s.gone():
		s.release()
		return s.pass(lb.ReasonNoHealthyEndpoint)
	default:
		if err := s.Steer(s.chosen, others(&s.ask.plan, s.ask.grant.Index)); err != nil {
			v.gw.Log(Warn, "the gateway refused the destination "+s.chosen+": "+err.Error())
			s.release()
			return s.pass(lb.ReasonStoreError)
		}
	}
	s.settle(s.ask.reason)
	s.placed()
	s.opened()
	if s.asked > 0 {
		s.reweigh() // the end of the body has come while the store was asked
	}
	if s.cfg.DetailLog {
		v.gw.Log(Info, "cluster="+s.cluster.name+" "+describe(s.chosen, s.reason, s.load))
	}
	return proceed
}

// gone says whether the endpoint has left, or become unusable, since the store was asked: a gateway may fail a request
// that is sent there all the same.
func (s *stream) gone() bool {
	if s.shared == nil {
		return false
	}
	view := s.plugin.vm.gw.View(s.plugin.vm.now(), s.scope, s.cfg)
	if view == s.ask.view {
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
func (s *stream) release() {
	if s.phase == phaseLeased || s.phase == phaseReserving {
		now := s.now()
		s.close()
		s.store.Release(now, s.id)
	}
}

// close strikes the request off those that are counted.
func (s *stream) close() {
	s.phase = phasePassed
	s.answering(false)
	delete(s.plugin.vm.open, s)
	s.cluster.leased--
	if s.shared != nil {
		s.shared.open--
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
			at := (chosen + 1 + (i-1+int(p.Random>>33))%(len(p.Candidates)-1)) % len(p.Candidates)
			if c := &p.Candidates[at]; (c.Tier == p.Candidates[chosen].Tier) == same {
				out = append(out, c.Addr)
			}
		}
	}
	return out
}

// shed answers a request for which every endpoint is at its cap.
func (s *stream) shed() action {
	if s.cfg.Shadow {
		return s.pass(lb.ReasonShadow)
	}
	s.settle(lb.ReasonAtCapacity)
	headers := [][2]string{{"content-type", "application/json"}}
	if after := s.cfg.Overload.RetryAfter; after > 0 {
		headers = append(headers, [2]string{"retry-after", strconv.Itoa(int((after + time.Second - 1) / time.Second))})
	}
	s.Reply(s.cfg.Overload.Status, headers,
		`{"error":{"message":"every model server is at its limit, try again later","type":"overloaded_error","code":"at_capacity"}}`)
	return hold
}
