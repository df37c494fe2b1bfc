package redisclient

import "time"

const (
	// breakAfter failures in a row open the breaker.
	breakAfter = 5
	// breakShare of the answers within breakSpan opens it too, once there are breakLeast of them.
	breakShare = 0.2
	breakLeast = 20
	breakSpan  = time.Second
)

// breaker keeps requests from a server that does not answer them. While it is open only the owner's beat, once a second,
// still tries, so that no request waits for a probe; its success closes the breaker.
type breaker struct {
	open     bool
	row      int // failures in a row
	from     time.Duration
	all, bad int // since from
}

// succeeded notes a good answer; probe says that it was the beat's.
func (b *breaker) succeeded(now time.Duration, probe bool) {
	if b.open && !probe {
		return // a late answer to a call from before
	}
	if b.open {
		*b = breaker{from: now}
	}
	b.row = 0
	b.count(now, 0)
}

// failed notes a failure.
func (b *breaker) failed(now time.Duration) {
	b.row++
	b.count(now, 1)
	if b.row >= breakAfter || b.all >= breakLeast && float64(b.bad) >= breakShare*float64(b.all) {
		b.open = true
	}
}

func (b *breaker) count(now time.Duration, bad int) {
	if since := now - b.from; since < 0 || since > breakSpan {
		b.from, b.all, b.bad = now, 0, 0
	}
	b.all++
	b.bad += bad
}
