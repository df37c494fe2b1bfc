package redisclient_test

import (
	"testing"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// A reservation without an answer in time leaves nothing in Redis, whether it has run or runs later, and whether its
// time was over or its client left: neither the request nor the record of blocks that only its prompt has.
func TestLateReservation(t *testing.T) {
	onEachVersion(t, func(t *testing.T, w *syncTransport, s *redisclient.Store) {
		for i, c := range []struct {
			name string
			fate int
			end  func(id lb.LeaseID)
		}{
			{"has run", replyLost, func(lb.LeaseID) { s.Expire(manualTimeout) }},
			{"has run, and the client left", replyLost, func(id lb.LeaseID) { s.Release(0, id) }},
			{"runs later", runsLate, func(lb.LeaseID) { s.Expire(manualTimeout) }},
			{"runs later, and the client left", runsLate, func(id lb.LeaseID) { s.Release(0, id) }},
		} {
			first := uint64(100 * i)
			begin := storetest.WithPrompt(manualPlan, 1, numberedBlocks(3, first))
			grown := storetest.WithPrompt(manualPlan, 1, numberedBlocks(9, first))
			id := lb.LeaseID(10 * i)
			cachedBlocks(t, s, id, begin)
			r := &result{}
			w.fate = func([]byte) int { return c.fate }
			s.Reserve(0, id+1, grown, r.set)
			w.fate = nil
			c.end(id + 1)
			w.deliver()
			s.Expire(manualTimeout)
			if r.calls != 1 || r.err == nil {
				t.Fatalf("%s: the reservation: %s", c.name, r)
			}
			wantInFlight(t, w, 0)
			if got := cachedBlocks(t, s, id+2, grown); got != 3 {
				t.Errorf("%s: %d blocks are recorded, want the 3 of the request before", c.name, got)
			}
		}
	})
}
