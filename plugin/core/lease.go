package core

import (
	"slices"
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
	plannedAt   time.Duration // when the plan was made
	chosen      string        // the endpoint, or the cluster, that was chosen
	load        int64         // requests in flight there, this one included
	addr        string        // the endpoint, or the cluster, at which the lease counts
	steeredAt   time.Duration // when the request was sent to a cluster, 0 if none was chosen
	tokens      int64         // that it counts for
	overflows   int           // how often it did not fit into the cluster that was granted
	answering   bool          // it is among those that the endpoint is answering
}

// reservation is what a request wants of its store, and the store's answer. The local store answers at once; Redis
// takes a while, in which the gateway holds the request.
type reservation struct {
	request    lb.Request // what the policy knows of it
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

// now returns the time. A store in Redis counts deadlines from it, and every store waits and refills budgets, so it has
// to be right.
func (l *lease) now() time.Duration {
	if p := &l.reservation.plan; l.redis != nil || p.Wait.Waits() || p.HasBudget() {
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

// isGone reports whether an endpoint has left, or become unusable, while Redis decided or the request waited: a gateway
// may fail a request that is sent there all the same.
func (l *lease) isGone(addr string, c *config.Config) bool {
	queued := l.reservation.grant.Queued
	if l.redis == nil && !queued {
		return false
	}
	if health := healthOf(c); queued && l.cluster.health.EjectedSince(l.plannedAt, l.vm.now(), addr, &health) {
		return true
	}
	view := l.vm.views.of(l.vm.now(), l.cluster.name, c)
	if view == l.reservation.view {
		return false
	}
	if view != nil {
		for i := range view.Endpoints {
			if e := &view.Endpoints[i]; e.Addr == addr {
				// a circuit breaker that is open by now may have been opened by this very request
				return e.State != lb.Healthy && e.State != lb.Degraded && !(c.AmongClusters() && e.State == lb.Ejected)
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
	if s.cfg.Queue.Enabled() && !s.cfg.Shadow && !s.idle() {
		now = v.ReadClock()
		s.usesQueue()
		if why := s.prepareWait(now); why != lb.ReasonChosen {
			s.enter(phaseUncounted)
			return s.refuse(why, 0)
		}
	}
	s.enter(phaseReserving)
	l.open(s.cluster)
	return s.reserveTenant(now)
}

// submit gives the plan to the store.
func (s *Stream) submit(now time.Duration) Action {
	v, l := s.plugin.vm, &s.lease
	r, id := &l.reservation, v.stores.nextID()
	l.id, r.done, r.startedAt = id, false, 0
	if id%timedEvery == 1 {
		r.startedAt = v.gw.Now()
	}
	if a, forwarded := s.forwardBack(); forwarded {
		return a
	}
	r.inCallback = true
	l.store.Reserve(now, id, &r.plan, func(g lb.Grant, err error) {
		if l.id == id { // else it was planned again since
			s.granted(g, err)
		}
	})
	if r.inCallback = false; r.done {
		return s.finishReservation()
	}
	if s.isQueued() {
		if a, forwarded := s.forward(); forwarded {
			return a
		}
	}
	if l.redis != nil {
		v.ticks.wakeAt(now, now+s.cfg.ReserveTimeout)
	}
	if s.mayWait() {
		s.prepareInside()
		v.ticks.wakeAt(now, now+lb.PollPeriod)
		r.inCallback = true
		v.waiters.add(s)
		if r.inCallback = false; r.done { // it was granted what others have left
			return s.finishReservation()
		}
	}
	return Stop
}

// granted is called by the store, within the request's own callback or from outside. One answer of Redis, or the end of
// another request, may serve several requests: a panic in one of them must not keep the others from their answers.
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
	v.waiters.remove(s)
	if r.startedAt > 0 && !r.grant.Queued {
		v.stats.reserved(v.gw.Now() - r.startedAt)
	}
	s.waitEnded(&r.grant, r.err)
	if r.err != nil {
		if isFullOrLate(r.err) {
			if a, forwarded := s.forward(); forwarded {
				return a
			}
		}
		s.closeLease()
		if why := s.wait.refusalOf(r.err); why != lb.ReasonStoreError {
			return s.refuseFull(why, r.grant.Expected)
		}
		return s.pass(lb.ReasonStoreError)
	}
	addr := r.plan.Candidates[r.grant.Index].Addr
	gone := !s.cfg.Shadow && l.isGone(addr, s.cfg)
	if gone && r.grant.Queued {
		s.undoGrant(addr)
		return s.reserveAgain()
	}
	if !gone && s.overflows(addr) {
		return s.chooseAnother(addr)
	}
	return s.leased(addr, gone)
}

// leased steers a request that is counted at an endpoint, which may be gone by now.
func (s *Stream) leased(addr string, gone bool) Action {
	v, l := s.plugin.vm, &s.lease
	r := &l.reservation
	s.enter(phaseLeased)
	l.load, l.tokens = r.grant.Load.Requests, r.plan.AddedTokens(r.grant.Cached)
	if s.chain != nil && !s.chain.uncached {
		s.chain.cached = r.plan.Prefix.Fraction(r.grant.Cached)
	}
	l.chosen, l.addr = addr, addr
	s.charged(addr)
	switch {
	case s.cfg.Shadow:
		r.reason = lb.ReasonShadow
		s.unsteer()
	case gone:
		s.release()
		return s.pass(s.noneHealthy())
	default:
		if err := s.steer(); err != nil {
			v.gw.Log(Warn, "the gateway refused the destination "+l.chosen+": "+err.Error())
			s.release()
			return s.pass(lb.ReasonStoreError)
		}
	}
	r.reason = s.heldPlaced(r.reason)
	s.sessionPlaced()
	s.decided(r.reason)
	s.countWaited()
	s.requestPlaced()
	v.bodies.track(s)
	if s.body.endedAt > 0 {
		s.amendWork() // the end of the body has come while the store decided
	}
	if s.cfg.DetailLog {
		v.gw.Log(Info, "cluster="+s.cluster.name+" "+s.describe())
	}
	return s.chooseInside()
}

// placedAt returns when the request was placed: those that had to wait, after that.
func (s *Stream) placedAt() time.Duration { return max(s.lease.plannedAt, s.body.grantedAt) }

// requestPlaced notes for health, rate_limit and metrics that the request is at the chosen endpoint, and requests a
// load report from it.
func (s *Stream) requestPlaced() {
	l := &s.lease
	if s.idle() {
		return
	}
	if !s.cfg.Shadow { // else the gateway has chosen
		s.cluster.health.ObserveGrant(&l.reservation.plan, l.reservation.grant.Index, l.reservation.grant.Load)
		s.cluster.shares.Count(s.plugin.vm.now(), l.chosen)
		if s.cluster.metrics.neededAt > 0 {
			s.metrics.adapter = s.cluster.engines.AddRequest(s.metrics.model, l.chosen, l.tokens)
		}
	}
	s.requestReport()
}

// abandonReservation ends the wait for the store, or for lists of models: the request is over. Its lease, should the
// store grant it still, is released.
func (s *Stream) abandonReservation() {
	why := s.lease.reservation.reason
	switch {
	case s.phase == phaseListing:
		s.enter(phaseUncounted)
	case s.isQueued():
		why = lb.ReasonLeftQueue
		s.leftQueue()
	}
	s.release()
	s.decided(why)
}

// release ends the lease, if there is or may be one.
func (s *Stream) release() {
	if s.phase == phaseLeased || s.phase == phaseReserving {
		now := s.lease.now()
		s.closeLease()
		if s.lease.id != 0 { // else it was not counted beyond its tenant
			s.lease.store.Release(now, s.lease.id)
		}
	}
}

// closeLease ends the phases in which the request is counted. What it was charged is given back unless it is settled.
func (s *Stream) closeLease() {
	s.enter(phaseUncounted)
	delete(s.plugin.vm.bodies.partial, s)
	s.plugin.vm.waiters.remove(s)
	s.lease.giveBack(&s.budget.target)
	s.endTenant()
	s.lease.close()
}

// others returns where retries may be sent: the candidates after the chosen one, so that not all are sent to the same,
// those of its tier first; those of its session in their order.
func others(p *lb.Plan, chosen int) []string {
	const maxOthers = 2
	order := p.Home.Order
	at := 1 + slices.Index(order, uint16(chosen)) // those in front of it were too busy
	out := make([]string, 0, maxOthers)
	for _, part := range [2][]uint16{order[at:], order[:max(0, at-1)]} {
		for _, i := range part[:min(len(part), maxOthers-len(out))] {
			out = append(out, p.Candidates[i].Addr)
		}
	}
	for _, same := range [2]bool{true, false} {
		for i := 1; i < len(p.Candidates) && len(out) < maxOthers; i++ {
			// The plan's random bits were used up by the tie; rotating them by the index is enough here.
			at := (chosen + 1 + (i-1+int(p.Random>>33))%(len(p.Candidates)-1)) % len(p.Candidates)
			c := &p.Candidates[at]
			if (c.Tier == p.Candidates[chosen].Tier) == same && !slices.Contains(out, c.Addr) {
				out = append(out, c.Addr)
			}
		}
	}
	return out
}
