package budget

import "time"

// Limits are what the configuration says of a target.
type Limits struct {
	Weight   float64 // share of the tokens, relative to the other targets; above 0
	Tokens   float64 // tokens a minute, and how many its bucket holds; 0: no limit
	Requests float64 // requests a minute, likewise; 0: no limit
}

// State is what is left of a target's budget at a time, kept as what is missing from a full one. The zero value is a
// target that was never used: its buckets are full.
type State struct {
	At              float64 // time of all that follows, in ms
	MissingTokens   float64 // tokens missing from the bucket; more than it holds while its level is negative
	MissingRequests float64 // requests missing likewise
	Deficit         float64 // tokens that are due to the target; negative if it was given more than its share
	Closed          float64 // for how many ms from At on the target takes nothing

	TokenRate   float64 // tokens a minute at which the bucket refills, by the latest request; 0: no limit
	RequestRate float64 // requests a minute likewise

	TakenAt  float64 // when it last took a request, 0 for never
	Interval float64 // mean time between two requests that it took in ms, 0 if unknown

	Told float64 // earliest time that [Tell] has given to no caller yet, in ms after At
	Asks float64 // 1 if the next request that it takes finds out whether it is closed for longer; else 0
}

// minute is the time in which an empty bucket becomes full, in ms.
const minute = 60_000

// clockStep is by how many ms a clock must have gone back to have been set back. Less is the difference between
// workers that have read it one after the other.
const clockStep = 1000

// Advance lets the time pass until now, in ms, at the rates of the latest request. A clock that was set back starts
// anew: nothing refills for the time that it repeats.
func (s *State) Advance(now float64) {
	elapsed := now - s.At
	if elapsed < 0 && elapsed > -clockStep {
		return
	}
	s.At = now
	if elapsed <= 0 {
		return
	}
	s.MissingTokens = refilled(s.MissingTokens, s.TokenRate, elapsed)
	s.MissingRequests = refilled(s.MissingRequests, s.RequestRate, elapsed)
	s.Closed = max(0, s.Closed-elapsed)
	s.Told = max(0, s.Told-elapsed)
}

// refilled returns what is still missing after elapsed ms. Without a limit nothing is missing.
func refilled(missing, rate, elapsed float64) float64 {
	if rate == 0 {
		return 0
	}
	return max(0, missing-elapsed*rate/minute)
}

// Apply lets the time pass and sets the rates from then on. It reports whether these are other ones: then a store
// writes the state even if the request is refused, so that the bucket refills at the new rate from now on.
func (s *State) Apply(now float64, l Limits) (changed bool) {
	if s.IsUnused(now) {
		*s = State{At: now, TokenRate: l.Tokens, RequestRate: l.Requests}
		return false
	}
	s.Advance(now)
	changed = s.TokenRate != l.Tokens || s.RequestRate != l.Requests
	s.setRates(l.Tokens, l.Requests)
	return changed
}

// setRates has the buckets refill at other rates.
func (s *State) setRates(tokens, requests float64) {
	s.MissingTokens = rescaled(s.MissingTokens, s.TokenRate, tokens)
	s.MissingRequests = rescaled(s.MissingRequests, s.RequestRate, requests)
	s.TokenRate, s.RequestRate = tokens, requests
}

// rescaled returns what is missing from a bucket that gets another rate, and so another size. It stays as full as it
// was, by its size: so old requests make nobody wait for longer than before, and rates that change to and fro, as while
// some gateways have a new configuration already, bring nobody more than they allow, but that debts end sooner. What is
// owed beyond an empty bucket is owed for as long as before if the rate is lowered, and paid back faster if it is
// raised.
func rescaled(missing, from, to float64) float64 {
	switch {
	case from == to || from == 0:
		return missing
	case missing > from && to > from:
		return to + (missing - from)
	}
	return missing / from * to // in this order what is missing from an empty bucket is exactly its new size
}

// IsUnused reports whether the target was no candidate for a minute before now, or never, and nothing is missing: the
// state may be forgotten.
func (s *State) IsUnused(now float64) bool {
	if now-s.At < minute {
		return false
	}
	c := *s
	c.Advance(now)
	return c.MissingTokens == 0 && c.MissingRequests == 0 && c.Closed == 0 && (s.Asks == 0 || now-s.At >= maxClosed)
}

// Wait returns for how many ms the target's buckets cannot give the tokens of one more request, 0 if they can. aside is
// how many tokens are set aside for others. A request of more tokens than the bucket holds needs a full bucket.
func (s *State) Wait(tokens, aside float64) float64 {
	wait := s.Closed
	if r := s.TokenRate; r > 0 {
		wait = max(wait, (s.MissingTokens+aside+min(tokens, r)-r)*minute/r)
	}
	if r := s.RequestRate; r > 0 {
		wait = max(wait, (s.MissingRequests+min(1, r)-r)*minute/r)
	}
	return wait
}

// Left is what is left in the buckets of a target.
type Left struct {
	Tokens, Requests float64 // -1: there is no limit
}

// Left returns what is left at the time of the state.
func (s *State) Left() Left {
	l := Left{-1, -1}
	if s.TokenRate > 0 {
		l.Tokens = max(0, s.TokenRate-s.MissingTokens)
	}
	if s.RequestRate > 0 {
		l.Requests = max(0, s.RequestRate-s.MissingRequests)
	}
	return l
}

// Bounds of corrections, so that a wrong report does not close a target for long.
const (
	// MaxDelta is by how many tokens a request may differ from its estimate: more than any model takes at once.
	MaxDelta = 1 << 21
	// maxDeficit is how many tokens a target may be behind the others at most.
	maxDeficit = 1 << 22
	// maxCorrected is by how many tokens corrections take a deficit away from zero at most. It is much more than
	// maxDeficit: what is given back at many targets at once is no share of any, until one is cut off.
	maxCorrected = 1 << 32
	// maxClosed is for how many ms a target is closed at most by its own word.
	maxClosed = 60 * minute
	// askTime is for how many ms a target that may be closed takes no other request than the one that finds out. By
	// then a refusal has come, which closes it again.
	askTime = 3000
)

// Settle corrects the state at now by what a request has used beyond its estimate; less than that is a negative delta.
func (s *State) Settle(now, delta float64) {
	s.Advance(now)
	delta = min(max(delta, -MaxDelta), MaxDelta)
	if delta < 0 || s.TokenRate > 0 {
		s.MissingTokens = max(0, s.MissingTokens+delta)
	}
	if delta < 0 {
		s.Deficit = max(s.Deficit, min(s.Deficit-delta, maxCorrected))
	} else {
		s.Deficit = min(s.Deficit, max(s.Deficit-delta, -maxCorrected))
	}
}

// Correct is Settle by tokens, and by requests: -1 for one that the target never saw, 1 for one that it was not charged
// for.
func (s *State) Correct(now, tokens, requests float64) {
	s.Settle(now, tokens)
	if requests < 0 || s.RequestRate > 0 {
		s.MissingRequests = max(0, s.MissingRequests+requests)
	}
}

// Refund gives back what a request was charged that the target never saw.
func (s *State) Refund(now, tokens float64) { s.Correct(now, -tokens, -1) }

// Restriction is what a target has said of its own limits, by the headers of an answer.
type Restriction struct {
	Tokens, Requests           float64       // that it would still take; -1: unknown
	TokensReset, RequestsReset time.Duration // until all are there again; 0: unknown
	RetryAfter                 time.Duration // until it takes anything; 0: now

	// MaxClosed is for how long it is closed at most. If it has said more, one request asks then. 0: an hour.
	MaxClosed time.Duration
	// Reopen: nobody has said anything, it is to be asked at once. All else is ignored.
	Reopen bool
}

// Longest returns for how many ms the target is closed at most.
func (r *Restriction) Longest() float64 {
	if r.MaxClosed <= 0 {
		return maxClosed
	}
	return min(ms(r.MaxClosed), maxClosed)
}

// Restrict lowers what is left at now to what the target has said. It never adds to it. For a limit that is not
// configured only the end counts: without anything left the target is closed until the reset.
func (s *State) Restrict(now float64, r *Restriction) {
	s.Advance(now)
	if r.Reopen {
		if s.Closed > 0 {
			s.Closed, s.Asks = 0, 1
		}
		return
	}
	closed := ms(r.RetryAfter)
	if r.Tokens >= 0 && s.TokenRate > 0 {
		s.MissingTokens = max(s.MissingTokens, s.TokenRate-r.Tokens)
	} else if r.Tokens == 0 {
		closed = max(closed, ms(r.TokensReset))
	}
	if r.Requests >= 0 && s.RequestRate > 0 {
		s.MissingRequests = max(s.MissingRequests, s.RequestRate-r.Requests)
	} else if r.Requests == 0 {
		closed = max(closed, ms(r.RequestsReset))
	}
	if most := r.Longest(); closed > most {
		closed, s.Asks = most, 1
	}
	s.Closed = max(s.Closed, closed)
}

// ms returns a duration in ms, rounded up.
func ms(d time.Duration) float64 {
	return float64((d + time.Millisecond - 1) / time.Millisecond)
}
