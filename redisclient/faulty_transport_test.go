package redisclient_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warmgate/warmgate/redisclient"
)

// rough is a transport that loses, delays, reorders and doubles commands and answers. Time is the caller's: delayed
// things happen when step is called.
type rough struct {
	conn  *syncTransport
	rng   *rand.Rand
	share float64 // of the commands that something happens to
	later []func(now time.Duration)
	fates [fates]int
}

// What may happen to a command.
const (
	commandLost = iota
	answerLost
	ghost        // carried out later; nobody hears of it
	answerLate   // carried out at once, answered later
	delayed      // carried out and answered later
	repeated     // carried out twice and answered once
	doubled      // carried out and answered, and once more later
	refused      // not carried out: the connection is broken
	brokenBehind // carried out, then the connection breaks
	fates
)

// Do implements redisclient.Transport.
func (r *rough) Do(now time.Duration, cmd []byte, done redisclient.Done) {
	if r.rng.Float64() >= r.share {
		done(now, r.conn.roundTrip(cmd), nil)
		return
	}
	cmd = slices.Clone(cmd)
	fate := r.rng.IntN(fates)
	r.fates[fate]++
	switch fate {
	case commandLost:
	case answerLost:
		r.conn.roundTrip(cmd)
	case ghost:
		r.later = append(r.later, func(time.Duration) { r.conn.roundTrip(cmd) })
	case answerLate:
		reply := r.conn.roundTrip(cmd)
		r.later = append(r.later, func(now time.Duration) { done(now, reply, nil) })
	case delayed:
		r.later = append(r.later, func(now time.Duration) { done(now, r.conn.roundTrip(cmd), nil) })
	case repeated:
		first := r.conn.roundTrip(cmd)
		second := r.conn.roundTrip(cmd)
		if granted(first) && !bytes.Equal(first, second) {
			r.conn.t.Fatalf("a repeated reservation is answered with %q and then %q", first, second)
		}
		done(now, second, nil)
	case doubled:
		done(now, r.conn.roundTrip(cmd), nil)
		r.later = append(r.later, func(time.Duration) { r.conn.roundTrip(cmd) })
	case refused:
		done(now, nil, redisclient.ErrUnreachable)
	case brokenBehind:
		r.conn.roundTrip(cmd)
		done(now, nil, redisclient.ErrUnreachable)
	}
}

// granted says whether the reply is a grant.
func granted(reply []byte) bool {
	v, _, err := redisclient.Parse(reply)
	return err == nil && v.Kind == redisclient.Array && len(v.Items) >= 3 && v.Items[0].Int >= 0
}

// step lets some of what is delayed happen, in any order.
func (r *rough) step(now time.Duration) {
	for range r.rng.IntN(3) {
		if len(r.later) > 0 {
			r.happen(now, r.rng.IntN(len(r.later)))
		}
	}
}

// calm ends the roughness: what is delayed happens now, in any order.
func (r *rough) calm(now time.Duration) {
	r.share = 0
	for len(r.later) > 0 {
		r.happen(now, r.rng.IntN(len(r.later)))
	}
}

func (r *rough) happen(now time.Duration, i int) {
	f := r.later[i]
	r.later = slices.Delete(r.later, i, i+1)
	f(now)
}
