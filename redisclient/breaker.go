package redisclient

import "time"

const (
	// maxFailuresInRow is how many consecutive failures open the breaker.
	maxFailuresInRow = 5
	// maxFailureShare is the share of failures among the answers within failureWindow from which the breaker opens,
	// once there are at least minAnswers in the window.
	maxFailureShare = 0.2
	minAnswers      = 20
	failureWindow   = time.Second
)

// breaker is a circuit breaker: while it is open, no request is sent to a server that does not answer. Only the owner's
// heartbeat, once a second, is still sent as a probe, so that no request has to wait for one. A successful heartbeat
// closes the breaker.
type breaker struct {
	open        bool
	inRow       int           // consecutive failures
	windowStart time.Duration // when the current window began

	answers, failures int // since windowStart; failures are counted in both
}

// success counts a good answer. probe is true for the answer to a heartbeat, which alone closes the breaker. The client
// passes no other success while the breaker is open: when it opens all other calls fail, and their late answers are
// dropped (see late.go).
func (b *breaker) success(now time.Duration, probe bool) {
	if b.open && !probe {
		return
	}
	if b.open {
		*b = breaker{windowStart: now}
	}
	b.inRow = 0
	b.count(now, 0)
}

// failure counts a failed call, and opens the breaker when there were too many.
func (b *breaker) failure(now time.Duration) {
	b.inRow++
	b.count(now, 1)
	if b.inRow >= maxFailuresInRow ||
		b.answers >= minAnswers && float64(b.failures) >= maxFailureShare*float64(b.answers) {
		b.open = true
	}
}

// count adds one answer to the window, and begins a new window when the current one is over or the clock went back.
func (b *breaker) count(now time.Duration, failures int) {
	if since := now - b.windowStart; since < 0 || since > failureWindow {
		b.windowStart, b.answers, b.failures = now, 0, 0
	}
	b.answers++
	b.failures += failures
}
