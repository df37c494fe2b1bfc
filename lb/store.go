package lb

import (
	"errors"
	"time"

	"github.com/warmgate/warmgate/lb/budget"
)

// Errors of a store. Any other error means that the store is unavailable or its data damaged.
var (
	// ErrFull is returned when every candidate of the plan is at a cap.
	ErrFull = errors.New("lb: every candidate is at a cap")
	// ErrOverBudget is returned when no candidate of a plan with budgets can take the request now. Grant.Expected is
	// the time until one is likely to.
	ErrOverBudget = errors.New("lb: every candidate is over its budget")
	// ErrOtherCall is returned when a task lives that was asked for by the same key and another call.
	ErrOtherCall = errors.New("lb: the key is that of another call")
	// ErrReleased is returned when the lease was released before its reservation ran: nothing was counted.
	ErrReleased = errors.New("lb: lease released before it was reserved")
	// ErrContended is returned when other workers changed the counts between every read and write of this one.
	ErrContended = errors.New("lb: too much contention on the counts")
	// ErrNoRoom is returned when a table of the store is full.
	ErrNoRoom = errors.New("lb: no room left in the store")
	// ErrUnready is returned when the shared memory of the store was never prepared.
	ErrUnready = errors.New("lb: shared memory is not prepared")
)

// MaxTokens is how many tokens one lease counts at most. Larger numbers are counted as this one.
const MaxTokens = 1<<32 - 1

// LeaseID identifies a lease of one owner. An owner never uses an id twice.
type LeaseID uint64

// Grant is a successful reservation.
type Grant struct {
	Index  int  // of the chosen candidate in the plan
	Load   Load // of that endpoint over all owners, this request included
	Cached int  // number of leading prefix blocks that the endpoint was recorded to have
	Why    Why  // it was chosen, as far as the store tells

	// Left is what is left of the candidate's budget after the step, of a plan with budgets. Beside [ErrOverBudget] it
	// is that of the candidate which is likely to take the request first, with its Index. A remote store may not know
	// it for a request that has waited: -1.
	Left budget.Left

	Queued   bool          // the request had to wait in the queue
	Waited   time.Duration // for how long
	Expected time.Duration // beside an error: until a request of its class is likely to be placed; 0 if unknown
}

// Store counts the work in flight per endpoint over all its owners, and grants each request the cheapest endpoint in
// one atomic step. One Store value belongs to one owner; stores that share a backend see each other's counts.
//
// Every count belongs to a lease: the totals of an endpoint are the sum of the live leases of all owners, and never
// negative. now is monotonic and shared by all owners; a remote store uses the clock of its server instead. A Store is
// for one goroutine.
type Store interface {
	// Reserve chooses among the plan's candidates by the rule of [Choose], counts the request there under id, less
	// the tokens that are cached there, and records the prompt for the endpoint.
	// done is called exactly once, possibly before Reserve returns. Reserving an id again returns its current grant.
	//
	// A request whose plan says so waits while there is no room for it: done is called from Poll, or from a call for
	// another lease. Its Release takes it out of the queue, without a call of done.
	//
	// A request that waits and is planned anew is reserved under another id, which names the old one (Wait.Instead). In
	// one step that takes its place, or is granted what the old one was, or is refused if that was evicted. After that
	// the old one is released: else it would be out of the queue for a while, and others would have its turn.
	Reserve(now time.Duration, id LeaseID, p *Plan, done func(Grant, error))
	// Amend changes a lease: the request is now served by addr ("" for the current endpoint) and counts for tokens.
	// An unknown id has no effect.
	Amend(now time.Duration, id LeaseID, addr string, tokens int64)
	// NoteServed notes how many tokens the request of a lease was really served: of its prompt those that were not
	// cached, and its answer. If the request has waited in the queue, Release corrects by that what its class and its
	// tenant count as served there, which its plan could only estimate. It has no effect on what the lease counts.
	NoteServed(id LeaseID, tokens int64)
	// Release returns what id still counts. It is idempotent, and may come before its Reserve has run: the
	// reservation then fails with [ErrReleased].
	Release(now time.Duration, id LeaseID)
	// ForgetPrompt deletes the record that the endpoint has more than the first n of the plan's blocks, because it
	// failed or reported fewer cached tokens. id is the lease that was granted for the plan, not released yet.
	ForgetPrompt(now time.Duration, id LeaseID, p *Plan, addr string, n int)
	// RecordPrompt records that the endpoint has the plan's prompt in its cache, because it served the request in
	// place of the chosen one. id is the lease that was granted for the plan, not released yet.
	RecordPrompt(now time.Duration, id LeaseID, p *Plan, addr string)
	// Settle corrects the charge of a lease at the endpoint by tokens and requests: above 0 charges more, below 0 gives
	// back. requests is -1 for a request that the endpoint never saw, 1 for one that it serves in place of another
	// endpoint, else 0. It has no effect in a store that has not charged the lease itself, or has released it, or where
	// the endpoint has no budget.
	Settle(now time.Duration, id LeaseID, addr string, tokens, requests int64)
	// Restrict lowers what is left of the endpoint's budget to what it has said itself, for all owners. Without a
	// budget there it has no effect.
	Restrict(now time.Duration, scope, addr string, r budget.Restriction)
	// Poll looks what has become of this owner's waiting requests and calls done for those that were granted, evicted,
	// or have waited long enough. It returns when it should be called again at the latest, 0 while none waits.
	Poll(now time.Duration) time.Duration
	// Waits reports whether the owner's request is in the queue, as far as the store knows by now: a remote store does
	// not before it is answered.
	Waits(id LeaseID) bool
	// Queue returns what is known of the requests that wait in the scope.
	Queue(now time.Duration, scope string) QueueStats
	// Heartbeat renews the owner, retries failed writes, and expires the leases of owners without a heartbeat for
	// longer than the store's TTL. Call it about once a second.
	Heartbeat(now time.Duration) error
}

// LocalStore is a store of one gateway, which a [FallbackStore] uses while its remote store does not answer.
type LocalStore interface {
	Store
	TaskStore
	// HasLease returns whether id is a lease of this owner.
	HasLease(id LeaseID) bool
	// CountAt counts a request at addr, which another store has chosen, under id. The owner must not hold id already.
	CountAt(now time.Duration, id LeaseID, scope, addr string, tokens int64) error
	// CountBudget is CountAt for the candidate of a plan with budgets, which it charges as well.
	CountBudget(now time.Duration, id LeaseID, p *Plan, index int) error
	// Owners returns how many owners of the gateway are alive.
	Owners(now time.Duration) (int, error)
}

// KV is process-wide shared memory with compare-and-swap, as a gateway offers it to its plugins.
//
// Only an existing key can be swapped safely: setting with cas 0 overwrites, even if another worker has just created
// the key. Keys whose first value must not be lost are therefore created before any worker runs; of a key that is
// created later, several workers may write the first value, and the last one stays.
type KV interface {
	// Get returns the value and its version, or ErrNotFound if the key was never set. The value belongs to the caller.
	Get(key string) (val []byte, cas uint32, err error)
	// Set writes the value if the version is still cas, else returns ErrMismatch. cas 0 overwrites.
	Set(key string, val []byte, cas uint32) error
}

// Errors of a KV.
var (
	ErrNotFound = errors.New("lb: no such key")
	ErrMismatch = errors.New("lb: value has been changed by another worker")
)
