package core

import (
	"time"

	"github.com/warmgate/warmgate/plugin/host"
)

// bodies is the part of a VM that looks after requests whose bodies have not ended.
type bodies struct {
	*host.Env
	reading map[*Stream]time.Duration   // held until their body comes, and until when
	partial map[*placement]bodyProgress // whose leases count what has come of the body
	kept    int                         // bytes in memory of those that are read on: see longBody
	held    int                         // bytes that the gateway holds of them
	stale   bool                        // the gateway does not show the latest part of a body that it holds
}

// bodyProgress is how much of a body had come, and when that was first seen.
type bodyProgress struct {
	at       time.Duration
	received int // bytes
}

func newBodies(e *host.Env) *bodies {
	return &bodies{Env: e, reading: map[*Stream]time.Duration{}, partial: map[*placement]bodyProgress{}}
}

// track notes that a lease was granted before the end of the body, for what was read of it.
func (b *bodies) track(s *placement) {
	if s.prompt.work.open && s.prompt.work.seen > 0 {
		b.partial[s] = bodyProgress{b.Clock(), s.body.received}
	}
}

// expire ends the wait for bodies that are late, and amends the leases of requests whose bodies have stalled.
func (b *bodies) expire(now time.Duration) {
	for s, until := range b.reading {
		if now >= until {
			b.RunAs(s.context, "a held request", s.bodyTimeout, s.bodyTimeoutRecovered)
		}
	}
	for s, p := range b.partial {
		switch {
		case s.body.received != p.received:
			b.partial[s] = bodyProgress{now, s.body.received}
		case now-p.at >= stallTime:
			b.RunAs(s.context, "a stalled request", s.prompt.stalled, s.recovered)
		}
	}
}
