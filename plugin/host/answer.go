package host

// Answer is the plugin's answer to a request that it answers itself: a call of the admission API, or a probe of
// another region. Such a request is never placed, and counted under no reason. All methods run in its context.
type Answer interface {
	// Read is called when more of the body has come, size bytes in all, or trailers.
	Read(size int, end bool) Action
	// Late is called when the body did not come in the time that the answer has waited for it.
	Late()
	// Left is called when the request is over, or the gateway has answered it: perhaps before this has.
	Left()
	// Failed is called when a callback of the request has panicked.
	Failed() Action
}
