package queue

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// list is a list of endpoints that requests may use. Requests with the same one share the latest caps.
type list struct {
	key     uint32
	entries []Entry
	budgets bool    // the endpoints have budgets: see budget.go
	bonus   float64 // tokens a second that are set aside for who waits for them
	waiting int     // tickets that have it; not packed
}

// Entry is an endpoint of a list.
type Entry struct {
	Row      int
	Cap      int64 // requests in flight at which the endpoint is full; 0 for no cap
	TokenCap int64 // tokens in flight at which it is, too; 0 for no cap
	Limits   budget.Limits
}

func (e *Entry) open(loads Loads) bool {
	l := loads.Load(e.Row)
	return (e.Cap == 0 || l.Requests < e.Cap) && (e.TokenCap == 0 || l.Tokens < e.TokenCap)
}

// used returns the part of the endpoint's cap that is in use, the larger one of two.
func (e *Entry) used(loads Loads) float64 {
	l, limit := loads.Load(e.Row), float64(e.Cap)
	if e.Cap == 0 {
		limit = math.MaxUint32
	}
	part := float64(l.Requests) / limit
	if e.TokenCap > 0 {
		part = max(part, float64(l.Tokens)/float64(e.TokenCap))
	}
	return part
}

// Loads are what is in flight at the endpoints, over all owners.
type Loads interface {
	Load(row int) lb.Load
	// IsSilent reports whether the owner has shown no sign of life for longer than [lb.Silence].
	IsSilent(owner uint64) bool
	// Add counts one more request.
	Add(row int, tokens int64)
	// Targets returns endpoints with budgets as they are at now, and which of them was served last, -1 for none. They
	// are valid until the next call.
	Targets(now time.Duration, entries []Entry, bonus float64) (targets []budget.Target, last int)
	// Charge charges targets[i] with the tokens. Targets has returned the targets for the same entries.
	Charge(now time.Duration, entries []Entry, targets []budget.Target, i int, tokens float64)
}
