package host

import "time"

const (
	// retryJitter is the part by which waits vary at random, up or down, so that clients that are refused together do
	// not come back together.
	retryJitter = 0.1
	// maxRetryAfter bounds that time.
	maxRetryAfter = time.Hour
	// refillTick is what waits are rounded up to, so that those who were refused for one bucket come back together with
	// what has refilled, and not one after the other in between.
	refillTick = 100 * time.Millisecond
	// MinWait is the shortest wait that is reported to a client.
	MinWait = 50 * time.Millisecond
)

// WaitFor returns the wait to report to a client that can expect to be admitted after that time.
func (e *Env) WaitFor(expected time.Duration) time.Duration {
	wait := e.Varied(expected)
	return max(MinWait, (wait+refillTick-1)/refillTick*refillTick)
}

// Varied returns an expected wait, maxRetryAfter at most, longer or shorter by up to retryJitter of it at random.
func (e *Env) Varied(expected time.Duration) time.Duration {
	random := float64(e.GW.Random()>>11) / (1 << 53)
	return time.Duration(float64(min(expected, maxRetryAfter)) * (1 + retryJitter*(2*random-1)))
}
