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
	// usualFailures is the least share of failures that is assumed elsewhere. Below it a single failure would say too
	// much.
	usualFailures = 0.02
	// failsAnyway is the share of failures elsewhere from which on a failure says nothing about an endpoint.
	failsAnyway = 0.5
	// usualRefusals is the share of requests that is assumed to be refused anywhere, of a client of which nothing else
	// is known: a 4xx says first of all that the request is wrong.
	usualRefusals = 0.3
	// failureDecay is the weight of the newest outcome in a rate.
	failureDecay = 0.3
	// oftenDecay is the same in the rate over more outcomes, in which one failure says little.
	oftenDecay = 1.0 / 32
	// rateHalfLife is how fast a failure rate is forgotten while there are no outcomes. Without it an endpoint that
	// lost its weight would hardly ever be tried again, and never learn that it is well.
	rateHalfLife = 5 * time.Second
	// comparedTo is with how many other endpoints one is compared at most.
	comparedTo = 33
)

const (
	// groupMemory is how long an outcome of a client or a model counts.
	groupMemory = time.Minute
	// maxGroups is how many clients and models are known at a time.
	maxGroups = 256
	// groupEndpoints is at how many endpoints a client or a model is followed, the latest.
	groupEndpoints = 16
	// groupOutcomes is over how many outcomes at an endpoint a share is averaged. Few would make it jump.
	groupOutcomes = 20
	// sourcesKept is how many sources that failed at an endpoint are remembered.
	sourcesKept = 3
)

const (
	// servedWithin is how long a success of another source speaks for an endpoint.
	servedWithin = 30 * time.Second
	// sourceOnce is how long a source whose requests fail, while those of others are served, does not count in full
	// again, and sourceAgain what it counts then.
	sourceOnce  = 5 * time.Second
	sourceAgain = 1.0 / 32
	// movedFor is how long an endpoint must have served nothing, while all it got was moved elsewhere, to count as
	// failing.
	movedFor = 30 * time.Second
	// leastWait is how long the gateway must have waited for a response at least for a time-out to count. What clients
	// may be allowed to set is less.
	leastWait = time.Second
)

// suspicion is what speaks for an ejection.
type suspicion struct {
	score     float64 // weights of failures, less those of successes
	probation bool    // it is back from an ejection: a success clears the score
	moved     float64 // weights of requests that retries served elsewhere, since the last success
	movedFrom time.Duration
	client    uint64                // of the first failure since the last success
	clients   bool                  // others have failed since then
	failed    [sourcesKept]sighting // sources whose failures count, and when they last did in full; the latest first
	served    [2]sighting           // the latest successes of two different sources, the latest one first
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
	at   time.Duration // of the last outcome
	ends []groupEnds
}

type groupEnds struct {
	addr string
	bad  [kinds]float64 // share of each kind of bad outcome, over the latest ones
	n    float64        // of outcomes, groupOutcomes at most
	at   time.Duration
}

// kind is a kind of bad outcome. What is refused elsewhere does not excuse what fails here.
type kind uint8

const (
	refusal kind = iota
	overload
	failure
	kinds
)

func (v Verdict) kind() kind {
	switch v {
	case Rejected:
		return refusal
	case Overload, Retried:
		return overload
	}
	return failure
}

// NeedsClient says whether clients matter at the moment: whether [Outcome.Client] is of use for a success, too. Finding
// it out costs the gateway a call, which requests are spared as long as all goes well.
func (h *Health) NeedsClient(now time.Duration) bool { return h.badAt > 0 && now-h.badAt < groupMemory }

// Observe learns from the outcome of a request that was balanced under the given terms.
func (h *Health) Observe(now time.Duration, o Outcome, terms *ClusterConfig) {
	t, ok := h.tracked[o.Addr]
	switch {
	case !ok || o.Verdict == Neutral:
	case o.Verdict == Success:
		h.succeeded(now, t, &o)
	case o.Verdict == TimedOut && (o.WaitedFor < leastWait || o.Busy || t.servedSince(now-o.WaitedFor)):
	default:
		h.failed(now, t, &o, &terms.Health)
	}
}

func (h *Health) succeeded(now time.Duration, t *tracked, o *Outcome) {
	before := t.failing(now)
	t.rate, t.at = before*(1-failureDecay), now
	t.often *= 1 - oftenDecay
	if t.score > 0 {
		t.score = max(0, t.score-forEndpoint(h.elsewhere(now, t, o)))
	}
	if t.probation {
		t.score, t.probation = 0, false
	}
	t.moved, t.client, t.clients = 0, 0, false
	if source := o.source(); t.served[0].source != source {
		t.served[1], t.served[0] = t.served[0], sighting{source, now}
	}
	t.served[0].at = now
	if t.times > 0 && now-t.until > forgiveAfter {
		t.ejection = ejection{}
	}
	if h.NeedsClient(now) {
		h.note(now, o.client(), o, 0)
		h.note(now, o.model(), o, 0)
	}
	if before > 0 {
		h.outdate()
	}
}

func (h *Health) failed(now time.Duration, t *tracked, o *Outcome, cfg *HealthConfig) {
	weight := againstEndpoint(h.elsewhere(now, t, o))
	before := t.failing(now)
	t.rate, t.at = before+failureDecay*weight*(1-before), now
	t.often += oftenDecay * (weight - t.often)
	h.badAt = now
	// A client whose requests fail anywhere says as little about its model as about an endpoint.
	byClient := h.groups[o.client()].elsewhere(now, o, usualFailures)
	h.note(now, o.client(), o, 1)
	h.note(now, o.model(), o, againstEndpoint(max(byClient, usualFailures)))
	h.outdate()
	if t.repeats(now, o) {
		weight *= sourceAgain
	}
	against := 0.0 // what may eject it
	switch {
	case o.Verdict.kind() != overload:
		t.score += weight
		against = t.score
	case o.Verdict == Retried && !o.Busy:
		if t.moved == 0 {
			t.movedFrom = now
		}
		t.moved += weight
		if now-t.movedFrom >= movedFor {
			against = t.moved
		}
	case o.Verdict == Retried:
		t.moved = 0
	}
	if cfg.ConsecutiveFailures > 0 && against >= float64(cfg.ConsecutiveFailures) && now >= t.outUntil(cfg) {
		h.eject(now, t, int(against), cfg)
	}
}

// againstEndpoint is what a bad outcome weighs when such requests end badly elsewhere with the given share, from 0 to
// 1.
func againstEndpoint(elsewhere float64) float64 {
	if elsewhere >= failsAnyway {
		return 0
	}
	return math.Log(failingShare/elsewhere) / math.Log(failingShare/usualFailures)
}

// forEndpoint is what a success weighs, in the same unit.
func forEndpoint(elsewhere float64) float64 {
	return math.Log((1-elsewhere)/(1-failingShare)) / math.Log(failingShare/usualFailures)
}

// repeats says whether a bad outcome repeats what is known, and notes its source. While others are served, a source
// counts in full only once in a while: with a policy that sends what begins alike to the same endpoint, one client
// could eject it by bad requests. Once several clients have failed since the last success, it is not the source.
func (t *tracked) repeats(now time.Duration, o *Outcome) bool {
	if t.client == 0 {
		t.client = o.Client
	}
	t.clients = t.clients || o.Client != t.client
	source := o.source()
	at := sourcesKept - 1
	for i, s := range t.failed {
		if s.at > 0 && s.source == source {
			at = i
		}
	}
	last := t.failed[at]
	if source != 0 && last.source == source && now-last.at < sourceOnce && !t.clients && t.servedOthers(now, source) {
		return true
	}
	copy(t.failed[1:at+1], t.failed[:at])
	t.failed[0] = sighting{source, now}
	return false
}

// source returns what tells where the request came from: the beginning of its prompt, else its client, 0 if neither is
// known.
func (o *Outcome) source() uint64 {
	if o.Source != 0 {
		return o.Source
	}
	return o.Client
}

// servedOthers says whether a request that is known to be of another source was served a while ago at most.
func (t *tracked) servedOthers(now time.Duration, source uint64) bool {
	for _, s := range t.served {
		if s.source != 0 && s.source != source && now-s.at < servedWithin {
			return true
		}
	}
	return false
}

// servedSince says whether a request was served since then.
func (t *tracked) servedSince(then time.Duration) bool {
	return t.served[0].at > 0 && t.served[0].at >= then
}

// failing is the failure rate as it is now, 0 once it is too small to matter.
func (t *tracked) failing(now time.Duration) float64 {
	rate := t.rate
	if rate > 0 {
		rate *= math.Exp2(-float64(max(0, now-t.at)) / float64(rateHalfLife))
	}
	if rate < 0.01 {
		return 0
	}
	return rate
}

// elsewhere returns the share of requests like this one that end badly at other endpoints than t, within the bounds
// of the weights.
func (h *Health) elsewhere(now time.Duration, t *tracked, o *Outcome) float64 {
	share := max(h.fleet(now, t), usualFailures)
	usual := share
	if o.Verdict == Rejected {
		usual = max(usual, usualRefusals)
	}
	if o.Client == 0 && o.Model == 0 {
		share = usual
	}
	for _, key := range [...]groupKey{o.client(), o.model()} {
		if key.id != 0 {
			share = max(share, h.groups[key].elsewhere(now, o, usual))
		}
	}
	return min(share, failingShare)
}

// elsewhere returns the share of outcomes like this one of the group, at the endpoint in the middle of the others
// that it was seen at. What is hardly known of an endpoint is taken to be as usual, and so is all of a group that is
// not known.
func (g *group) elsewhere(now time.Duration, o *Outcome, usual float64) float64 {
	var shares [groupEndpoints]float64
	n := 0
	if g != nil {
		for i := range g.ends {
			if e := &g.ends[i]; e.addr != o.Addr && now-e.at < groupMemory {
				shares[n] = (usual + e.n*e.share(o)) / (1 + e.n)
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

// share returns the share of outcomes like this one; of a success, that of the kind of bad ones that there are most of.
func (e *groupEnds) share(o *Outcome) float64 {
	if o.Verdict == Success {
		return slices.Max(e.bad[:])
	}
	return e.bad[o.Verdict.kind()]
}

// note remembers how a request ended for its client or its model, from 0 for well to 1 for badly.
func (h *Health) note(now time.Duration, key groupKey, o *Outcome, bad float64) {
	if key.id == 0 {
		return
	}
	g := h.groups[key]
	if g == nil {
		h.makeRoom()
		g = &group{}
		h.groups[key] = g
	}
	g.at = now
	e := g.endsAt(o.Addr)
	e.at, e.n = now, min(e.n+1, groupOutcomes)
	for k := range e.bad {
		latest := 0.0
		if o.Verdict.kind() == kind(k) {
			latest = bad
		}
		e.bad[k] += (latest - e.bad[k]) / e.n
	}
}

// makeRoom forgets the group that was not seen for longest when there are too many.
func (h *Health) makeRoom() {
	if len(h.groups) < maxGroups {
		return
	}
	var oldest groupKey
	at := time.Duration(math.MaxInt64)
	for key, g := range h.groups {
		if g.at < at || g.at == at && key.id < oldest.id {
			oldest, at = key, g.at
		}
	}
	delete(h.groups, oldest)
}

// endsAt returns the group's entry for an endpoint, in the place of the oldest if there are too many.
func (g *group) endsAt(addr string) *groupEnds {
	oldest := 0
	for i := range g.ends {
		if g.ends[i].addr == addr {
			return &g.ends[i]
		}
		if g.ends[i].at < g.ends[oldest].at {
			oldest = i
		}
	}
	if len(g.ends) < groupEndpoints {
		g.ends = append(g.ends, groupEnds{addr: addr})
		return &g.ends[len(g.ends)-1]
	}
	g.ends[oldest] = groupEnds{addr: addr}
	return &g.ends[oldest]
}
