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
// elsewhere is the share of bad outcomes at the other endpoints: of all requests, of those of the same client and of
// those for the same model, whichever is most.
const (
	// failingShare is the share of its requests that an endpoint fails which is to be ejected.
	failingShare = 0.9
	// usualFailures is the least share of failures that is assumed elsewhere. Below it a single failure would say too
	// much.
	usualFailures = 0.02
	// usualRefusals is the share of requests that is assumed to be refused anywhere, of a client of which nothing else
	// is known: a 4xx says first of all that the request is wrong.
	usualRefusals = 0.3
	// failureDecay is the weight of the newest outcome in a rate.
	failureDecay = 0.3
	// rateHalfLife is how fast a failure rate is forgotten while there are no outcomes. Without it an endpoint that lost
	// its weight would hardly ever be tried again, and never learn that it is well.
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
)

const (
	// servedWithin is how long a success of another source speaks for an endpoint.
	servedWithin = 30 * time.Second
	// sourceOnce is how long a source whose requests fail, while those of others are served, does not count in full
	// again, and sourceAgain what it counts then.
	sourceOnce  = 5 * time.Second
	sourceAgain = 1.0 / 8
	// severalSources is how many sources must fail in a row to be believed, where they may all be of one client.
	severalSources = 3
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
	client    uint64                   // of the first failure since the last success
	clients   bool                     // others have failed since then
	failed    [severalSources]sighting // sources whose failures count, and when they last did; the latest one first
	served    [2]sighting              // the latest successes of two different sources, the latest one first
}

// sighting is when a source was last seen.
type sighting struct {
	source uint64
	at     time.Duration
}

// group is a client or a model: how its requests end at each endpoint.
type group struct {
	at   time.Duration // of the last outcome
	ends []groupEnds
}

type groupEnds struct {
	endpoint *tracked
	bad      float64 // share of bad outcomes, moving average
	at       time.Duration
}

// Watches says whether clients matter at the moment: whether [Outcome.Client] is of use for a success, too. Finding
// it out costs the gateway a call, which requests are spared as long as all goes well.
func (h *Health) Watches(now time.Duration) bool { return h.badAt > 0 && now-h.badAt < groupMemory }

// Observe learns from the outcome of a request that was balanced under the given terms.
func (h *Health) Observe(now time.Duration, o Outcome, terms *Terms) {
	t, ok := h.tracked[o.Addr]
	switch {
	case !ok || o.Verdict == Neutral:
	case o.Verdict == Success:
		h.succeeded(now, t, &o)
	case o.Verdict == TimedOut && (o.Waited < leastWait || t.servedSince(now-o.Waited)):
	default:
		h.failed(now, t, &o, &terms.Health)
	}
}

func (h *Health) succeeded(now time.Duration, t *tracked, o *Outcome) {
	before := t.failing(now)
	t.rate, t.at = before*(1-failureDecay), now
	if t.score > 0 {
		t.score = max(0, t.score-forEndpoint(h.elsewhere(now, t, o)))
	}
	if t.probation {
		t.score, t.probation = 0, false
	}
	t.moved, t.client, t.clients = 0, 0, false
	if t.served[0].source != o.Source {
		t.served[1] = t.served[0]
	}
	t.served[0] = sighting{o.Source, now}
	if t.ejections > 0 && now-t.until > forgiveAfter {
		t.ejections = 0
	}
	if h.Watches(now) {
		h.note(now, t, o, 0)
	}
	if before > 0 {
		h.outdate()
	}
}

func (h *Health) failed(now time.Duration, t *tracked, o *Outcome, cfg *HealthConfig) {
	weight := againstEndpoint(h.elsewhere(now, t, o))
	if t.repeats(now, o) {
		weight *= sourceAgain
	}
	before := t.failing(now)
	t.rate, t.at = before+failureDecay*weight*(1-before), now
	h.badAt = now
	h.note(now, t, o, 1)
	h.outdate()
	out := false
	switch o.Verdict {
	case Failure, Refused, TimedOut:
		t.score += weight
		out = t.score >= float64(cfg.ConsecutiveFailures)
	case Moved:
		if t.moved == 0 {
			t.movedFrom = now
		}
		t.moved += weight
		out = t.moved >= float64(cfg.ConsecutiveFailures) && now-t.movedFrom >= movedFor
	}
	if out && cfg.ConsecutiveFailures > 0 && now >= t.until {
		h.eject(now, t, cfg)
	}
}

// againstEndpoint is what a bad outcome weighs when such requests end badly elsewhere with the given share, from 0 to
// 1.
func againstEndpoint(elsewhere float64) float64 {
	return math.Log(failingShare/elsewhere) / math.Log(failingShare/usualFailures)
}

// forEndpoint is what a success weighs, in the same unit.
func forEndpoint(elsewhere float64) float64 {
	return math.Log((1-elsewhere)/(1-failingShare)) / math.Log(failingShare/usualFailures)
}

// repeats says whether a bad outcome repeats what is known, and notes its source. While others are served, a source
// counts in full only once in a while: with a policy that sends what begins alike to the same endpoint, one client
// could hold its bad requests against it. Once several have failed since the last success, it is not the source.
func (t *tracked) repeats(now time.Duration, o *Outcome) bool {
	if t.client == 0 {
		t.client = o.Client
	}
	t.clients = t.clients || o.Client != t.client
	several := 0
	at := severalSources - 1
	for i, s := range t.failed {
		if s.at > t.served[0].at {
			several++
		}
		if s.at > 0 && s.source == o.Source {
			at = i
		}
	}
	last := t.failed[at]
	if o.Source != 0 && last.source == o.Source && now-last.at < sourceOnce && t.servedOthers(now, o.Source) &&
		!t.clients && several < severalSources {
		return true
	}
	copy(t.failed[1:at+1], t.failed[:at])
	t.failed[0] = sighting{o.Source, now}
	return false
}

// servedOthers says whether a request of another source was served a while ago at most.
func (t *tracked) servedOthers(now time.Duration, source uint64) bool {
	for _, s := range t.served {
		if s.at > 0 && s.source != source && now-s.at < servedWithin {
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
	if o.Verdict == Refused {
		usual = max(usual, usualRefusals)
	}
	if o.Client == 0 && o.Model == 0 {
		share = usual
	}
	for _, id := range [...]uint64{o.Client, o.Model} {
		if id != 0 {
			share = max(share, h.groups[id].elsewhere(now, t, usual))
		}
	}
	return min(share, failingShare)
}

// fleet returns the failure rate of the endpoint in the middle, t left out if there is one: what most do is no fault
// of one.
func (h *Health) fleet(now time.Duration, t *tracked) float64 {
	var rates [comparedTo]float64
	n, step := 0, max(1, (len(h.order)+comparedTo-1)/comparedTo)
	for i := 0; i < len(h.order); i += step {
		if other := h.order[i]; other != t {
			rates[n] = other.failing(now)
			n++
		}
	}
	if n == 0 {
		return 0
	}
	slices.Sort(rates[:n])
	return rates[(n-1)/2]
}

// elsewhere returns the share of bad outcomes of the group at the endpoint in the middle of those that it was seen
// at, t left out, and one added that has the given share: of a group that is hardly known nothing is certain.
func (g *group) elsewhere(now time.Duration, t *tracked, usual float64) float64 {
	if g == nil {
		return usual
	}
	var bad [groupEndpoints + 1]float64
	n := 1
	bad[0] = usual
	for _, e := range g.ends {
		if e.endpoint != t && now-e.at < groupMemory {
			bad[n] = e.bad
			n++
		}
	}
	slices.Sort(bad[:n])
	return (bad[(n-1)/2] + bad[n/2]) / 2
}

// note remembers how a request ended for its client and its model.
func (h *Health) note(now time.Duration, t *tracked, o *Outcome, bad float64) {
	for _, id := range [...]uint64{o.Client, o.Model} {
		if id == 0 {
			continue
		}
		g := h.groups[id]
		if g == nil {
			h.makeRoom()
			g = &group{}
			h.groups[id] = g
		}
		g.note(now, t, bad)
	}
}

// makeRoom forgets the group that was not seen for longest when there are too many.
func (h *Health) makeRoom() {
	if len(h.groups) < maxGroups {
		return
	}
	oldest, at := uint64(0), time.Duration(math.MaxInt64)
	for id, g := range h.groups {
		if g.at < at || g.at == at && id < oldest {
			oldest, at = id, g.at
		}
	}
	delete(h.groups, oldest)
}

func (g *group) note(now time.Duration, t *tracked, bad float64) {
	g.at = now
	oldest := 0
	for i := range g.ends {
		e := &g.ends[i]
		switch {
		case e.endpoint == t:
			e.bad, e.at = e.bad+failureDecay*(bad-e.bad), now
			return
		case e.at < g.ends[oldest].at:
			oldest = i
		}
	}
	if len(g.ends) < groupEndpoints {
		g.ends = append(g.ends, groupEnds{t, bad, now})
		return
	}
	g.ends[oldest] = groupEnds{t, bad, now}
}
