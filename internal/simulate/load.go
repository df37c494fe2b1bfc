package simulate

import "time"

// Load is who sends what when. Times are those of the run, and do not go back. A Load is for one run.
type Load interface {
	// Begin is called first. send has Send called at a time, not before now; it may be called in all methods.
	Begin(send func(at time.Duration, number int))
	// Send returns the request that is to be sent now, under the number, nil if there is none.
	Send(now time.Duration, number int) *Request
	// Ended is called when the request that was sent under the number was served or refused.
	Ended(now time.Duration, number int, r *Request, served bool)
}
