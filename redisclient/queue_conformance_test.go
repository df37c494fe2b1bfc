package redisclient_test

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// eager is a store that asks Redis at each poll.
type eager struct{ *redisclient.Store }

// Queue implements lb.Store.
func (s eager) Queue(now time.Duration, scope string) lb.QueueStats {
	_ = s.Heartbeat(now)
	return s.Store.Queue(now, scope)
}

// Poll implements lb.Store.
func (s eager) Poll(now time.Duration) time.Duration {
	return s.PollAll(func() time.Duration { return s.Store.Poll(now) })
}

// eagerFallback is the same below an [lb.FallbackStore].
type eagerFallback struct {
	*lb.FallbackStore
	store *redisclient.Store
}

// Queue implements lb.Store.
func (s eagerFallback) Queue(now time.Duration, scope string) lb.QueueStats {
	_ = s.Heartbeat(now)
	return s.FallbackStore.Queue(now, scope)
}

// Poll implements lb.Store.
func (s eagerFallback) Poll(now time.Duration) time.Duration {
	return s.store.PollAll(func() time.Duration { return s.FallbackStore.Poll(now) })
}

// clocked is a Redis server whose scripts have the clock of the test.
type clocked struct {
	*backend
	passed time.Duration
	seeds  []uint64
}

// Seeds implements storetest.Slow.
func (b *clocked) Seeds() []uint64 { return b.seeds }

// seedsOn returns the seeds of the suite's random histories on a version, or on a fallback store, "".
func seedsOn(version string) []uint64 {
	isDefault, isLong := version == redisserver.Default, !testing.Short()
	switch {
	case isDefault && isLong:
		return []uint64{1, 3, 6, 7}
	case isDefault || isLong:
		return []uint64{6, 7}
	}
	return []uint64{7}
}

// openClocked is openBackends for servers with the clock of the test.
func openClocked(
	t *testing.T, s *redisserver.Server, fallback bool, seeds []uint64,
) func(t *testing.T) storetest.Backend {
	t.Helper()
	t.Cleanup(redisclient.SetClock())
	open := openBackends(s, fallback)
	return func(t *testing.T) storetest.Backend {
		b := &clocked{backend: open(t).(*backend), seeds: seeds}
		b.Pass(0)
		return b
	}
}

// Pass implements storetest.Passer.
func (b *clocked) Pass(d time.Duration) {
	b.passed += d
	const began = 365 * 24 * time.Hour
	b.conn.setClock(began+b.passed, d)
}

// NewOwner implements storetest.Backend. Owners take part in a scope from their first reservation on.
func (b *clocked) NewOwner() lb.Store {
	const id = 1 << 40
	s := b.backend.NewOwner()
	now := time.Hour + b.passed
	s.Reserve(now, id, storetest.Even([]string{"10.0.1.1:8000"}), func(lb.Grant, error) {})
	s.Release(now, id)
	return s
}

// Of tickets that Redis has lost nothing is counted, in the queue or in its lists.
func TestLostTicketsAreNotCounted(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	b := openClocked(t, server, false, nil)(t).(*clocked)
	plan := storetest.Even(storetest.Addrs(2))
	for i := range plan.Candidates {
		plan.Candidates[i].Cap = 1
	}
	plan.Tokens = 100
	plan.Wait = lb.Wait{
		Max: time.Minute, Length: 100, Class: lb.Class{ID: 1, Weight: 1}, Patience: time.Minute, Skip: 8,
	}
	s, warm := b.NewOwner(), storetest.WithPrompt(plan, 100, storetest.Blocks(1, 2))
	var granted []lb.LeaseID
	for id := range lb.LeaseID(12) {
		p := *warm
		if id%4 == 1 {
			p = *plan
		}
		p.Wait.Tenant = uint64(id % 3)
		s.Reserve(time.Hour, id, &p, func(_ lb.Grant, err error) {
			if granted = append(granted, id); err != nil {
				t.Error(err)
			}
		})
	}
	before := b.wantCounts(t)
	if before != 12-len(granted) {
		t.Fatalf("%d wait, and %d were granted, of 12", before, len(granted))
	}
	b.Pass(time.Second)
	tickets := redisclient.KeysOf("llm").Tickets
	b.conn.value("HDEL", tickets, string(b.conn.value("HKEYS", tickets).Items[0].Str))
	s.Release(time.Hour+b.passed, granted[0]) // the step that grants its endpoint finds what is lost
	for range 4 {
		b.Pass(25 * time.Millisecond)
		s.Poll(time.Hour + b.passed)
	}
	if n := b.wantCounts(t); n < before-1 {
		t.Errorf("%d wait of %d: what was lost has not come back", n, before)
	}
}

// wantCounts expects that tickets are counted as they are. It returns how many there are.
func (b *clocked) wantCounts(t *testing.T) (tickets int) {
	t.Helper()
	keys := redisclient.KeysOf("llm")
	patient := 0
	for i, item := range b.conn.value("HGETALL", keys.Tickets).Items {
		for in := wire.NewReader(item.Str); i%2 == 1 && in.Len() > 0; tickets++ {
			in.Take(46)
			if in.Uint16() != 0xffff {
				patient++
			}
			in.Take(37)
		}
	}
	in := wire.NewReader(b.conn.value("GET", keys.Queue).Str)
	in.Take(16)
	counted := int(in.Uint32())
	in.Take(28)
	patientCounted := int(in.Uint32())
	in.Take(40)
	classes, lists := int(in.Byte()), int(in.Byte())
	in.Take(2 + 79*classes)
	inLists := 0
	for range lists {
		in.Take(5)
		inLists += int(in.Uint32())
		in.Take(14)
		in.Take(14 * int(in.Uint16()))
	}
	if !in.OK() || counted != tickets || inLists != tickets || patientCounted != patient {
		t.Errorf("%d tickets, %d counted, %d in lists; %d patient ones, %d counted", tickets, counted, inLists, patient,
			patientCounted)
	}
	return tickets
}
