// Package queuecheck judges recorded histories of a queue: whether requests were granted endpoints in the order that
// the configuration promises, and whether none was lost, granted twice or left waiting beside an open endpoint.
package queuecheck

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// Kind is what an event of a history says.
type Kind uint8

// The kinds of events.
const (
	Entered  Kind = iota // a request came; it may be granted at once
	Granted              // it was granted an endpoint
	Refused              // the gateway has answered it with an error
	Left                 // it went away while it waited
	Moved                // it is in flight at another endpoint now, or for other tokens, whatever the caps there
	Released             // it is in flight no more
	Capped               // the caps of an endpoint are Cap and Tokens from now on
)

var kindNames = [...]string{"entered", "granted", "refused", "left", "moved", "released", "capped"}

// String returns the kind's name.
func (k Kind) String() string { return kindNames[k] }

// Codes of refusals that have rules.
const (
	CodeEvicted = "evicted"       // a request with a better claim took the place
	CodeTimeout = "queue_timeout" // it has waited for as long as it may
)

// Request is what is known of a request when it comes.
type Request struct {
	Class     string
	Tenant    string
	Cost      float64       // what serving it counts for its class and tenant; 0 counts as 1
	Endpoints []string      // that it may use
	Warm      []string      // of these, the ones that have its prompt
	Skip      int           // how many others it may pass at an endpoint that has its prompt, or not theirs
	MaxWait   time.Duration // 0: for ever
	Aging     time.Duration // after which its class has a part of what is granted at least; 0: never
	Patience  time.Duration // for how long it may leave an endpoint to others, while one of Warm is full
}

// Event is one step of a history.
type Event struct {
	At       time.Duration
	Earliest time.Duration // of Entered and Granted: when it may have happened already; 0: At
	Kind     Kind
	ID       uint64  // of the request
	Request  Request // of Entered
	Endpoint string  // of Granted, Moved and Capped
	Warm     bool    // of Granted: the endpoint was found to have the request's prompt
	Cost     float64 // of Granted: what serving it there counts; 0: that of the request
	Code     string  // of Refused
	Cap      int     // of Capped, in requests in flight; 0: no cap
	Tokens   int64   // of Granted and Moved: that it counts for there; of Capped: the cap in tokens, 0 for none
}

// History is what happened in one queue, in any order. Endpoints without an event Capped have no cap.
type History []Event

// record is what a history says of one request.
type record struct {
	Request
	id      uint64
	entered time.Duration
	ended   time.Duration // when it was granted, refused or left; never if it was not
	soonest struct{ entered, ended time.Duration }
	end     Kind
	at      string // the endpoint that it was granted
	warm    bool
	code    string
	stays   []stay
	passed  int // by how many others
}

// stay is the time of a request in flight at one endpoint.
type stay struct {
	endpoint string
	from, to time.Duration
	moved    bool // it was not granted the endpoint, or not for these tokens
	tokens   int64
}

const never = time.Duration(1<<63 - 1)

func (r *record) cost() float64 { return cmp.Or(r.Cost, 1) }

// stayFrom returns the request's stay at the endpoint that has begun at the time.
func (r *record) stayFrom(at time.Duration, endpoint string) (s stay, ok bool) {
	if r == nil {
		return stay{}, false
	}
	i := slices.IndexFunc(r.stays, func(s stay) bool { return s.endpoint == endpoint && s.from == at })
	if i < 0 {
		return stay{}, false
	}
	return r.stays[i], true
}

func (r *record) name() string { return "request " + strconv.FormatUint(r.id, 10) }

// mayUse reports whether the endpoint is one that the request may use.
func (r *record) mayUse(endpoint string) bool { return slices.Contains(r.Endpoints, endpoint) }

// warmElsewhere reports whether the request's prompt is at other endpoints and not at this one. Requests that lose
// nothing by being served here may pass it, as those with a warm prefix may.
func (r *record) warmElsewhere(endpoint string) bool {
	return len(r.Warm) > 0 && !slices.Contains(r.Warm, endpoint)
}

// patient reports whether the request may leave the endpoint to others at the time.
func (r *record) patient(endpoint string, at, slack time.Duration) bool {
	return r.warmElsewhere(endpoint) && at-r.entered <= r.Patience+slack
}

// aged reports whether the request has waited for its aging at the time.
func (r *record) aged(at time.Duration) bool { return r.Aging > 0 && at-r.entered >= r.Aging }
