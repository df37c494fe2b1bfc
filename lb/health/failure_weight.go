package health

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// A request may fail because of its endpoint, because of the request itself, or because everything fails. How often
// such requests fail at other endpoints distinguishes these cases. So a failure adds to the endpoint's score
//
//	log(failingShare / elsewhere) / log(failingShare / minFailureShare)
//
// which is the log-likelihood ratio of "this endpoint is failing" against "it is like the others", scaled so that a
// failure of a request that fails nowhere else weighs 1. A success lowers the score by the same rule. A sum of such
// weights that never falls below 0 is Page's CUSUM test for a change (Page, "Continuous Inspection Schemes", Biometrika
// 1954): an endpoint that fails everything is ejected after the configured number of failures, one that fails clearly
// more than a third of what others serve after more of them, and one that only gets requests that fail anywhere never.
//
// elsewhere is the share of such outcomes at the other endpoints: of all requests, of those of the same client, or of
// those for the same model, whichever is highest. From uninformativeShare on, a failure has no weight.
const (
	// failingShare is the share of its requests that an endpoint to be ejected is assumed to fail.
	failingShare = 0.9
	// minFailureShare is the lowest share of failures that is assumed elsewhere. A lower one would give a single
	// failure too much weight.
	minFailureShare = 0.02
	// uninformativeShare is the share of failures elsewhere from which on a failure has no weight.
	uninformativeShare = 0.5
	// typicalRejections is the share of rejected requests that is assumed elsewhere for a client without history:
	// the most likely cause of a 4xx is the request.
	typicalRejections = 0.3
	// rateGain is the weight of the latest outcome in a failure rate.
	rateGain = 0.3
	// longRateGain is its weight in the long-term failure rate, which a single failure hardly changes.
	longRateGain = 1.0 / 32
	// rateHalfLife is how fast a failure rate decays without outcomes. Otherwise an endpoint with little weight would
	// get too few requests to recover.
	rateHalfLife = 5 * time.Second
	// maxCompared is with how many other endpoints one is compared at most.
	maxCompared = 33
)

const (
	// maxSources is how many sources of failures are remembered per endpoint.
	maxSources = 3
	// successWindow is how long a success of another source shows that the endpoint works.
	successWindow = 30 * time.Second
	// A source whose requests fail, while those of others are served, counts in full once per sourceInterval;
	// within it a further failure counts for repeatWeight.
	sourceInterval = 5 * time.Second
	repeatWeight   = 1.0 / 32
	// retriedFor is how long an endpoint must have served nothing, with all its requests served elsewhere by
	// retries, before these count as failures.
	retriedFor = 30 * time.Second
	// minTimeout is the shortest wait for a response for which a timeout counts. Clients may be allowed to set
	// shorter timeouts.
	minTimeout = time.Second
)

// suspicion is the evidence for ejecting an endpoint.
type suspicion struct {
	score          float64 // weights of failures less those of successes, at least 0
	probation      bool    // returned from an ejection: a success clears the score
	retried        float64 // weights of requests that retries served elsewhere, since the last success
	retriedSince   time.Duration
	firstClient    uint64               // client of the first failure since the last success
	severalClients bool                 // other clients have failed since then
	failedSources  [maxSources]sighting // sources of failures, with the time of the last full weight; latest first
	servedSources  [2]sighting          // the latest successes of two different sources, latest first
}

// sighting is when a source was last seen.
type sighting struct {
	source uint64
	at     time.Duration
}

// Observe learns from the outcome of a request that was balanced with the given configuration.
func (h *Health) Observe(now time.Duration, o lb.Outcome, config *ClusterConfig) {
	o.Addr = lb.ServerOf(o.Addr)
	e, ok := h.endpoints[o.Addr]
	switch {
	case !ok || o.Verdict == lb.Neutral:
	case o.Verdict == lb.Success:
		h.observeSuccess(now, e, &o)
	case o.Verdict == lb.TimedOut && (o.WaitedFor < minTimeout || o.Busy || e.servedSince(now-o.WaitedFor)):
	default:
		h.observeFailure(now, e, &o, &config.Health)
	}
}

// NeedsClient reports whether something failed recently, so that [lb.Outcome.Client] is needed for successes too.
// Without failures the gateway can save the call that determines it.
func (h *Health) NeedsClient(now time.Duration) bool {
	return h.lastFailureAt > 0 && now-h.lastFailureAt < groupWindow
}

// WeightOf returns the weight that a failure would have, from 0 to 1: how surely it is the endpoint's.
func (h *Health) WeightOf(now time.Duration, o *lb.Outcome) float64 {
	e := h.of(o.Addr)
	if e == nil {
		return 0
	}
	return failureWeight(h.failuresElsewhere(now, e, o))
}

func (h *Health) observeSuccess(now time.Duration, e *endpointHealth, o *lb.Outcome) {
	before := e.failureRate(now)
	e.rate, e.rateAt = before*(1-rateGain), now
	e.longRate *= 1 - longRateGain
	if e.score > 0 {
		e.score = max(0, e.score-successWeight(h.failuresElsewhere(now, e, o)))
	}
	if e.probation {
		e.score, e.probation = 0, false
	}
	e.retried, e.firstClient, e.severalClients = 0, 0, false
	if source := originOf(o); e.servedSources[0].source != source {
		e.servedSources[1], e.servedSources[0] = e.servedSources[0], sighting{source, now}
	}
	e.servedSources[0].at = now
	if now-e.until > forgetEjectionsAfter {
		e.ejection = ejection{}
	}
	if h.NeedsClient(now) {
		h.groups.record(now, clientOf(o), o, 0)
		h.groups.record(now, modelOf(o), o, 0)
	}
	if before > 0 {
		h.invalidate()
	}
}

func (h *Health) observeFailure(now time.Duration, e *endpointHealth, o *lb.Outcome, cfg *Config) {
	weight := failureWeight(h.failuresElsewhere(now, e, o))
	before := e.failureRate(now)
	e.rate, e.rateAt = before+rateGain*weight*(1-before), now
	e.longRate += longRateGain * (weight - e.longRate)
	h.lastFailureAt = now
	// A client whose requests fail anywhere is as little evidence against its model as against an endpoint.
	byClient := h.groups[clientOf(o)].failuresElsewhere(now, o, minFailureShare)
	h.groups.record(now, clientOf(o), o, 1)
	h.groups.record(now, modelOf(o), o, failureWeight(max(byClient, minFailureShare)))
	h.invalidate()
	if e.isRepeat(now, o) {
		weight *= repeatWeight
	}
	score := e.addFailure(now, o, weight)
	if cfg.ConsecutiveFailures > 0 && score >= float64(cfg.ConsecutiveFailures) && now >= e.ejectedUntil(cfg) {
		h.eject(now, e, int(score), cfg)
		h.noteEjection(now, o.Addr, e)
	}
}

// addFailure adds the weight of a failure and returns the score that may eject the endpoint, 0 for an outcome that
// cannot.
func (e *endpointHealth) addFailure(now time.Duration, o *lb.Outcome, weight float64) float64 {
	switch {
	case kindOf(o.Verdict) != overloadKind:
		e.score += weight
		return e.score
	case o.Verdict == lb.Retried && !o.Busy:
		if e.retried == 0 {
			e.retriedSince = now
		}
		e.retried += weight
		if now-e.retriedSince >= retriedFor {
			return e.retried
		}
	case o.Verdict == lb.Retried:
		e.retried = 0
	}
	return 0
}

// failureWeight returns the weight of a failure, from 0 to 1, if such requests fail elsewhere with the given share.
func failureWeight(elsewhere float64) float64 {
	if elsewhere >= uninformativeShare {
		return 0
	}
	return math.Log(failingShare/elsewhere) / math.Log(failingShare/minFailureShare)
}

// successWeight returns the weight of a success, in the same unit.
func successWeight(elsewhere float64) float64 {
	return math.Log((1-elsewhere)/(1-failingShare)) / math.Log(failingShare/minFailureShare)
}

// isRepeat reports whether a failure repeats one of the same source, and records its source. While other sources are
// served, a source counts in full only once per sourceInterval: a policy that sends equal prefixes to one endpoint
// would otherwise let one client eject it with bad requests. Once several clients have failed since the last success,
// the source is not the cause.
func (e *endpointHealth) isRepeat(now time.Duration, o *lb.Outcome) bool {
	if e.firstClient == 0 {
		e.firstClient = o.Client
	}
	e.severalClients = e.severalClients || o.Client != e.firstClient
	source := originOf(o)
	at := maxSources - 1
	for i, s := range e.failedSources {
		if s.at > 0 && s.source == source {
			at = i
		}
	}
	last := e.failedSources[at]
	known := source != 0 && last.source == source && now-last.at < sourceInterval
	if known && !e.severalClients && e.servedOthers(now, source) {
		return true
	}
	copy(e.failedSources[1:at+1], e.failedSources[:at])
	e.failedSources[0] = sighting{source, now}
	return false
}

// originOf returns what identifies where the request came from: the beginning of its prompt, else its client; 0 if
// neither is known.
func originOf(o *lb.Outcome) uint64 {
	if o.Source != 0 {
		return o.Source
	}
	return o.Client
}

// servedOthers reports whether a request of another known source was served within successWindow.
func (e *endpointHealth) servedOthers(now time.Duration, source uint64) bool {
	for _, s := range e.servedSources {
		if s.source != 0 && s.source != source && now-s.at < successWindow {
			return true
		}
	}
	return false
}

// servedSince reports whether a request was served at or after then.
func (e *endpointHealth) servedSince(then time.Duration) bool {
	return e.servedSources[0].at > 0 && e.servedSources[0].at >= then
}

// failureRate returns the failure rate, decayed until now; below 1 % it is 0.
func (e *endpointHealth) failureRate(now time.Duration) float64 {
	rate := e.rate
	if rate > 0 {
		rate *= math.Exp2(-float64(max(0, now-e.rateAt)) / float64(rateHalfLife))
	}
	if rate < 0.01 {
		return 0
	}
	return rate
}

// failuresElsewhere returns the share of requests like this one that fail at other endpoints than e, from
// minFailureShare to failingShare.
func (h *Health) failuresElsewhere(now time.Duration, e *endpointHealth, o *lb.Outcome) float64 {
	share := max(h.medianFailureRate(now, e), minFailureShare)
	prior := share
	if o.Verdict == lb.Rejected {
		prior = max(prior, typicalRejections)
	}
	if o.Client == 0 && o.Model == 0 {
		share = prior
	}
	for _, key := range [...]groupKey{clientOf(o), modelOf(o)} {
		if key.id != 0 {
			share = max(share, h.groups[key].failuresElsewhere(now, o, prior))
		}
	}
	return min(share, failingShare)
}
