package lb

import (
	"errors"
	"time"
)

// Errors of a store for a request that could not be placed and does not wait, or not any longer. The Grant beside them
// has the time in which a request of its class could expect to be placed.
var (
	// ErrQueueFull is returned when the queue is at its length, or the request's tenant or class is at its part of it.
	ErrQueueFull = errors.New("lb: the queue is full")
	// ErrEvicted is returned when a request of a class below its part of the places, or of a tenant with fewer that
	// wait, has taken the place of this one in a full queue.
	ErrEvicted = errors.New("lb: evicted from a full queue by a request with a better claim")
	// ErrHopeless is returned when the request is not likely to be placed before its wait is over.
	ErrHopeless = errors.New("lb: the expected wait is too long")
	// ErrWaitOver is returned when the request has waited for as long as it may.
	ErrWaitOver = errors.New("lb: the wait is over")
)

// LacksRoom reports whether a store's error says that there is no room for a request, which another place may have.
func LacksRoom(err error) bool {
	return errors.Is(err, ErrFull) || errors.Is(err, ErrQueueFull) || errors.Is(err, ErrEvicted) ||
		errors.Is(err, ErrHopeless)
}

// PollPeriod is how often a store is polled while requests of its owner wait: what it was granted without being told it
// learns that much later.
const PollPeriod = 25 * time.Millisecond

// PatienceStep is in which steps requests are patient: see [Plan.Patience].
const PatienceStep = 10 * time.Millisecond

// Silence is for how long an owner with waiting requests that polls every [PollPeriod] shows no sign of life before
// its turns go to others: ten polls. It keeps its places. If it was only slow, nothing is lost.
const Silence = 10 * PollPeriod

// Wait is how a request waits while every candidate is full, or while others wait that came before it. The zero value:
// it does not wait, and is refused with [ErrFull].
//
// A waiting request is granted an endpoint by the step that frees capacity there, whoever makes that step. Who is next
// is decided in this order: the class, by weight or strictly, with a part for classes of which some have waited for
// Aging; within a class the tenant that was served least; within a tenant the program that was, and then the earliest.
// See package queue.
type Wait struct {
	Max      time.Duration // how long the request waits at most; 0: it does not wait
	Since    time.Duration // when it came, for one that is reserved anew; 0: now
	Place    *Place        // where it waits, kept for when it is reserved anew; nil: only Since tells
	Instead  LeaseID       // its id so far, of one that is planned anew while it waits: see [Store]; 0: none
	Class    Class
	Tenant   uint64        // the request's tenant within its class and its program, 0 for none: see TurnOf
	Strict   bool          // a higher class goes first, whatever it was served; else classes share by weight
	Aging    time.Duration // after which its class has a part of what is granted at least; 0: never
	Skip     int           // how many others it may pass at an endpoint where it is worth more, for cached prompts
	Patience time.Duration // for how long it waits at most for a full endpoint that costs less than all that are open

	Length       int // how many requests wait in a scope at most
	Reserved     int // of these, the places that are reserved for a class, of all classes
	TenantLength int // how many of one tenant in one class; 0: as many as wait at most

	// Limits is a digest of the settings that the caps of the candidates follow from: requests with equal limits and
	// endpoints share the latest caps that one of them has brought.
	Limits uint32
}

// Place is where a request waits in the queue of a store that has another clock than its owners. The store writes it
// when the request begins to wait, and reads it when the request is reserved anew: by Since alone the request would
// change places with those that came as shortly before or after it as commands take.
type Place struct {
	Came   uint64 // when it came, in ms of the store's clock; 0: unknown
	Number uint32 // among those that came in the same ms, the lower one came first
}

// Class is the service class of a request.
type Class struct {
	ID       uint16  // the same for the same name, never 0
	Rank     uint8   // 0 is the highest
	Weight   float64 // share of the served load, relative to the other classes; above 0
	Reserved int     // places of the queue that other classes cannot take
}

// TurnOf returns what stands in [Wait.Tenant] for a program of a tenant: what names the tenant is the lower half, what
// names the program the other one, of which there is none with 0. Programs of one tenant share its turns.
func TurnOf(tenant, program uint64) uint64 { return uint64(uint32(tenant)) | program<<32 }

// Waits reports whether the request waits when it cannot be placed.
func (w *Wait) Waits() bool { return w.Max > 0 }

// HasNowhere reports whether the request has no candidates and does not wait. One without candidates that does has a
// place in the queue, where it is granted nothing until it is planned anew.
func (p *Plan) HasNowhere() bool { return len(p.Candidates) == 0 && !p.Wait.Waits() }

// QueueStats is what a store knows of the requests that wait in one scope.
type QueueStats struct {
	Waiting  int            // over all owners
	ByClass  map[uint16]int // of these, by Class.ID
	Interval time.Duration  // between two grants to waiting requests, on average; 0 if unknown
}
