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
}

// Takes reports whether the target can take a request of so many tokens now.
func (t *Target) Takes(tokens float64) bool { return !t.Full && t.Wait(tokens, t.Aside) <= 0 }

// releaseGuess is how long a full target is expected to stay full, in ms, while nothing is known of it; maxRelease is
// the most: it may have stood still for longer.
const releaseGuess, maxRelease = 250, 5000

// Until returns in how many ms the target is expected to take a request of so many tokens. A full target takes one as
// often as it has taken them.
func (t *Target) Until(tokens float64) float64 {
	wait := t.Wait(tokens, t.Aside)
	if t.Full && t.Interval == 0 {
		return max(wait, releaseGuess)
	} else if t.Full {
		return max(wait, min(t.Interval, maxRelease))
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

// rounds returns after how many more rounds the target has a deficit of so many tokens.
func (t *Target) rounds(tokens float64) float64 { return max(0, (tokens-t.Deficit)/t.Weight) }

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

// savedRounds is how many rounds a target that can take no requests may save up.
const savedRounds = 2

// Charge charges the i-th target, which [Choose] has returned, for a request at now. All targets get the rounds that
// this has taken.
func Charge(targets []Target, i int, now, tokens float64) {
	rounds, weights := fewestRounds(targets, tokens), 0.0
	for j := range targets {
		weights += targets[j].Weight
	}
	for j := range targets {
		t := &targets[j]
		most := tokens + tokens*savedRounds*t.Weight*float64(len(targets))/weights
		t.Deficit = max(t.Deficit, min(t.Deficit+float64(rounds*t.Weight), most))
	}
	t := &targets[i]
	t.Deficit -= tokens
	t.take(now, tokens)
}

// take charges the buckets.
func (s *State) take(now, tokens float64) {
	if s.TokenRate > 0 {
		s.Tokens += tokens
	}
	if s.RequestRate > 0 {
		s.Requests++
	}
	if s.TakenAt > 0 && now > s.TakenAt {
		interval := now - s.TakenAt
		if s.Interval > 0 {
			interval = s.Interval + (interval-s.Interval)/8
		}
		s.Interval = interval
	}
	s.TakenAt = now
}

// Expected returns in how many ms the first of the targets is expected to take a request of so many tokens.
func Expected(targets []Target, tokens float64) float64 {
	least := math.Inf(1)
	for i := range targets {
		least = min(least, targets[i].Until(tokens))
	}
	return least
}
