package redisclient

import (
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// maxTokens is how many tokens a lease may count for: its entry has 32 bits for them.
const maxTokens = 1<<32 - 1

type leaseState uint8

const (
	pending  leaseState = iota // the reservation has no answer yet
	waiting                    // in the queue
	held                       // granted
	released                   // released before the reservation had an answer
)

// lease is a request that this owner has sent to Redis, from its reservation to its release.
type lease struct {
	ledger       *ledger // that has it
	state        leaseState
	addr         string
	tokens       int64
	version      uint8 // counts the changes, modulo 256, so that Redis can ignore one that arrives after a later one
	grant        lb.Grant
	charged      bool // in a budget, and that in Redis: see Settle
	turn         turn
	unconfirmed  int64        // tokens that corrections have charged it, as far as Redis has not confirmed that
	moves        uint8        // counts corrections that were left out because the lease was not charged
	confirmedSeq uint64       // when it became certain that Redis has the lease, by owner.seq
	reservation  *reservation // nil once that was answered
	waiter       *waiter      // while it waits
	unsynced     bool         // Redis may not have the present address and tokens
}

func clampTokens(tokens int64) int64 { return min(max(tokens, 0), maxTokens) }

// reservation is a reservation without an answer yet.
type reservation struct {
	lb.List
	id        lb.LeaseID
	lease     *lease
	limits    []budget.Limits // of the candidates, nil without budgets
	script    *script
	args      int         // of the command
	cmd       []byte      // complete from the beginning, since the plan's blocks belong to the caller
	order     *blockOrder // of the blocks in the command, nil without inner ones
	list      *candidateList
	sentSeq   uint64 // by owner.seq
	firstCall *call  // the first attempt; the second one keeps its deadline
	retried   bool
	waiter    *waiter // of a request that waits already, and is sent again because its ticket may be lost
	plan      lb.Plan // of a request that may wait
	sentAt    time.Duration
	done      func(lb.Grant, error)
}

// chained reports whether the reservation names the blocks of a prompt.
func (r *reservation) chained() bool { return r.script == scriptPrompt || r.script == scriptWaitPrompt }

// waiter is a request that waits in Redis.
type waiter struct {
	id    lb.LeaseID
	lease *lease
	plan  lb.Plan
	rows  []byte        // of its candidates: see lua/reserve.lua
	since time.Duration // when it came
	until time.Duration
	again *reservation // on its way, because the ticket may be lost
	done  func(lb.Grant, error)
}

// arrived notes when the request came by the clock of Redis, if the answer tells.
func (w *waiter) arrived(reply reservationReply) {
	wait := &w.plan.Wait
	if wait.Place == nil {
		wait.Place = &lb.Place{}
	}
	if reply.place.Came > 0 {
		*wait.Place = reply.place
	}
}

// indexOf returns the index of the candidate in the row, -1 for none.
func (w *waiter) indexOf(row uint16) int {
	in, i := wire.NewReader(w.rows), 0
	for in.Len() > 0 {
		first, count := int(in.Uint16()), int(in.Uint16())
		if int(row) >= first && int(row) < first+count {
			i += int(row) - first
			if i >= len(w.plan.Candidates) {
				return -1
			}
			return i
		}
		i += count
	}
	return -1
}
