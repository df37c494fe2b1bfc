package core

import (
	"errors"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
)

// lease is where a request is counted, and how it came to be.
type lease struct {
	vm          *VM
	cluster     *cluster // nil before the request is counted
	store       lb.Store
	redis       *redisStore // of which that store is the FallbackStore, nil for the local store
	id          lb.LeaseID
	reservation reservation
	chosen      string // the endpoint that was chosen
	load        int64  // requests in flight there, this one included
	addr        string // the endpoint at which the lease counts
	tokens      int64  // that it counts for
	answering   bool   // it is among those that the endpoint is answering
}

// reservation is what a request wants of its store, and the store's answer. The local store answers at once; Redis
// takes a while, in which the gateway holds the request.
type reservation struct {
	plan       lb.Plan
	view       *lb.View      // that the plan was made of
	reason     lb.Reason     // to count when an endpoint is chosen
	startedAt  time.Duration // 0 if its duration is not measured
	inCallback bool          // the request's own callback waits for the answer
	done       bool          // it has come
	grant      lb.Grant
	err        error
}

// open counts the request among those of this VM, at a cluster and in the store of the lease.
func (l *lease) open(cl *cluster) {
	l.cluster = cl
	cl.inflight++
	if l.redis != nil {
		l.redis.inflight++
	}
}

// now returns the time. A store in Redis counts deadlines from it, so it has to be right.
func (l *lease) now() time.Duration {
	if l.redis != nil {
		return l.vm.ReadClock()
	}
	return l.vm.now()
}

// amend changes for how many tokens the lease counts, and at which endpoint unless addr is "".
func (l *lease) amend(addr string, tokens int64) {
	l.tokens = tokens
	l.store.Amend(l.now(), l.id, addr, tokens)
}

// trackResponse counts the response, from its begin to its end, at the endpoint that answers.
func (l *lease) trackResponse(begun bool) {
	if begun != l.answering {
		l.answering = begun
		l.cluster.countResponse(l.addr, begun)
	}
}

// forgetPrompt removes the record that the endpoint at which the lease counts has the prompt, but for its first n
// blocks.
func (l *lease) forgetPrompt(n int) {
	if len(l.reservation.plan.Prefix.Blocks) > 0 && l.addr != "" {
		l.store.ForgetPrompt(l.now(), l.id, &l.reservation.plan, l.addr, n)
	}
}

// recordPrompt records that the endpoint at which the lease counts has the prompt.
func (l *lease) recordPrompt() {
	if len(l.reservation.plan.Prefix.Blocks) > 0 {
		l.store.RecordPrompt(l.now(), l.id, &l.reservation.plan, l.addr)
	}
}

// close removes the request from those that this VM counts.
func (l *lease) close() {
	l.trackResponse(false)
	l.cluster.inflight--
	if l.redis != nil {
		l.redis.inflight--
	}
}

// chosenIsGone reports whether the endpoint has left, or become unusable, while Redis decided: a gateway may fail a
// request that is sent there all the same.
func (l *lease) chosenIsGone(c *config.Config) bool {
	if l.redis == nil {
		return false
	}
	view := l.vm.gw.View(l.vm.now(), l.cluster.name, c)
	if view == l.reservation.view {
		return false
	}
	if view != nil {
		for i := range view.Endpoints {
			if e := &view.Endpoints[i]; e.Addr == l.chosen {
				return e.State != lb.Healthy && e.State != lb.Degraded
			}
		}
	}
	return true
}

// timedEvery is how many reservations there are for each one whose duration is measured.
const timedEvery = 16

// reserve has the store choose an endpoint.
func (s *Stream) reserve() Action {
	v, l := s.plugin.vm, &s.lease
	l.store, l.redis = v.stores.of(s.cfg)
	now := l.now()
	l.id = v.stores.nextID()
	if l.id%timedEvery == 1 {
		l.reservation.startedAt = v.gw.Now()
	}
	s.enter(phaseReserving)
	l.open(s.cluster)
	l.reservation.inCallback = true
	l.store.Reserve(now, l.id, &l.reservation.plan, s.granted)
	if l.reservation.inCallback = false; l.reservation.done {
		return s.finishReservation()
	}
	v.ticks.wakeAt(now, now+s.cfg.ReserveTimeout)
	return Stop
}

// granted is called by the store, within the request's own callback or from outside. One answer of Redis may serve
// several requests: a panic in one of them must not keep the others from their answers.
func (s *Stream) granted(g lb.Grant, err error) {
	r := &s.lease.reservation
	r.done, r.grant, r.err = true, g, err
	if r.inCallback || s.phase != phaseReserving {
		return // it goes on in reserve, or has ended and its lease is released
	}
	s.plugin.vm.runAs(s.context, "the answer to a reservation", func() {
		if s.finishReservation() == Proceed {
			s.Resume()
		}
	}, s.grantRecovered)
}

// grantRecovered ends an answer that panicked. There is no callback of the request to let it continue.
func (s *Stream) grantRecovered() {
	defer s.Resume()
	s.recovered()
}

// finishReservation steers a request whose store has answered.
func (s *Stream) finishReservation() Action {
	v, l := s.plugin.vm, &s.lease
	r := &l.reservation
	if r.startedAt > 0 {
		v.stats.reserved(v.gw.Now() - r.startedAt)
	}
	switch {
	case errors.Is(r.err, lb.ErrFull):
		s.closeLease()
		return s.shed()
	case r.err != nil:
		s.closeLease()
		return s.pass(lb.ReasonStoreError)
	}
	s.enter(phaseLeased)
	l.load, l.tokens = r.grant.Load.Requests, r.plan.AddedTokens(r.grant.Cached)
	if s.chain != nil && !s.chain.uncached {
		s.chain.cached = r.plan.Prefix.Fraction(r.grant.Cached)
	}
	l.chosen = r.plan.Candidates[r.grant.Index].Addr
	l.addr = l.chosen
	switch {
	case s.cfg.Shadow:
		r.reason = lb.ReasonShadow
		s.Unsteer()
	case l.chosenIsGone(s.cfg):
		s.release()
		return s.pass(lb.ReasonNoHealthyEndpoint)
	default:
		if err := s.Steer(l.chosen, others(&r.plan, r.grant.Index)); err != nil {
			v.gw.Log(Warn, "the gateway refused the destination "+l.chosen+": "+err.Error())
			s.release()
			return s.pass(lb.ReasonStoreError)
		}
	}
	s.decided(r.reason)
	s.requestPlaced()
	v.bodies.track(s)
	if s.body.endedAt > 0 {
		s.amendWork() // the end of the body has come while the store decided
	}
	if s.cfg.DetailLog {
		v.gw.Log(Info, "cluster="+s.cluster.name+" "+describe(l.chosen, s.reason, l.load))
	}
	return Proceed
}

// requestPlaced notes for health, rate_limit and metrics that the request is at the chosen endpoint, and requests a
// load report from it.
func (s *Stream) requestPlaced() {
	l := &s.lease
	if !s.cfg.Shadow { // else the gateway has chosen
		s.cluster.health.ObserveGrant(&l.reservation.plan, l.reservation.grant.Index, l.reservation.grant.Load)
		s.cluster.shares.Count(s.plugin.vm.now(), l.chosen)
		if s.cluster.metrics.neededAt > 0 {
			s.metrics.adapter = s.cluster.engines.AddRequest(s.metrics.model, l.chosen, l.tokens)
		}
	}
	s.requestReport()
}

// abandonReservation ends the wait for the store: the request is over. Its lease, should the store grant it still, is
// released.
func (s *Stream) abandonReservation() {
	s.release()
	s.decided(s.lease.reservation.reason)
}

// release ends the lease, if there is or may be one.
func (s *Stream) release() {
	if s.phase == phaseLeased || s.phase == phaseReserving {
		now := s.lease.now()
		s.closeLease()
		s.lease.store.Release(now, s.lease.id)
	}
}

// closeLease ends the phases in which the request is counted.
func (s *Stream) closeLease() {
	s.enter(phaseUncounted)
	delete(s.plugin.vm.bodies.partial, s)
	s.lease.close()
}

// others returns where retries may be sent: the candidates after the chosen one, so that not all are sent to the same,
// those of its tier first.
func others(p *lb.Plan, chosen int) []string {
	const maxOthers = 2
	var out []string
	for _, same := range [2]bool{true, false} {
		for i := 1; i < len(p.Candidates) && len(out) < maxOthers; i++ {
			// The plan's random bits were used up by the tie; rotating them by the index is enough here.
			at := (chosen + 1 + (i-1+int(p.Random>>33))%(len(p.Candidates)-1)) % len(p.Candidates)
			if c := &p.Candidates[at]; (c.Tier == p.Candidates[chosen].Tier) == same {
				out = append(out, c.Addr)
			}
		}
	}
	return out
}
