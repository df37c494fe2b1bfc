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
	// pagesTTL is the TTL of cache entries in these tests, and soonExpired how long the pages would live if their
	// expiry was not extended.
	pagesTTL    = 90 * time.Second
	soonExpired = 20 * time.Second
)

// wantTTL checks that pages live for about d.
func (w *syncTransport) wantTTL(when, key string, d time.Duration) {
	w.t.Helper()
	got := time.Duration(w.value("PTTL", key).Int) * time.Millisecond
	if got <= d-10*time.Second || got > d {
		w.t.Errorf("%s: the pages live for %v, want about %v", when, got, d)
	}
}

// expirePagesSoon has pages expire after soonExpired.
func (w *syncTransport) expirePagesSoon(key string) {
	w.t.Helper()
	w.value("PEXPIRE", key, "20000")
	w.wantTTL("as set", key, soonExpired)
}

// An owner remembers for one number of pages when it extended their expiry. For a plan with another number the expiry
// is extended at once, although the pages exist and all of the prompt matches.
func TestExpiryOfOtherPages(t *testing.T) {
	onEachVersion(t, func(t *testing.T, w *syncTransport, s *redisclient.Store) {
		plan := storetest.WithPrompt(manualPlan, 1, numberedBlocks(40, 1))
		plan.Prefix.TTL = pagesTTL
		other := *plan
		other.Prefix.RedisBytes /= 2
		cachedBlocksAt(t, s, 0, 1, plan)
		key := w.pageKeys()[0]
		w.expirePagesSoon(key)
		cachedBlocksAt(t, s, time.Second, 2, plan)
		w.wantTTL("extended a moment ago", key, soonExpired)
		cachedBlocksAt(t, s, 2*time.Second, 3, &other)
		if keys := w.pageKeys(); len(keys) != 2 {
			t.Fatalf("keys %q, want one for each number of pages", keys)
		}
		w.wantTTL("other pages were used", key, soonExpired)
		if n := cachedBlocksAt(t, s, 3*time.Second, 4, plan); n != 40 {
			t.Fatalf("%d blocks are known, want all 40: the pages would be written anyway", n)
		}
		w.wantTTL("after other pages", key, pagesTTL)
	})
}

// A reservation that is lost has not extended the expiry: the next one does.
func TestExpiryAfterLostReservation(t *testing.T) {
	onEachVersion(t, func(t *testing.T, w *syncTransport, s *redisclient.Store) {
		plan := storetest.WithPrompt(manualPlan, 1, numberedBlocks(40, 1))
		plan.Prefix.TTL = pagesTTL
		cachedBlocksAt(t, s, 0, 1, plan)
		key := w.pageKeys()[0]
		w.expirePagesSoon(key)
		now := pagesTTL / 2 // so that it has to be extended
		w.fate = func(cmd []byte) int {
			if bytes.Contains(cmd, []byte(key)) {
				return notSent
			}
			return arrives
		}
		var lost result
		s.Reserve(now, 2, plan, lost.set)
		lost.want(t, "waits")
		now += 2 * manualTimeout
		s.Expire(now)
		lost.want(t, "timeout")
		w.wantTTL("after a lost reservation", key, soonExpired)
		w.fate = nil
		if n := cachedBlocksAt(t, s, now, lb.LeaseID(3), plan); n != 40 {
			t.Fatalf("%d blocks are known, want all 40: the pages would be written anyway", n)
		}
		w.wantTTL("after the next one", key, pagesTTL)
	})
}
