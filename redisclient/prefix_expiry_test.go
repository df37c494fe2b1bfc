package redisclient_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

const (
	// pagesLive is for how long endpoints are taken to keep what they have in these tests, and
	// soonOver how long the pages would live if nobody saw to their expiry.
	pagesLive = 90 * time.Second
	soonOver  = 20 * time.Second
)

// lives expects pages to live for about d.
func (w *wire) lives(when, key string, d time.Duration) {
	w.t.Helper()
	got := time.Duration(w.value("PTTL", key).Int) * time.Millisecond
	if got <= d-10*time.Second || got > d {
		w.t.Errorf("%s: the pages live for %v, want about %v", when, got, d)
	}
}

// expireSoon lets pages live for soonOver.
func (w *wire) expireSoon(key string) {
	w.t.Helper()
	w.value("PEXPIRE", key, "20000")
	w.lives("as set", key, soonOver)
}

// An owner knows of one number of pages that their expiry was put forward. A plan with another one has the expiry of
// its own pages put forward at once, although they are there and all of the prompt is known.
func TestExpiryOfOtherPages(t *testing.T) {
	onVersions(t, func(t *testing.T, w *wire, s *redisclient.Store) {
		plan := storetest.WithPrompt(manualPlan, 1, numbered(40, 1))
		plan.Prefix.TTL = pagesLive
		other := *plan
		other.Prefix.IndexMemory.Remote /= 2
		onceAt(t, s, 0, 1, plan)
		key := w.hashes()[0]
		w.expireSoon(key)
		onceAt(t, s, time.Second, 2, plan)
		w.lives("put forward a moment ago", key, soonOver)
		onceAt(t, s, 2*time.Second, 3, &other)
		if keys := w.hashes(); len(keys) != 2 {
			t.Fatalf("keys %q, want one for each number of pages", keys)
		}
		w.lives("other pages were used", key, soonOver)
		if n := onceAt(t, s, 3*time.Second, 4, plan); n != 40 {
			t.Fatalf("%d blocks are known, want all 40: the pages would be written anyway", n)
		}
		w.lives("after other pages", key, pagesLive)
	})
}

// A reservation that is lost on its way has not put the expiry forward: the next one does.
func TestExpiryAfterLostReservation(t *testing.T) {
	onVersions(t, func(t *testing.T, w *wire, s *redisclient.Store) {
		plan := storetest.WithPrompt(manualPlan, 1, numbered(40, 1))
		plan.Prefix.TTL = pagesLive
		onceAt(t, s, 0, 1, plan)
		key := w.hashes()[0]
		w.expireSoon(key)
		now := pagesLive / 2 // so that it has to be put forward
		w.lose = func(cmd []byte) int {
			if bytes.Contains(cmd, []byte(key)) {
				return notSent
			}
			return arrives
		}
		var lost result
		s.Reserve(now, 2, plan, lost.take)
		lost.want(t, "waits")
		now += 2 * manualTimeout
		s.Expire(now)
		lost.want(t, "timeout")
		w.lives("after a lost reservation", key, soonOver)
		w.lose = nil
		if n := onceAt(t, s, now, lb.LeaseID(3), plan); n != 40 {
			t.Fatalf("%d blocks are known, want all 40: the pages would be written anyway", n)
		}
		w.lives("after the next one", key, pagesLive)
	})
}
