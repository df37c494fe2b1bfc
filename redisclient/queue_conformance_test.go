package redisclient_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
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

// allSeeds and fewSeeds are of random histories of the suite.
var allSeeds, fewSeeds = []uint64{0, 1, 2, 3, 4, 5, 6, 7}, []uint64{1, 6, 7}

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
	now := began + b.passed
	b.conn.value("MSET", redisclient.ClockKeys[0], strconv.Itoa(int(now/time.Second)),
		redisclient.ClockKeys[1], strconv.Itoa(int(now%time.Second/time.Microsecond)))
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

func TestQueueConformance(t *testing.T) {
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			s := redisserver.StartT(t, redisserver.Options{Version: version})
			seeds := fewSeeds
			if version == redisserver.Default {
				seeds = allSeeds
			}
			storetest.RunQueue(t, openClocked(t, s, false, seeds))
		})
	}
	t.Run("as a fallback store", func(t *testing.T) {
		storetest.RunQueue(t, openClocked(t, redisserver.StartT(t, redisserver.Options{}), true, fewSeeds))
	})
}
