package core

import (
	"github.com/warmgate/warmgate/plugin/host"
)

// ownAnswer is the plugin's answer to a request that it answers itself: a call of the admission API, or a probe of
// another region. Such a request is never placed, and counted under no reason. All methods run in its context.
type ownAnswer interface {
	// read is called when more of the body has come, size bytes in all, or trailers.
	read(size int, end bool) host.Action
	// late is called when the body did not come in the time that the answer has waited for it.
	late()
	// left is called when the request is over, or the gateway has answered it: perhaps before this has.
	left()
	// failed is called when a callback of the request has panicked.
	failed() host.Action
}
