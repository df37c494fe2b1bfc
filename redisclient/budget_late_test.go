package redisclient_test

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

var (
	lateAddrs  = storetest.Addrs(1)
	lateLimits = budget.Limits{Weight: 1, Tokens: 6000, Requests: 0.001}
)

// wantCharged fails the test unless so many requests of 1000 tokens are charged, up to what has refilled.
func wantCharged(t *testing.T, w *syncTransport, requests float64) {
	t.Helper()
	states, _ := w.budgets("llm")
	s := states[lateAddrs[0]]
	if s.TakenAt == 0 || s.MissingRequests > requests || s.MissingRequests < requests-0.01 ||
		s.MissingTokens > 1000*requests || s.MissingTokens < 1000*requests-999 {
		t.Errorf("%+v, want %v requests charged", s, requests)
	}
}

// A reservation whose answer and whose cancellation are lost is given back by a heartbeat.
func TestLostRefund(t *testing.T) {
	onEachVersion(t, func(t *testing.T, w *syncTransport, s *redisclient.Store) {
		plan := storetest.Budgeted(lateAddrs, lateLimits, 1000)
		now, r := time.Second, &result{}
		s.Reserve(now, 1, plan, r.set) // has Redis know the script and the candidates
		s.Settle(now, 1, lateAddrs[0], -1000, -1)
		s.Release(now, 1)
		w.fate = func([]byte) int { return replyLost }
		s.Reserve(now, 2, plan, r.set)
		w.fate = func([]byte) int { return notSent }
		now += manualTimeout
		if s.Expire(now); r.err == nil {
			t.Fatal("granted without an answer")
		}
		wantInFlight(t, w, 1)
		wantCharged(t, w, 1)
		w.fate = nil
		for range 2 {
			now += time.Second
			_ = s.Heartbeat(now)
		}
		wantInFlight(t, w, 0)
		wantCharged(t, w, 0)
	})
}

// A request that waits in Redis while that does not answer may be granted there, unnoticed. It is given back when Redis
// is back.
func TestGrantsDuringAnOutageAreGivenBack(t *testing.T) {
	onEachVersion(t, func(t *testing.T, w *syncTransport, s *redisclient.Store) {
		other := redisclient.New(&syncTransport{t: t, conn: w.conn, in: w.in, now: w.now}, redisclient.Options{
			Owner: 2, TTL: storetest.TTL, Timeout: manualTimeout, KV: newMemory(),
		})
		w.stopClock(t)
		plan := storetest.Budgeted(lateAddrs, lateLimits, 1000)
		plan.Candidates[0].Cap, plan.Budget.Limits[0].Requests = 1, 1000
		plan.Wait = lb.Wait{Max: time.Minute, Length: 10, Class: lb.Class{ID: 1, Weight: 1}}
		now, holder, waits := time.Second, &result{}, &result{}
		other.Reserve(now, 1, plan, holder.set)
		s.Reserve(now, 2, plan, waits.set)
		if holder.err != nil || !s.Waits(2) {
			t.Fatalf("the first request: %v, the second one waits: %v", holder.err, s.Waits(2))
		}
		w.fate = func([]byte) int { return notSent }
		for s.Ready(now) {
			now += time.Second
			s.Poll(now)
			s.Expire(now + manualTimeout)
		}
		if s.Poll(now); waits.err == nil {
			t.Fatal("it waits without Redis")
		}
		other.Release(now, 1)
		wantInFlight(t, w, 1)
		states, _ := w.budgets("llm")
		if s := states[lateAddrs[0]]; s.MissingTokens < 1001 {
			t.Fatalf("the request that waits was not granted: %+v", s)
		}
		w.fate = nil
		for range 2 {
			now += time.Second
			_ = s.Heartbeat(now)
		}
		wantInFlight(t, w, 0)
		states, _ = w.budgets("llm")
		if s := states[lateAddrs[0]]; s.MissingTokens > 1000 || s.MissingTokens < 1 {
			t.Errorf("after the outage: %+v, want only the first request charged", s)
		}
	})
}
