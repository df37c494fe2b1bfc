package core

import (
	"time"

	"github.com/warmgate/warmgate/plugin/host"
)

// bodies is the part of a VM that looks after requests whose bodies have not ended.
type bodies struct {
	*host.Env
	reading map[bodyUser]time.Duration // requests that are held until their body comes, and until when
	partial map[bodyUser]bodyProgress  // prompts whose leases count what has come of the body
	kept    int                        // bytes in memory of those that are read on: see longBody
	held    int                        // bytes that the gateway holds of them
	stale   bool                       // the gateway does not show the latest part of a body that it holds
}

// bodyUser is who waits for more of the body of a request: the request, or what is read of it for a choice.
type bodyUser interface {
	gatewayContext() uint32
	bytesCome() int        // of the body
	bodyTimeout()          // nothing has come in time
	bodyTimeoutRecovered() // bodyTimeout has panicked
}

// bodyProgress is how much of a body had come, and when that was first seen.
type bodyProgress struct {
	at       time.Duration
	received int // bytes
}

func newBodies(e *host.Env) *bodies {
	return &bodies{Env: e, reading: map[bodyUser]time.Duration{}, partial: map[bodyUser]bodyProgress{}}
}

// track notes that a lease was granted before the end of the body, for what was read of it.
func (b *bodies) track(u bodyUser) { b.partial[u] = bodyProgress{b.Clock(), u.bytesCome()} }

// expire ends the wait for bodies that are late, and amends the leases of requests whose bodies have stalled.
func (b *bodies) expire(now time.Duration) {
	for s, until := range b.reading {
		if now >= until {
			b.RunAs(s.gatewayContext(), "a held request", s.bodyTimeout, s.bodyTimeoutRecovered)
		}
	}
	for u, p := range b.partial {
		switch {
		case u.bytesCome() != p.received:
			b.partial[u] = bodyProgress{now, u.bytesCome()}
		case now-p.at >= stallTime:
			b.RunAs(u.gatewayContext(), "a stalled request", u.bodyTimeout, u.bodyTimeoutRecovered)
		}
	}
}
