package request

import (
	"time"

	"github.com/warmgate/warmgate/plugin/host"
)

// Bodies is the part of a VM that looks after requests whose bodies have not ended.
type Bodies struct {
	*host.Env
	prompts *Prompts                // whose secrets are in the names of prompts
	reading map[*Body]time.Duration // those that requests are held for, and until when
	partial map[*Work]bodyProgress  // those whose leases count what has come of them
	Kept    int                     // bytes in memory of those that are read on, as their parts come
	Held    int                     // bytes that the gateway holds of them
	Stale   bool                    // the gateway does not show the latest part of a body that it holds
}

// BodyUser is who waits for more of the body of a request: the request, or a choice for it. Its methods run in the
// context of the request.
type BodyUser interface {
	BodyTimeout() // nothing has come in time
	Recovered()   // BodyTimeout has panicked
}

// bodyProgress is how much of a body had come, and when that was first seen.
type bodyProgress struct {
	of       *Body
	user     BodyUser
	at       time.Duration
	received int // bytes
}

// NewBodies returns the part of a VM whose prompts those are.
func NewBodies(e *host.Env, p *Prompts) *Bodies {
	return &Bodies{Env: e, prompts: p, reading: map[*Body]time.Duration{}, partial: map[*Work]bodyProgress{}}
}

// Track notes that a lease was granted before the end of the body, which counts the work so far. user is told when
// nothing more comes.
func (b *Body) Track(w *Work, user BodyUser) {
	b.all.partial[w] = bodyProgress{b, user, b.all.Clock(), b.Received}
}

// Forget ends what Track has begun.
func (b *Body) Forget(w *Work) { delete(b.all.partial, w) }

// Open returns how many requests are held for their bodies, and how many leases count what has come of them.
func (b *Bodies) Open() (held, counted int) { return len(b.reading), len(b.partial) }

// Expire ends the wait for bodies that are late, and amends the leases of requests whose bodies have stalled.
func (b *Bodies) Expire(now time.Duration) {
	for of, until := range b.reading {
		if now >= until {
			b.timeout(of, of.user, "a held request")
		}
	}
	for w, p := range b.partial {
		switch {
		case p.of.Received != p.received:
			b.partial[w] = bodyProgress{p.of, p.user, now, p.of.Received}
		case now-p.at >= stallTime:
			b.timeout(p.of, p.user, "a stalled request")
		}
	}
}

func (b *Bodies) timeout(of *Body, u BodyUser, what string) {
	b.RunAs(of.context, what, u.BodyTimeout, u.Recovered)
}
