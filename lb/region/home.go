package region

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// StateOf returns what a region says of itself: of its servers, the candidates of a plan, by what is in flight at each
// of them, and of the queue there.
func StateOf(p *lb.Plan, loads []lb.Load, q lb.QueueStats) State {
	s := State{Queued: q.Waiting, Wait: time.Duration(q.Waiting) * q.Interval}
	var all lb.Load
	for _, l := range loads {
		all.Requests, all.Tokens = all.Requests+l.Requests, all.Tokens+l.Tokens
	}
	for i := range p.Candidates {
		if c := &p.Candidates[i]; !c.IsFull(loads[i]) {
			s.Open = int(min(int64(s.Open)+slots(c, loads[i], all), MaxOpen))
		}
	}
	return s
}

// slots returns how many requests more a candidate takes that is open: one if it has no cap, since it is not known how
// many it serves well. A cap in tokens is for as many as have the mean of all.
func slots(c *lb.Candidate, l, all lb.Load) int64 {
	switch {
	case c.TokenCap > 0:
		n := int64(1)
		switch {
		case all.Requests > 0:
			n = max(n, (c.TokenCap-l.Tokens)*all.Requests/max(1, all.Tokens))
		case c.Cap > 0:
			n = c.Cap
		}
		if c.Cap > 0 {
			n = min(n, c.Cap-l.Requests)
		}
		return n
	case c.Cap > 0:
		return c.Cap - l.Requests
	}
	return 1
}

// SharedBy returns what a region says to each of so many gateways that ask it: none of them knows what the others send.
func (s State) SharedBy(askers int) State {
	askers = max(1, askers)
	s.Open = (s.Open + askers - 1) / askers
	return s
}

// Stay is for what a request stays at home while a peer has room: as long as the servers here, or those of another
// allowed peer that answers, have more of its prompt than the peer that would be chosen, and it has stayed for less
// time than that saves, for itself and those that it would delay. The zero value: nothing of it is here.
type Stay struct {
	Home   int                            // blocks of its prompt that the servers here have; negative: it goes anywhere
	Stayed time.Duration                  // for how long it has, since a peer first had room for it
	Saves  func(blocks int) time.Duration // time to compute so many blocks; nil: longer than any wait
}

// Staying is for how long a request stays.
type Staying struct{ since time.Duration } // when a peer first had room for it, 0: not yet

// Of returns for what a request with a plan stays now, which has waited for a time and waits on if that is worth it:
// for what the servers here have of its prompt, by longest, as long as it has patience.
func (s *Staying) Of(now time.Duration, p *lb.Plan, waited time.Duration, waits bool, longest func() int) Stay {
	of := Stay{Home: -1}
	if s.since > 0 {
		of.Stayed = now - s.since
	}
	if p.Prefix.Takes > 0 {
		of.Saves = p.Prefix.Saves
	}
	if waits && waited < p.Wait.Patience {
		of.Home = longest()
	}
	return of
}

// Note notes what [Board.Forward] has returned for the request.
func (s *Staying) Note(now time.Duration, why Reason) {
	if why == Stays && s.since == 0 {
		s.since = now
	}
}

// saved returns what a match of so many blocks saves, as far as it is known.
func (s *Stay) saved(blocks int) time.Duration {
	if s.Saves == nil {
		return 0
	}
	return s.Saves(blocks)
}

// staysFor reports whether the request rather waits for another place than it goes to the best peer with room now.
func (s *Stay) staysFor(other, best *candidate) bool {
	later := lb.HeldUp*(s.saved(other.match)-s.saved(best.match)) + best.least - other.least
	return other.match > best.match && (s.Saves == nil || s.Stayed < later)
}

// muchMore is by how much of a prompt another region must have more of it than this one for a request to go there
// although an endpoint here may be open. It is to outweigh the way, and what the servers here have to evict.
const muchMore = 0.25

// HasMuchMore reports whether a peer has so much more of a prompt than the servers here that a request goes there
// although one of them may be open, and how many blocks the peer has that has most. matched are blocks by peer, and
// longest returns how many the servers here have.
func HasMuchMore(prompt *lb.Prefix, matched []int, longest func() int) (most int, has bool) {
	most = slices.Max(append(matched, 0))
	if prompt.Fraction(most) < muchMore {
		return most, false
	}
	return most, prompt.Fraction(most)-prompt.Fraction(longest()) >= muchMore
}
