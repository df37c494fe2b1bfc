package lb

import (
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb/budget"
)

// TaskID identifies a task. It cannot be guessed.
type TaskID [16]byte

// taskMark is in ids that end in a digest of the call.
const taskMark = 0x7711

// NewTaskID returns the id of a new task: it cannot be guessed by the random bits, and is no other's by the owner and
// by its number among the owner's tasks. It ends in the digest of the call that asked for the task.
func NewTaskID(random, owner, number uint64, call uint16) (id TaskID) {
	wire.PutUint64(id[:], 0, random)
	wire.PutUint64(id[:], 8, xxhash.Sum64(wire.Writer(nil).Uint64(random).Uint64(owner).Uint64(number)))
	wire.PutUint16(id[:], 12, taskMark)
	wire.PutUint16(id[:], 14, call)
	return id
}

// IsOf reports whether the task may have been asked for by a call with the digest. Ids of gateways before this version
// have none.
func (id TaskID) IsOf(call uint16) bool {
	return wire.Uint16(id[:], 12) != taskMark || wire.Uint16(id[:], 14) == call
}

// Task is a request that somebody else sends to the endpoint that it was granted. It counts there as a lease does, but
// belongs to the store and not to an owner: it ends when it is completed, or when it was not renewed in time.
type Task struct {
	ID    TaskID
	Grant Grant
}

// TaskEnd is how a task ended.
type TaskEnd uint8

// The ends of a task.
const (
	TaskUnknown   TaskEnd = iota // there is no such task, or it ended too long ago
	TaskCompleted                // by this call
	TaskEnded                    // completed by an earlier call
	TaskAbandoned                // not renewed in time: what it counted was given back
)

// TaskUse is what a caller says of a task that is over.
type TaskUse struct {
	Tokens int64         // that it has used, -1 if that is unknown
	Closed time.Duration // for how long its endpoint takes nothing, by its own word; 0: it takes more
	Most   time.Duration // for how long that closes it at most: see [budget.Restriction]
}

// Restriction is what that says of the endpoint.
func (u TaskUse) Restriction() budget.Restriction {
	return budget.Restriction{Tokens: -1, Requests: -1, RetryAfter: u.Closed, MaxClosed: u.Most}
}

// TaskStore counts tasks in the same step as a [Store] counts requests: see [Store.Reserve]. done is called exactly
// once. A task that has ended is remembered for as long as it would have lived.
type TaskStore interface {
	// Schedule places a task by a plan with budgets. The task ends ttl from now unless it is renewed; then what it
	// counted and was charged is given back. A key other than 0 that a task in the scope has gives that one again, as
	// long as it lives and its endpoint is a candidate; if it is none, the task is abandoned for a new one. A task
	// never waits: it is refused with [ErrOverBudget]; and with [ErrOtherCall] if the plan is for another call than
	// the one that the task with the key was scheduled by.
	Schedule(now time.Duration, key uint64, ttl time.Duration, p *Plan, done func(Task, error))
	// Complete ends a task. One that was abandoned is charged what it has used, once, if that is known.
	// An error means that the store does not answer, and the call may be repeated.
	Complete(now time.Duration, scope string, id TaskID, use TaskUse, done func(TaskEnd, error))
	// Renew has the task end ttl from now. It reports whether there is such a task. Errors are as for Complete.
	Renew(now time.Duration, scope string, id TaskID, ttl time.Duration, done func(bool, error))
	// Overrides returns the limits of targets that were set at run time, once it has set those of one target, unless
	// set is nil. All owners see the same. An error means that nothing is known to have changed.
	Overrides(now time.Duration, scope string, set *Override, done func([]Override, error))
	// Levels looks up endpoints with budgets: what is in flight there over all owners, and what the store knows of
	// their budgets, as that is by now. It changes nothing. An error means that the store does not answer.
	Levels(now time.Duration, scope string, addrs []string, done func([]BudgetLevel, error))
}

// BudgetLevel is what is in flight at an endpoint, and what is known of its budget.
type BudgetLevel struct {
	Load
	Budget budget.State
}
