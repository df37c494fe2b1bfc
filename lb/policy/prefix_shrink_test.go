package policy_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/cache"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/health/healthtest"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/lb/memstore/memstoretest"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/storetest"
)

// holders returns how many endpoints are assumed to have a prompt. It reserves in a copy of the memory, because a
// reservation changes it.
func holders(t *testing.T, p *memstoretest.Process, now time.Duration, plan *lb.Plan) (n int) {
	t.Helper()
	for i := range plan.Candidates {
		copied := storetest.NewMemory()
		copied.CopyFrom(p.Memory)
		one := *plan
		one.Candidates = plan.Candidates[i : i+1]
		memstore.New(copied, 1<<40, storetest.TTL).Reserve(now, 1, &one, func(g lb.Grant, err error) {
			if err != nil {
				t.Fatal(err)
			}
			if g.Cached > 0 {
				n++
			}
		})
	}
	return n
}

// A prompt of many requests at the same time goes to many endpoints. When it has few requests again, the record is
// forgotten for the endpoints that they do not need, down to one; and it spreads again when the number of requests
// grows.
func TestHotPromptSpreadsAndShrinks(t *testing.T) {
	const ttl = 5 * time.Minute
	p, v := memstoretest.NewProcess(t), healthtest.View(4)
	store := memstore.New(p, 1, storetest.TTL)
	policy, err := policy.New("prefix_cache", policy.Config{
		Cluster: *healthtest.Cluster, Health: health.New(), Caches: cache.NewTracker(), Engines: engines.New(),
		Settings: &policy.CacheConfig{Credit: 1, TTL: ttl, IndexMemory: lb.IndexMemory{Local: 1 << 20}},
	})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	r := lb.Request{PromptTokens: 800, OutputTokens: 200, Blocks: storetest.Blocks(1, 2), PromptBytes: 800}
	now, id := time.Hour, lb.LeaseID(0)
	var last lb.Plan
	send := func(period, every, served time.Duration) int {
		type running struct {
			id  lb.LeaseID
			end time.Duration
		}
		var queue []running
		for end := now + period; now < end; now += every {
			for len(queue) > 0 && queue[0].end <= now {
				store.Release(now, queue[0].id)
				queue = queue[1:]
			}
			r.Random = rng.Uint64()
			last, _ = policy.Plan(now, &r, v)
			id++
			store.Reserve(now, id, &last, func(_ lb.Grant, err error) {
				if err != nil {
					t.Fatal(err)
				}
			})
			queue = append(queue, running{id, now + served})
		}
		for _, q := range queue {
			store.Release(now, q.id)
		}
		return holders(t, p, now-every, &last)
	}
	if n := send(time.Minute, 5*time.Second, time.Second); n != 1 {
		t.Errorf("%d endpoints have a prompt with one request at a time, want 1", n)
	}
	for range 2 {
		if n := send(2*time.Minute, 200*time.Millisecond, 5*time.Second); n != 4 {
			t.Errorf("%d endpoints have the prompt with 25 requests at a time, want 4", n)
		}
		if n := send(40*ttl, ttl/3, time.Second); n != 1 {
			t.Errorf("%d endpoints have the prompt long after the crowd has gone, want 1", n)
		}
	}
}
