package simulate

import (
	"time"

	"github.com/warmgate/warmgate/lb"
)

// router chooses engines for requests.
type router interface {
	// route places the request, or refuses it, now or after it has waited.
	route(now time.Duration, r *Request)
	// first notes the first token of an answer, and last its end, or that the engine has refused the request.
	first(now time.Duration, r *Request)
	last(now time.Duration, r *Request, verdict lb.Verdict)
}

// gateway is what a router asks for.
type gateway struct {
	clock  func() time.Duration
	place  func(r *Request, endpoint int)  // sends a request to an endpoint of the pool: an engine, or a server
	refuse func(r *Request, reason string) // ends one that no engine gets
}
