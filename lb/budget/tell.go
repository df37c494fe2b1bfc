package budget

import "math"

// tellSpan is over how many ms the times are spread that callers are told. Should more wait than targets can take in
// that time, they begin again at its beginning.
const tellSpan = 5000

// Tell returns the number of the target that is expected to take a request of so many tokens first, and in how many ms
// its caller is to ask again. It is for callers that no store remembers, as it does those in [Refusals]: they are told
// the times at which the targets can take one after the other, and it notes which times were told.
func Tell(targets []Target, tokens float64) (first int, wait float64) {
	open, wait := math.Inf(1), math.Inf(1)
	for i := range targets {
		until := targets[i].Until(tokens)
		open = min(open, until)
		if next := max(until, targets[i].Told); next < wait {
			first, wait = i, next
		}
	}
	if wait > open+tellSpan {
		for i := range targets {
			targets[i].Told = 0
		}
		first, wait = Earliest(targets, tokens), open
	}
	targets[first].Told = wait + targets[first].pace(tokens)
	return first, wait
}

// pace returns how many ms it takes until the target can take another request like this one.
func (t *Target) pace(tokens float64) (pace float64) {
	if r := t.TokenRate; r > 0 {
		pace = min(tokens, r) * minute / r
	}
	if r := t.RequestRate; r > 0 {
		pace = max(pace, min(1, r)*minute/r)
	}
	if t.Full || pace == 0 {
		interval := t.Interval
		if interval == 0 {
			interval = releaseGuess
		}
		pace = max(pace, interval)
	}
	return min(pace, maxRelease)
}
