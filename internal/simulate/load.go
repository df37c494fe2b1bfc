package simulate

import "time"

// Never is no time.
const Never = time.Duration(-1)

// Load is who sends what when. Times are those of the run, and do not go back. A Load is for one run.
type Load interface {
	// Begin returns when each user sends the first request.
	Begin() []time.Duration
	// Send returns the request that a user sends now, nil if there is none; and when the same user sends the next one
	// whatever becomes of this one, or [Never].
	Send(now time.Duration, user int) (r *Request, next time.Duration)
	// Ended returns when the user sends the next request, now that this one was served or refused, or [Never].
	Ended(now time.Duration, user int, r *Request, served bool) (next time.Duration)
}
