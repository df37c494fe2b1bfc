package lb

import (
	"math"
	"slices"
	"time"
)

// A request may end badly because of the endpoint, because of the request, or because all is wrong everywhere. What
// tells them apart is where else it happens. So a bad outcome weighs
//
//	log(failing / elsewhere) / log(failing / usual)
//
// against the endpoint: the logarithm of how much likelier it is at an endpoint that is failing than at one that is
// like the others, where 1 is a failure of a request that nowhere else fails. A success weighs the other way by the
// same rule. Adding such weights up and never going below 0 is Page's test for a change (Page, Biometrika 1954): an
// endpoint that fails clearly more than a third of what others serve is ejected after a while, one that fails
// everything after as many failures as configured, and one that merely gets requests that fail anywhere never.
//
// elsewhere is the share of such outcomes at the other endpoints: of all requests, of those of the same client and of
// those for the same model, whichever is most. What fails half of the time elsewhere says nothing about an endpoint.
const (
	// failingShare is the share of its requests that an endpoint fails which is to be ejected.
	failingShare = 0.9
	// minFailureShare is the least share of failures that is assumed elsewhere. Below it a single failure would say too
	// much.
	minFailureShare = 0.02
	// uninformativeShare is the share of failures elsewhere from which on a failure says nothing about an endpoint.
	uninformativeShare = 0.5
	// typicalRejections is the share of requests that is assumed to be refused anywhere, of a client of which nothing else
	// is known: a 4xx says first of all that the request is wrong.
	typicalRejections = 0.3
	// rateGain is the weight of the newest outcome in a rate.
	rateGain = 0.3
	// longRateGain is the same in the rate over more outcomes, in which one failure says little.
	longRateGain = 1.0 / 32
	// rateHalfLife is how fast a failure rate is forgotten while there are no outcomes. Without it an endpoint that
	// lost its weight would hardly ever be tried again, and never learn that it is well.
	rateHalfLife = 5 * time.Second
	// maxCompared is with how many other endpoints one is compared at most.
	maxCompared = 33
)

const (
	// groupWindow is how long an outcome of a client or a model counts.
	groupWindow = time.Minute
	// maxGroups is how many clients and models are known at a time.
	maxGroups = 256
	// maxGroupEndpoints is at how many endpoints a client or a model is followed, the latest.
	maxGroupEndpoints = 16
	// maxGroupOutcomes is over how many outcomes at an endpoint a share is averaged. Few would make it jump.
	maxGroupOutcomes = 20
	// maxSources is how many sources that failed at an endpoint are remembered.
	maxSources = 3
)

const (
	// successWindow is how long a success of another source speaks for an endpoint.
	successWindow = 30 * time.Second
	// sourceInterval is how long a source whose requests fail, while those of others are served, does not count in full
	// again, and sourceAgain what it counts then.
	sourceInterval = 5 * time.Second
	repeatWeight   = 1.0 / 32
	// retriedFor is how long an endpoint must have served nothing, while all it got was moved elsewhere, to count as
	// failing.
	retriedFor = 30 * time.Second
	// minTimeout is how long the gateway must have waited for a response at least for a time-out to count. What clients
	// may be allowed to set is less.
	minTimeout = time.Second
)

// suspicion is what speaks for an ejection.
type suspicion struct {
	score          float64 // weights of failures, less those of successes
	probation      bool    // it is back from an ejection: a success clears the score
	retried        float64 // weights of requests that retries served elsewhere, since the last success
	retriedSince   time.Duration
	firstClient    uint64               // of the first failure since the last success
	severalClients bool                 // others have failed since then
	failedSources  [maxSources]sighting // sources whose failures count, and when they last did in full; the latest first
	servedSources  [2]sighting          // the latest successes of two different sources, the latest one first
}

// sighting is when a source was last seen.
type sighting struct {
	source uint64
	at     time.Duration
}

// groupKey names a client or a model.
type groupKey struct {
	model bool
	id    uint64 // 0: not known
}

func (o *Outcome) client() groupKey { return groupKey{false, o.Client} }
func (o *Outcome) model() groupKey  { return groupKey{true, o.Model} }

// group is a client or a model: how its requests end at each endpoint.
type group struct {
	lastAt    time.Duration // of the last outcome
	endpoints []groupEndpoint
}

type groupEndpoint struct {
	addr     string
	badShare [outcomeKinds]float64 // share of each kind of bad outcome, over the latest ones
	outcomes float64               // of outcomes, groupOutcomes at most
	lastAt   time.Duration
}

// outcomeKind is a kind of bad outcome. What is refused elsewhere does not excuse what fails here.
type outcomeKind uint8

const (
	rejectionKind outcomeKind = iota
	overloadKind
	failureKind
	outcomeKinds
)

func (v Verdict) kind() outcomeKind {
	switch v {
	case Rejected:
		return rejectionKind
	case Overload, Retried:
		return overloadKind
	}
	return failureKind
}

// NeedsClient says whether clients matter at the moment: whether [Outcome.Client] is of use for a success, too. Finding
// it out costs the gateway a call, which requests are spared as long as all goes well.
func (h *Health) NeedsClient(now time.Duration) bool {
	return h.lastFailureAt > 0 && now-h.lastFailureAt < groupWindow
}

// Observe learns from the outcome of a request that was balanced under the given terms.
func (h *Health) Observe(now time.Duration, o Outcome, terms *ClusterConfig) {
	t, ok := h.endpoints[o.Addr]
	switch {
	case !ok || o.Verdict == Neutral:
	case o.Verdict == Success:
		h.observeSuccess(now, t, &o)
	case o.Verdict == TimedOut && (o.WaitedFor < minTimeout || o.Busy || t.servedSince(now-o.WaitedFor)):
	default:
		h.observeFailure(now, t, &o, &terms.Health)
	}
}

func (h *Health) observeSuccess(now time.Duration, t *endpointHealth, o *Outcome) {
	before := t.failureRate(now)
	t.rate, t.rateAt = before*(1-rateGain), now
	t.longRate *= 1 - longRateGain
	if t.score > 0 {
		t.score = max(0, t.score-successWeight(h.failuresElsewhere(now, t, o)))
	}
	if t.probation {
		t.score, t.probation = 0, false
	}
	t.retried, t.firstClient, t.severalClients = 0, 0, false
	if source := o.origin(); t.servedSources[0].source != source {
		t.servedSources[1], t.servedSources[0] = t.servedSources[0], sighting{source, now}
	}
	t.servedSources[0].at = now
	if t.times > 0 && now-t.until > forgetEjectionsAfter {
		t.ejection = ejection{}
	}
	if h.NeedsClient(now) {
		h.recordInGroup(now, o.client(), o, 0)
		h.recordInGroup(now, o.model(), o, 0)
	}
	if before > 0 {
		h.invalidate()
	}
}

func (h *Health) observeFailure(now time.Duration, t *endpointHealth, o *Outcome, cfg *HealthConfig) {
	weight := failureWeight(h.failuresElsewhere(now, t, o))
	before := t.failureRate(now)
	t.rate, t.rateAt = before+rateGain*weight*(1-before), now
	t.longRate += longRateGain * (weight - t.longRate)
	h.lastFailureAt = now
	// A client whose requests fail anywhere says as little about its model as about an endpoint.
	byClient := h.groups[o.client()].failuresElsewhere(now, o, minFailureShare)
	h.recordInGroup(now, o.client(), o, 1)
	h.recordInGroup(now, o.model(), o, failureWeight(max(byClient, minFailureShare)))
	h.invalidate()
	if t.isRepeat(now, o) {
		weight *= repeatWeight
	}
	against := 0.0 // what may eject it
	switch {
	case o.Verdict.kind() != overloadKind:
		t.score += weight
		against = t.score
	case o.Verdict == Retried && !o.Busy:
		if t.retried == 0 {
			t.retriedSince = now
		}
		t.retried += weight
		if now-t.retriedSince >= retriedFor {
			against = t.retried
		}
	case o.Verdict == Retried:
		t.retried = 0
	}
	if cfg.ConsecutiveFailures > 0 && against >= float64(cfg.ConsecutiveFailures) && now >= t.ejectedUntil(cfg) {
		h.eject(now, t, int(against), cfg)
	}
}

// failureWeight is what a bad outcome weighs when such requests end badly elsewhere with the given share, from 0 to
// 1.
func failureWeight(elsewhere float64) float64 {
	if elsewhere >= uninformativeShare {
		return 0
	}
	return math.Log(failingShare/elsewhere) / math.Log(failingShare/minFailureShare)
}

// successWeight is what a success weighs, in the same unit.
func successWeight(elsewhere float64) float64 {
	return math.Log((1-elsewhere)/(1-failingShare)) / math.Log(failingShare/minFailureShare)
}

// isRepeat says whether a bad outcome repeats what is known, and notes its source. While others are served, a source
// counts in full only once in a while: with a policy that sends what begins alike to the same endpoint, one client
// could eject it by bad requests. Once several clients have failed since the last success, it is not the source.
func (t *endpointHealth) isRepeat(now time.Duration, o *Outcome) bool {
	if t.firstClient == 0 {
		t.firstClient = o.Client
	}
	t.severalClients = t.severalClients || o.Client != t.firstClient
	source := o.origin()
	at := maxSources - 1
	for i, s := range t.failedSources {
		if s.at > 0 && s.source == source {
			at = i
		}
	}
	last := t.failedSources[at]
	if source != 0 && last.source == source && now-last.at < sourceInterval && !t.severalClients && t.servedOthers(now, source) {
		return true
	}
	copy(t.failedSources[1:at+1], t.failedSources[:at])
	t.failedSources[0] = sighting{source, now}
	return false
}

// origin returns what tells where the request came from: the beginning of its prompt, else its client, 0 if neither is
// known.
func (o *Outcome) origin() uint64 {
	if o.Source != 0 {
		return o.Source
	}
	return o.Client
}

// servedOthers says whether a request that is known to be of another source was served a while ago at most.
func (t *endpointHealth) servedOthers(now time.Duration, source uint64) bool {
	for _, s := range t.servedSources {
		if s.source != 0 && s.source != source && now-s.at < successWindow {
			return true
		}
	}
	return false
}

// servedSince says whether a request was served since then.
func (t *endpointHealth) servedSince(then time.Duration) bool {
	return t.servedSources[0].at > 0 && t.servedSources[0].at >= then
}

// failureRate is the failure rate as it is now, 0 once it is too small to matter.
func (t *endpointHealth) failureRate(now time.Duration) float64 {
	rate := t.rate
	if rate > 0 {
		rate *= math.Exp2(-float64(max(0, now-t.rateAt)) / float64(rateHalfLife))
	}
	if rate < 0.01 {
		return 0
	}
	return rate
}

// failuresElsewhere returns the share of requests like this one that end badly at other endpoints than t, within the bounds
// of the weights.
func (h *Health) failuresElsewhere(now time.Duration, t *endpointHealth, o *Outcome) float64 {
	share := max(h.medianFailureRate(now, t), minFailureShare)
	usual := share
	if o.Verdict == Rejected {
		usual = max(usual, typicalRejections)
	}
	if o.Client == 0 && o.Model == 0 {
		share = usual
	}
	for _, key := range [...]groupKey{o.client(), o.model()} {
		if key.id != 0 {
			share = max(share, h.groups[key].failuresElsewhere(now, o, usual))
		}
	}
	return min(share, failingShare)
}

// failuresElsewhere returns the share of outcomes like this one of the group, at the endpoint in the middle of the others
// that it was seen at. What is hardly known of an endpoint is taken to be as usual, and so is all of a group that is
// not known.
func (g *group) failuresElsewhere(now time.Duration, o *Outcome, usual float64) float64 {
	var shares [maxGroupEndpoints]float64
	n := 0
	if g != nil {
		for i := range g.endpoints {
			if e := &g.endpoints[i]; e.addr != o.Addr && now-e.lastAt < groupWindow {
				shares[n] = (usual + e.outcomes*e.shareLike(o)) / (1 + e.outcomes)
				n++
			}
		}
	}
	if n == 0 {
		return usual
	}
	slices.Sort(shares[:n])
	return (shares[(n-1)/2] + shares[n/2]) / 2
}

// shareLike returns the share of outcomes like this one; of a success, that of the kind of bad ones that there are most of.
func (e *groupEndpoint) shareLike(o *Outcome) float64 {
	if o.Verdict == Success {
		return slices.Max(e.badShare[:])
	}
	return e.badShare[o.Verdict.kind()]
}

// recordInGroup remembers how a request ended for its client or its model, from 0 for well to 1 for badly.
func (h *Health) recordInGroup(now time.Duration, key groupKey, o *Outcome, bad float64) {
	if key.id == 0 {
		return
	}
	g := h.groups[key]
	if g == nil {
		h.evictGroup()
		g = &group{}
		h.groups[key] = g
	}
	g.lastAt = now
	e := g.endpoint(o.Addr)
	e.lastAt, e.outcomes = now, min(e.outcomes+1, maxGroupOutcomes)
	for k := range e.badShare {
		latest := 0.0
		if o.Verdict.kind() == outcomeKind(k) {
			latest = bad
		}
		e.badShare[k] += (latest - e.badShare[k]) / e.outcomes
	}
}

// evictGroup forgets the group that was not seen for longest when there are too many.
func (h *Health) evictGroup() {
	if len(h.groups) < maxGroups {
		return
	}
	var oldest groupKey
	at := time.Duration(math.MaxInt64)
	for key, g := range h.groups {
		if g.lastAt < at || g.lastAt == at && key.id < oldest.id {
			oldest, at = key, g.lastAt
		}
	}
	delete(h.groups, oldest)
}

// endpoint returns the group's entry for an endpoint, in the place of the oldest if there are too many.
func (g *group) endpoint(addr string) *groupEndpoint {
	oldest := 0
	for i := range g.endpoints {
		if g.endpoints[i].addr == addr {
			return &g.endpoints[i]
		}
		if g.endpoints[i].lastAt < g.endpoints[oldest].lastAt {
			oldest = i
		}
	}
	if len(g.endpoints) < maxGroupEndpoints {
		g.endpoints = append(g.endpoints, groupEndpoint{addr: addr})
		return &g.endpoints[len(g.endpoints)-1]
	}
	g.endpoints[oldest] = groupEndpoint{addr: addr}
	return &g.endpoints[oldest]
}
