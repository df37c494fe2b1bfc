package core

import (
	"errors"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/config"
)

// phase is how far a request has come.
type phase uint8

const (
	phaseNew       phase = iota
	phaseProbing         // a probe of another region, held until the answer is known
	phaseCalling         // a call of the admission API, held until its body has come and its answer is known
	phaseReading         // held until its body, or enough of it, has come
	phaseListing         // held until it is known which models endpoints have
	phaseReserving       // held until the store has answered: at once, or after a wait in the queue of the cluster
	phaseLeased          // counted at an endpoint
	phaseUncounted       // not counted: balanced natively, or answered by the plugin, or its lease is released
	phaseDone
	phases
)

// transitions lists the phases that may follow each phase, and what leads there.
var transitions = [phases][phases]bool{
	phaseNew: {
		phaseProbing:   true, // another region asks
		phaseCalling:   true, // a call of the admission API
		phaseReading:   true, // the body is needed for the decision
		phaseListing:   true, // inside a cluster: the choice begins when the body has come
		phaseReserving: true, // the headers are enough
		phaseUncounted: true, // nothing to decide, or no endpoint: pass, refuseOwnCluster, passDuplicate, refuse
		phaseDone:      true, // the client left before the headers came
	},
	phaseProbing: {
		phaseUncounted: true, // it is answered, or over
	},
	phaseCalling: {
		phaseUncounted: true, // it is answered, or over
	},
	phaseReading: {
		phaseListing:   true, // its model is known, the lists of models are not: decide
		phaseReserving: true, // the body has come, or max_inspect_bytes of it, or body_timeout is over: decide
		phaseUncounted: true, // the same without an endpoint: pass, refuse; or the gateway has answered: abandonBody
	},
	phaseListing: {
		phaseReserving: true, // they are known, or body_timeout is over: listed
		phaseUncounted: true, // the same without an endpoint; or it is over: abandonReservation
	},
	phaseReserving: {
		phaseLeased:    true, // the store has granted a lease: finishReservation
		phaseUncounted: true, // the store has failed, or it is refused: refuse; or it is over: abandonReservation
	},
	phaseLeased: {
		phaseUncounted: true, // the lease is released: the request is over, misrouted, or cannot be steered
	},
	phaseUncounted: {
		phaseUncounted: true, // counted under its reason after its lease was released
		phaseLeased:    true, // served at home after another region has failed: followHome
		phaseReserving: true, // back at home from adopted servers that have failed: leaveAdopted
		phaseDone:      true, // the request is over
	},
}

// Action is what a callback wants of the gateway.
type Action uint8

// The actions of callbacks.
const (
	Proceed Action = iota
	Hold           // keep the headers, or the body so far, until more of the request is known
	Stop           // keep all of the request until it is resumed
)

// Stream is one request: headers, body, plan, reservation, response, release. It is the same on every gateway; what it
// does to the request goes through its [GatewayStream].
type Stream struct {
	GatewayStream
	context uint32 // the gateway's
	plugin  *Plugin
	phase   phase

	traits  traits
	what    prompt.Call // what the call makes an engine do
	pattern callPattern // of a call that no table lists
	cfg     *config.Config
	scope   string // name of the cluster
	cluster *cluster
	policy  lb.Policy
	reason  lb.Reason
	settled bool // the request is counted under its reason

	body     body         // what has come of the request
	session  session      // that it belongs to
	region   forwarding   // to or from another region
	call     *apiCall     // of the admission API, nil for any other request
	work     work         // how much work it is, with unit: tokens
	chain    *promptChain // for prefix_cache, nil where the prompt does not matter
	held     heldUse      // what it has to do with what engines keep
	facts    factUse      // what it has to do with facts about models
	metrics  metricsUse   // what it has to do with the metrics of engines
	wait     waiting      // in the queue of the cluster
	lease    lease        // where it is counted
	budget   budgetUse    // what it was charged, for token_budget
	response response     // what has come of the response

	inside *Stream // the choice of an endpoint in the chosen cluster, nil for none
	outer  *Stream // the choice that this one is inside of, nil for none
	seen   seen    // what has come of the request, for that inside
}

// enter changes the phase.
func (s *Stream) enter(next phase) {
	if !transitions[s.phase][next] {
		s.plugin.vm.gw.Log(Error, "a request in phase "+s.phase.String()+" enters "+next.String())
	}
	s.phase = next
}

func (p phase) String() string {
	return [...]string{"new", "probing", "calling", "reading", "listing", "reserving", "leased", "uncounted", "done"}[p]
}

// requestHeaders is called once, with end when the request has no body.
func (s *Stream) requestHeaders(end bool) Action {
	if steered(s.Note()) {
		return s.passDuplicate()
	}
	if a, isCall := s.meetAPI(end); isCall {
		return a
	}
	s.stripClusterHeaders()
	if s.plugin.set == nil {
		return s.pass(lb.ReasonConfigInvalid)
	}
	if a, answered := s.meetRegions(); answered {
		return a
	}
	s.scope = s.match()
	switch {
	case s.cfg == nil:
		return s.pass(lb.ReasonNoRule)
	case s.cfg.Refused:
		return s.pass(lb.ReasonConfigInvalid)
	case !s.cfg.Enabled:
		return s.pass(lb.ReasonDisabled)
	}
	if s.scope = s.scopeOf(s.scope); s.scope == "" {
		return s.pass(lb.ReasonNoCluster)
	}
	if s.plugin.set.Owns(s.scope) {
		return s.refuseOwnCluster()
	}
	s.body.arrived(s.arrived(), end)
	s.meetCall(end)
	s.session.find(s, s.cfg, nil, false)
	if s.lacksKey() && s.session.next == len(s.cfg.Session) { // else it may come with the body
		return s.refuseWithoutKey()
	}
	if end || !s.needsBody() {
		return s.decide(0, true, lb.ReasonChosen)
	}
	s.traits.read(s)
	switch {
	case s.traits.opaque:
		return s.decide(0, true, lb.ReasonChosen)
	case s.traits.parts && s.readsFacts() && !s.traits.awaits: // for its model, no more
	case s.traits.encoded && s.cfg.Unit != lb.Tokens:
		return s.decide(0, true, lb.ReasonChosen)
	case s.traits.encoded:
		return s.decide(0, false, lb.ReasonBodyEncoded)
	case s.traits.awaits:
		return s.decide(0, false, lb.ReasonBodyLate)
	}
	return s.waitForBody()
}

// arrived returns the time at which the headers have come: exactly, if the request's deadline counts from it.
func (s *Stream) arrived() time.Duration {
	now := s.plugin.vm.now()
	if s.cfg.Queue.Enabled() && s.cfg.Queue.DeadlineHeader != "" {
		now = s.plugin.vm.ReadClock()
	}
	s.body.beganAt = now
	return now
}

// match finds the configuration for the request. It returns the cluster if it had to read it.
func (s *Stream) match() (cluster string) {
	set := s.plugin.set
	if !set.HasRules() {
		s.cfg = set.Match("", "", "")
		return ""
	}
	cluster = s.Cluster()
	s.traits.read(s)
	s.cfg = set.Match(s.Route(), cluster, s.traits.authority)
	return cluster
}

// decide plans and reserves: size bytes of the body have come, all of it or not. reason is the one to count when an
// endpoint is chosen.
func (s *Stream) decide(size int, ended bool, reason lb.Reason) Action {
	v := s.plugin.vm
	now := v.now()
	if s.session.find(s, s.cfg, nil, true); s.lacksKey() {
		return s.refuseWithoutKey()
	}
	view := v.views.of(now, s.scope, s.cfg)
	if view == nil {
		return s.pass(lb.ReasonNoEndpoints)
	}
	if !s.cfg.AmongClusters() && v.gw.HasSubsets(s.scope, s.cfg) {
		return s.pass(lb.ReasonSubset)
	}
	s.seen.size, s.seen.ended = size, ended
	if s.cfg.AmongClusters() && !s.needsOwnBody() {
		reason = lb.ReasonChosen
	}
	var err error
	switch s.cluster, s.policy, err = v.clusters.get(now, s.scope, s.cfg); {
	case errors.Is(err, errClusters):
		return s.pass(lb.ReasonStoreError)
	case err != nil:
		return s.pass(lb.ReasonConfigInvalid)
	}
	s.cluster.views[view.ListID] = view
	v.scraping.neededBy(s)
	v.lists.neededBy(s)
	r := lb.Request{
		Random: v.gw.Random(), Model: s.metrics.model, Session: s.session.key, Idle: s.idle(),
	}
	switch {
	case !s.computes():
	case s.cfg.Unit == lb.Tokens:
		s.estimateWork(&r, size, ended)
	case s.cluster.tokens:
		s.assumeTypical(&r)
	}
	s.factsOf(&r, size)
	s.lease.reservation = reservation{request: r, reason: reason}
	if v.lists.awaits(s) {
		s.enter(phaseListing)
		return Stop
	}
	return s.place(view)
}

// place plans and reserves for a request of which all is known that will be.
func (s *Stream) place(view *lb.View) Action {
	now := s.plugin.vm.now()
	if why := s.makePlan(now, view); why != lb.ReasonChosen {
		if why == lb.ReasonNoMetrics {
			s.requestReport()
		}
		return s.passOrForward(why)
	}
	s.work.output = s.lease.reservation.request.OutputTokens
	return s.reserve()
}

// makePlan has the policy plan the request. It returns ReasonChosen, or why there is no plan.
func (s *Stream) makePlan(now time.Duration, view *lb.View) lb.Reason {
	r := &s.lease.reservation
	r.view = view
	plan, why := s.policy.Plan(now, &r.request, view)
	if why == lb.ReasonNoHealthyEndpoint {
		why = s.noneHealthy()
	}
	if why != lb.ReasonChosen {
		return why
	}
	if s.work.open && s.work.seen == 0 {
		plan.Tokens = openTokens
	}
	if !s.computes() {
		plan.Budget, plan.Unit = lb.Budget{}, lb.Requests // tokens say nothing of it
	}
	if s.chain != nil {
		s.cluster.prompts.view = view
	}
	s.planHeld(now, &plan)
	r.plan = plan
	s.lease.plannedAt = now
	return lb.ReasonChosen
}

// noneHealthy returns the reason for a request for which there is nothing healthy to choose.
func (s *Stream) noneHealthy() lb.Reason {
	if s.cfg.AmongClusters() {
		return lb.ReasonNoClusterAvailable
	}
	return lb.ReasonNoHealthyEndpoint
}

// refuseOwnCluster refuses a request that a route has sent to a cluster of the plugin's own, perhaps because a client
// named it.
func (s *Stream) refuseOwnCluster() Action {
	s.enter(phaseUncounted)
	s.Unsteer()
	s.decided(lb.ReasonOwnCluster)
	s.Reply(403, nil, "")
	return Hold
}

// lacksKey reports whether cluster_hash is to choose by a key that was not found so far.
func (s *Stream) lacksKey() bool { return s.cfg.Clusters.Hashed && s.session.key == 0 && !s.cfg.Shadow }

// refuseWithoutKey refuses a request that has not the header, or other key, by which cluster_hash chooses, as Higress's
// plugin does.
func (s *Stream) refuseWithoutKey() Action {
	s.enter(phaseUncounted)
	s.Unsteer()
	s.decided(lb.ReasonNoHashHeader)
	s.Reply(403, nil, "hash header required")
	return Hold
}

// pass lets the request fall back to the gateway's native balancing.
func (s *Stream) pass(reason lb.Reason) Action {
	s.enter(phaseUncounted)
	if s.isAdopted() && (reason == lb.ReasonNoEndpoints || reason == lb.ReasonNoHealthyEndpoint) {
		return s.leaveAdopted()
	}
	s.unsteer()
	s.decided(reason)
	return Proceed
}

// passOrForward does so with a request that has no plan. If there is no healthy endpoint, another region may have.
func (s *Stream) passOrForward(reason lb.Reason) Action {
	if reason == lb.ReasonNoHealthyEndpoint {
		if a, forwarded := s.forward(); forwarded {
			return a
		}
	}
	return s.pass(reason)
}

// passDuplicate leaves the request to another instance of the plugin, in front of this one, which has counted and
// steered it.
func (s *Stream) passDuplicate() Action {
	s.enter(phaseUncounted)
	s.count(lb.ReasonAlreadyDecided)
	if v := s.plugin.vm; !v.duplicate {
		v.duplicate = true
		v.gw.Log(Warn, "the plugin is twice in one filter chain: the second one leaves requests to the first")
	}
	return Proceed
}

// decided counts the request under its reason, and writes it to the access log.
func (s *Stream) decided(reason lb.Reason) {
	s.count(reason)
	s.SetNote(s.describe() + s.wait.text())
}

func (s *Stream) count(reason lb.Reason) {
	s.reason, s.settled = reason, true
	policy := ""
	if s.cfg != nil {
		policy = s.cfg.Policy
	}
	s.plugin.vm.stats.decided(policy, reason)
}

// recovered ends a callback that panicked: the lease is released, and the request falls back to native balancing.
func (s *Stream) recovered() {
	if s.outer != nil && s.outer.inside != s { // it has left its part to the outer choice
		s.outer.recovered()
		return
	}
	s.plugin.vm.bodies.stopReading(s)
	if s.call != nil {
		s.callRecovered()
		return
	}
	s.release()
	if !s.settled {
		s.pass(lb.ReasonPanic)
	}
	if s.inside != nil && s.inside.phase != phaseDone {
		s.inside.recovered()
	}
}
