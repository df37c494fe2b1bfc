package budget

import "math"

// None is what [Choose] returns when no target can take the request.
const None = -1

// Target is a target in one step: its limits, its state at the time of the step, and what the store knows besides.
type Target struct {
	Limits
	State
	Full  bool    // as many requests are in flight there as its cap allows
	Aside float64 // tokens that are set aside there for others
	Ahead Ahead   // refusals before this request that are expected to ask there again
}

// Takes reports whether the target can take a request of so many tokens now.
func (t *Target) Takes(tokens float64) bool { return !t.Full && t.Wait(tokens, t.Aside) <= 0 }

// AnyTakes reports whether one of the targets can take a request of so many tokens now.
func AnyTakes(targets []Target, tokens float64) bool {
	for i := range targets {
		if targets[i].Takes(tokens) {
			return true
		}
	}
	return false
}

// releaseGuess is how long a full target is expected to stay full, in ms, while nothing is known of it; maxRelease is
// the most: it may have stood still for longer.
const releaseGuess, maxRelease = 250, 5000

// Until returns in how many ms the target is expected to take a request of so many tokens. A full target takes one as
// often as it has taken them. Those that were refused before this request come first: if all were told when the next
// one can be taken, all would ask then.
func (t *Target) Until(tokens float64) float64 {
	wait := t.Wait(tokens, t.Aside+t.Ahead.Growth)
	if t.Full && t.Interval == 0 {
		return max(wait, releaseGuess)
	} else if t.Full {
		return max(wait, min(float64(1+t.Ahead.Count)*t.Interval, maxRelease))
	}
	return max(wait, 0)
}

// Choose returns the number of the target that takes a request of so many tokens, [None] if none can. after is the
// number of the one that was served last, -1 if that is unknown.
func Choose(targets []Target, after int, tokens float64) int {
	rounds := fewestRounds(targets, tokens)
	for i := range targets {
		j := (after + 1 + i) % len(targets)
		if t := &targets[j]; t.Takes(tokens) && t.rounds(tokens) <= rounds {
			return j
		}
	}
	return None
}

// rounds returns after how many more rounds the target has a deficit of so many tokens; negative: since how many.
func (t *Target) rounds(tokens float64) float64 { return (tokens - t.Deficit) / t.Weight }

// fewestRounds returns after how many rounds the first of those that can take the request has a deficit of its tokens.
func fewestRounds(targets []Target, tokens float64) float64 {
	fewest := math.Inf(1)
	for i := range targets {
		if t := &targets[i]; t.Takes(tokens) {
			fewest = min(fewest, t.rounds(tokens))
		}
	}
	return fewest
}

// Charge charges the i-th target, which [Choose] has returned or another store, for a request at now. All targets get
// the rounds that this target needs; one that cannot take the request saves up as much as it needs at most. So a
// deficit is never larger than the largest request was, unless tokens were given back.
func Charge(targets []Target, i int, now, tokens float64) {
	rounds := max(0, targets[i].rounds(tokens))
	for j := range targets {
		t := &targets[j]
		t.Deficit = max(t.Deficit, min(t.Deficit+float64(rounds*t.Weight), tokens))
	}
	t := &targets[i]
	t.Deficit -= tokens
	dropCommon(targets)
	t.take(now, tokens)
}

// dropCommon takes the rounds from all targets that are due to each of those that are not closed: after much was given
// back everywhere. What is due to all is no share of any, but a target that is new or opens again would have to wait
// for it. And it keeps deficits within their bounds.
func dropCommon(targets []Target) {
	common := math.Inf(1)
	for j := range targets {
		if t := &targets[j]; t.Closed == 0 {
			common = min(common, t.Deficit/t.Weight)
		}
	}
	for j := range targets {
		t := &targets[j]
		if common > 0 && common < math.Inf(1) {
			t.Deficit = max(t.Deficit-float64(common*t.Weight), min(t.Deficit, 0))
		}
		t.Deficit = max(-maxDeficit, min(t.Deficit, maxDeficit))
	}
}

// take charges the buckets.
func (s *State) take(now, tokens float64) {
	if s.TokenRate > 0 {
		s.MissingTokens += tokens
	}
	if s.RequestRate > 0 {
		s.MissingRequests++
	}
	if s.TakenAt > 0 && now > s.TakenAt {
		interval := now - s.TakenAt
		if s.Interval > 0 {
			interval = s.Interval + (interval-s.Interval)/8
		}
		s.Interval = interval
	}
	s.TakenAt = now
	if s.Asks > 0 {
		s.Closed, s.Asks = max(s.Closed, askTime), 0
	}
}

// Earliest returns the number of the target that is expected to take a request of so many tokens first: see
// [Target.Until].
func Earliest(targets []Target, tokens float64) int {
	first, least := 0, math.Inf(1)
	for i := range targets {
		if until := targets[i].Until(tokens); until < least {
			first, least = i, until
		}
	}
	return first
}
