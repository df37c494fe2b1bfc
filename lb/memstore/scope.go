package memstore

import (
	"time"

	"github.com/warmgate/warmgate/lb"
)

// scope is what this owner knows of one scope.
type scope struct {
	name string
	slot int        // -1 for none
	held checkpoint // what this owner holds, up to date
	// written is whether shared memory has a checkpoint of this owner for the slot, and writtenSeq its sequence number.
	written    bool
	writtenSeq uint32
	// hashes of the rows of the table that was written last, to find the endpoints of leases in a table that has
	// changed.
	hashes           []uint64
	hashesGeneration uint32 // of that table
	// pending steps wait for the next swap: see ledger.defers.
	pending []step
	// corrections of budgets likewise
	corrections []correction
	// rows of the candidates of the latest reservation.
	located        lb.List
	rows           []int
	rowsGeneration uint32 // of the table in which they are
	listKey        uint32 // digest of their endpoints

	queues    bool                   // requests of this owner may wait
	waiters   map[lb.LeaseID]*waiter // those that do
	firstOver time.Duration          // none of these waits is over before
	left      bool                   // tickets of others than these may be in the queue
}

// waiter is a request of this owner that waits.
type waiter struct {
	plan    lb.Plan
	matched []int         // blocks of its prompt at each candidate, nil for none
	since   time.Duration // when it began to wait
	until   time.Duration
	waited  bool // it was not granted an endpoint at once
	done    func(lb.Grant, error)
}

// correction is a change of the budget of an endpoint by what a request has used beyond what it was charged.
type correction struct {
	hash             uint64 // of the endpoint
	tokens, requests float64
}
