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
	for i := range p.Candidates {
		if !p.Candidates[i].IsFull(loads[i]) {
			s.Open++
		}
	}
	return s
}

// AtHome returns what [Board.Forward] is told of the servers at home for a request that has waited there for a time:
// how many blocks of its prompt they have, by longest, as long as it has patience, and that it goes anywhere after.
func AtHome(waited, patience time.Duration, longest func() int) int {
	if waited < patience {
		return longest()
	}
	return -1
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
