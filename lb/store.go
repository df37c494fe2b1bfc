package lb

import (
	"errors"
	"time"
)

// Errors of a store. Any other error means that the store cannot be reached or trusted at the moment.
var (
	// ErrFull says that every candidate of the plan is at its cap.
	ErrFull = errors.New("lb: every candidate is at its cap")
	// ErrReleased says that the lease was released before its reservation ran: nothing was counted.
	ErrReleased = errors.New("lb: lease released before it was reserved")
	// ErrContended says that other workers changed the counts faster than this one could.
	ErrContended = errors.New("lb: too much contention on the counts")
	// ErrNoRoom says that a table of the store is full.
	ErrNoRoom = errors.New("lb: no room left in the store")
	// ErrUnready says that the shared memory of the store was never prepared.
	ErrUnready = errors.New("lb: shared memory is not prepared")
)

// MaxTokens is how many tokens one lease counts at most. Larger numbers are counted as this one.
const MaxTokens = 1<<32 - 1

// LeaseID names a lease within its owner. An owner never uses an id twice.
type LeaseID uint64

// Grant is a successful reservation.
type Grant struct {
	Index  int  // of the chosen candidate in the plan
	Load   Load // of that endpoint over all owners, this request included
	Cached int  // how many of the prompt's blocks the endpoint was taken to have in its cache
}

// Store counts the work in flight per endpoint over all its owners, and gives each request the cheapest endpoint in
// one atomic step. One Store value belongs to one owner; stores that share a backend see each other's counts.
//
// Every count is held by a lease: the totals of an endpoint are the sum of the live leases of all owners, never less
// than zero. now is monotonic and shared by all owners (for a remote store, its own clock rules instead). A Store is
// used from one goroutine.
type Store interface {
	// Reserve chooses among the plan's candidates by the rule of [Choose], counts the request there under id, for the
	// tokens that are not cached there, and notes that the endpoint has the prompt from now on.
	// done is called exactly once, possibly before Reserve returns. Reserving an id that is reserved already
	// answers with its standing grant.
	Reserve(now time.Duration, id LeaseID, p *Plan, done func(Grant, error))
	// Amend corrects a lease: the request is now served by addr ("" leaves the endpoint) and counts for tokens.
	// An unknown lease is left alone.
	Amend(now time.Duration, id LeaseID, addr string, tokens int64)
	// Release gives back what id still holds. It is idempotent, and may come before its Reserve has run: the
	// reservation then answers [ErrReleased].
	Release(now time.Duration, id LeaseID)
	// ForgetPrompt takes back that the endpoint has more than the first n of the plan's blocks in its cache: it has failed, or has
	// said so. id is the lease that was granted for the plan, and is still held.
	ForgetPrompt(now time.Duration, id LeaseID, p *Plan, addr string, n int)
	// RecordPrompt remembers that the endpoint has the plan's prompt in its cache: it has served the request in place of the chosen one.
	// id is the lease that was granted for the plan, and is still held.
	RecordPrompt(now time.Duration, id LeaseID, p *Plan, addr string)
	// Heartbeat renews the owner, retries what could not be written before, and returns the leases of owners that have
	// been silent for longer than the store's TTL. Call it about once a second.
	Heartbeat(now time.Duration) error
}

// LocalStore is a store of one gateway, which a [FallbackStore] uses while its remote store does not answer.
type LocalStore interface {
	Store
	// HasLease returns whether id is a lease of this owner.
	HasLease(id LeaseID) bool
	// CountAt counts a request at addr, which another store has chosen, under id. The owner must not hold id already.
	CountAt(now time.Duration, id LeaseID, scope, addr string, tokens int64) error
	// Owners returns how many owners of the gateway are alive.
	Owners(now time.Duration) (int, error)
}

// KV is process-wide shared memory with compare-and-swap, as a gateway offers it to its plugins.
//
// Only an existing key can be swapped safely: setting with cas 0 overwrites, also when another worker has just created
// the key. Keys that several workers write are therefore created before any worker runs.
type KV interface {
	// Get returns the value and its version; ErrNotFound when the key was never set. The value belongs to the caller.
	Get(key string) (val []byte, cas uint32, err error)
	// Set writes the value if the version is still cas, else returns ErrMismatch. cas 0 overwrites.
	Set(key string, val []byte, cas uint32) error
}

// Errors of a KV.
var (
	ErrNotFound = errors.New("lb: no such key")
	ErrMismatch = errors.New("lb: value has changed meanwhile")
)
