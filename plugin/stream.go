package main

import (
	"errors"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/config"
)

// action is what a callback asks of the gateway.
type action uint8

const (
	proceed action = iota
	hold           // keep the headers, or the body so far, until more of the request is known
	stop           // keep all of the request until it is resumed
)

// phase is how far a request has come.
type phase uint8

const (
	phaseNew       phase = iota
	phaseHeld            // waits for its body
	phaseReserving       // waits for the store
	phasePassed          // left to native balancing, or answered by us: nothing is counted
	phaseLeased          // counted at an endpoint
	phaseDone
)

// stream is one request: headers, body, plan, reserve, resume, release. It is the same on every gateway; what it does
// to the request goes through its [Stream].
type stream struct {
	Stream
	context uint32 // the gateway's
	plugin  *plugin
	phase   phase

	traits  traits
	cfg     *config.Config
	cluster *cluster
	policy  lb.Policy
	reason  lb.Reason
	settled bool // the request is counted under its reason

	scope  string // name of the cluster
	store  lb.Store
	shared *sharedStore // of which that store is the FallbackStore, nil for the embedded store
	ask    reservation
	id     lb.LeaseID

	prompted *prompted // for prefix_cache, nil where the prompt does not matter
	work     work      // with unit: tokens
	model    string    // that the request asks for, "" where that does not matter
	adapter  uint64    // that it is counted for at the chosen endpoint, 0 for none

	addr       string              // the endpoint that the lease counts at
	chosen     string              // the endpoint that was chosen
	tokens     int64               // that the lease counts for
	output     int64               // tokens that remain in flight once the first byte is there
	reports    bool                // a load report is read
	asksReport bool                // a load report was asked for that the client did not ask for
	streams    bool                // the answer was asked for as a stream of tokens
	load       int64               // requests in flight at the endpoint, this one included
	part       time.Duration       // when the latest part of the request came
	asked      time.Duration       // when all of the request was on its way, 0 before
	reached    bool                // an endpoint was tried: the response is not the gateway's alone
	status     int                 // of the response, 0 before it
	began      bool                // some of the held body is there
	received   int                 // bytes of the body so far
	late       bool                // the time for the held body is over: the next part of it decides
	firstBytes bool                // some of the response's body has passed
	first      time.Duration       // from the plan to that, 0 unless it is the first part of several of a stream
	complete   bool                // all of the response has passed
	counted    bool                // among those that its endpoint is answering
	encoded    bool                // the response is compressed
	usage      *prompt.UsageReader // of the response, nil while none was read
}

func (p *plugin) newStream(context uint32, s Stream) *stream {
	return &stream{Stream: s, context: context, plugin: p}
}

// requestHeaders is called once, with end when the request has no body.
func (s *stream) requestHeaders(end bool) action {
	if steered(s.Noted()) {
		return s.repeated()
	}
	if s.plugin.set == nil {
		return s.pass(lb.ReasonConfigInvalid)
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
	if s.scope == "" {
		s.scope = s.Cluster()
	}
	if s.scope == "" {
		return s.pass(lb.ReasonNoCluster)
	}
	if s.plugin.set.Owns(s.scope) {
		return s.refuse()
	}
	s.sent(end)
	if end || !s.readsBody() {
		return s.decide(0, true, lb.ReasonChosen)
	}
	s.traits.read(s)
	switch {
	case s.traits.opaque:
		return s.decide(0, true, lb.ReasonChosen)
	case s.traits.encoded && s.cfg.Unit != lb.Tokens:
		return s.decide(0, true, lb.ReasonChosen)
	case s.traits.encoded:
		return s.decide(0, false, lb.ReasonBodyEncoded)
	case s.traits.awaits:
		return s.decide(0, false, lb.ReasonBodyLate)
	}
	s.phase = phaseHeld
	s.HoldBody(s.cfg.MaxInspectBytes)
	s.plugin.vm.held[s] = s.plugin.vm.gw.Now() + s.cfg.BodyTimeout
	return hold
}

// readsBody reports whether the body decides where the request goes: how long it is, or which adapter it asks for.
func (s *stream) readsBody() bool {
	if s.cfg.Unit == lb.Tokens {
		return true
	}
	cl := s.plugin.vm.clusters[s.scope]
	return cl != nil && s.cfg.ReadsModel() && cl.engines.HasAdapters()
}

// match finds the configuration for the request. It returns the cluster if it had to read it.
func (s *stream) match() (cluster string) {
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

// sent is called for each part of the request, with end for the last one.
func (s *stream) sent(end bool) {
	s.part = s.plugin.vm.now()
	if end && s.asked == 0 {
		s.asked = s.part
	}
}

// requestBody is called when more of the body is there: size bytes in all while it is held, else size more.
func (s *stream) requestBody(size int, end bool) action {
	s.sent(end)
	switch s.phase {
	case phaseHeld:
	case phaseReserving:
		s.received += size
		return stop
	default:
		s.received += size
		if end {
			s.reweigh()
		}
		return proceed
	}
	first := !s.began
	s.began, s.received = true, size
	if !end && !s.late && size < s.cfg.MaxInspectBytes {
		return hold
	}
	a := s.inspect(size, end)
	if a == proceed && first && !end {
		s.ReleaseHeaders()
	}
	return a
}

// requestTrailers is called when the body was followed by trailers.
func (s *stream) requestTrailers() action {
	s.sent(true)
	switch s.phase {
	case phaseHeld:
	case phaseReserving:
		return stop
	default:
		s.reweigh()
		return proceed
	}
	return s.inspect(s.received, true)
}

// inspect decides with what is there of the body: size bytes.
func (s *stream) inspect(size int, end bool) action {
	delete(s.plugin.vm.held, s)
	most := min(size, s.cfg.MaxInspectBytes)
	body := s.RequestBody(most)
	// Before Envoy 1.33 the last frame of a held body is not shown: a body that is shorter than it says is not broken.
	info, parts, err := prompt.ReadAs(s.api(), body, end && size <= s.cfg.MaxInspectBytes && len(body) >= s.traits.length)
	reason := lb.ReasonChosen
	if s.late && !end {
		reason = lb.ReasonBodyLate
	}
	if end {
		size = max(size, s.traits.length)
	}
	switch {
	case err != nil && s.cfg.Unit != lb.Tokens: // it was read for the adapter, no more
	case errors.Is(err, prompt.ErrAmbiguous):
		reason = lb.ReasonBodyAmbiguous
	case err != nil:
		reason = lb.ReasonBodyMalformed
	default:
		s.inspected(body, &info, &parts, end && size <= len(body))
	}
	return s.decide(size, end, reason)
}

// inspected takes over what is known of a body, all of which was seen or not.
func (s *stream) inspected(body []byte, info *prompt.Info, parts *prompt.Parts, whole bool) {
	s.work = work{info: *info, seen: len(body), model: s.modelOf(body, parts)}
	if whole && !info.Media && !info.Continued && info.Shape != prompt.Unknown {
		s.work.text = info.TextBytes
	}
	if s.cfg.ReadsPrompt() {
		s.cut(body, info, parts, whole)
	}
	if s.cfg.Scrapes(s.plugin.vm.host) || s.cfg.Engines.ORCA {
		s.model = parts.ModelName(body)
	}
}

// bodyLate is called when the body did not come in time, perhaps because the gateway is set to keep it from us.
//
// Once a part of the body is held, only a callback for the next part may let the request go: Envoy, resumed from
// outside, would send what it holds and then, on a route with retries, send it again with the next part.
func (s *stream) bodyLate() {
	delete(s.plugin.vm.held, s)
	if s.phase != phaseHeld {
		return
	}
	if s.began {
		s.late = true
		return
	}
	if s.decide(0, false, lb.ReasonBodyLate) == proceed {
		s.Resume()
	}
}

// decide plans and reserves: size bytes of the body have come, all of it or not. reason is the one to count when an
// endpoint is chosen.
func (s *stream) decide(size int, ended bool, reason lb.Reason) action {
	v := s.plugin.vm
	now := v.now()
	view := v.gw.View(now, s.scope, s.cfg)
	if view == nil {
		return s.pass(lb.ReasonNoEndpoints)
	}
	if v.gw.Divided(s.scope, s.cfg) {
		return s.pass(lb.ReasonSubset)
	}
	var err error
	switch s.cluster, s.policy, err = v.cluster(s.scope, s.cfg); {
	case errors.Is(err, errClusters):
		return s.pass(lb.ReasonStoreError)
	case err != nil:
		return s.pass(lb.ReasonConfigInvalid)
	}
	s.cluster.views[view.Source] = view
	s.metered()
	r := lb.Request{Tie: v.gw.Random(), Model: s.model}
	switch {
	case s.cfg.Unit == lb.Tokens:
		s.weigh(&r, size, ended)
	case s.cluster.tokens:
		s.assume(&r)
	}
	plan, why := s.policy.Plan(now, &r, view)
	if why != lb.ReasonChosen {
		if why == lb.ReasonNoMetrics {
			s.askReport()
		}
		return s.pass(why)
	}
	if s.work.open && s.work.seen == 0 {
		plan.Tokens = openTokens
	}
	if s.prompted != nil {
		s.cluster.prompts.view = view
	}
	s.ask = reservation{plan: plan, view: view, reason: reason}
	s.output = r.OutputTokens
	return s.reserve()
}

// refuse answers a request that a route has sent to a cluster of the plugin's own, perhaps because a client named it.
func (s *stream) refuse() action {
	s.phase = phasePassed
	s.Unsteer()
	s.settle(lb.ReasonOwnCluster)
	s.Reply(403, nil, "")
	return hold
}

// pass leaves the request to the gateway's native balancing.
func (s *stream) pass(reason lb.Reason) action {
	s.phase = phasePassed
	s.Unsteer()
	s.settle(reason)
	return proceed
}

// repeated leaves the request to another instance of the plugin, in front of this one, which has counted and steered
// it.
func (s *stream) repeated() action {
	s.phase = phasePassed
	s.count(lb.ReasonAlreadyDecided)
	if v := s.plugin.vm; !v.repeats {
		v.repeats = true
		v.gw.Log(Warn, "the plugin is twice in one filter chain: the second one leaves requests to the first")
	}
	return proceed
}

// settle counts the request under its reason.
func (s *stream) settle(reason lb.Reason) {
	s.count(reason)
	s.Note(describe(s.chosen, reason, s.load))
}

func (s *stream) count(reason lb.Reason) {
	s.reason, s.settled = reason, true
	policy := ""
	if s.cfg != nil {
		policy = s.cfg.Policy
	}
	s.plugin.vm.stats.decided(policy, reason)
}

// lateRecovered ends a deadline that panicked. There is no callback of the request to let it go on.
func (s *stream) lateRecovered() {
	if !s.began {
		defer s.Resume()
	}
	s.recovered()
}

// recovered ends a callback that panicked: what was counted is given back and the request goes on natively.
func (s *stream) recovered() {
	delete(s.plugin.vm.held, s)
	s.release()
	if !s.settled {
		s.pass(lb.ReasonPanic)
	}
}
