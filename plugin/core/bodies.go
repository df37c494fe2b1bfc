package core

import (
	"time"

	"github.com/warmgate/warmgate/plugin/host"
)

// bodies is the part of a VM that looks after requests whose bodies have not ended.
type bodies struct {
	*host.Env
	prompts *prompts                // whose secrets are in the names of prompts
	reading map[*body]time.Duration // those that requests are held for, and until when
	partial map[*work]bodyProgress  // those whose leases count what has come of them
	kept    int                     // bytes in memory of those that are read on: see longBody
	held    int                     // bytes that the gateway holds of them
	stale   bool                    // the gateway does not show the latest part of a body that it holds
}

// bodyUser is who waits for more of the body of a request: the request, or a choice for it.
type bodyUser interface {
	BodyTimeout() // nothing has come in time
	Recovered()   // BodyTimeout has panicked
}

// bodyProgress is how much of a body had come, and when that was first seen.
type bodyProgress struct {
	of       *body
	user     bodyUser
	at       time.Duration
	received int // bytes
}

// newBodies returns the part of a VM whose prompts those are.
func newBodies(e *host.Env, p *prompts) *bodies {
	return &bodies{Env: e, prompts: p, reading: map[*body]time.Duration{}, partial: map[*work]bodyProgress{}}
}

// track notes that a lease was granted before the end of the body, which counts the work so far. user is told when
// nothing more comes.
func (b *body) track(w *work, user bodyUser) {
	b.all.partial[w] = bodyProgress{b, user, b.all.Clock(), b.received}
}

// forget ends that.
func (b *body) forget(w *work) { delete(b.all.partial, w) }

// open returns how many requests are held for their bodies, and how many leases count what has come of them.
func (b *bodies) open() (held, counted int) { return len(b.reading), len(b.partial) }

// expire ends the wait for bodies that are late, and amends the leases of requests whose bodies have stalled.
func (b *bodies) expire(now time.Duration) {
	for of, until := range b.reading {
		if now >= until {
			b.timeout(of, of.user, "a held request")
		}
	}
	for w, p := range b.partial {
		switch {
		case p.of.received != p.received:
			b.partial[w] = bodyProgress{p.of, p.user, now, p.of.received}
		case now-p.at >= stallTime:
			b.timeout(p.of, p.user, "a stalled request")
		}
	}
}

func (b *bodies) timeout(of *body, u bodyUser, what string) {
	b.RunAs(of.context, what, u.BodyTimeout, u.Recovered)
}
