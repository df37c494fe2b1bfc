package redisclient_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// However many prompts there are, the index needs no more of a server's memory than its size.
func TestMemoryIsBounded(t *testing.T) {
	const (
		scope = "outbound|8000||llm.default.svc.cluster.local"
		bytes = 2_400_000 // a few more pages than a power of two: then the tables to find them are the emptiest
	)
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			server := redisserver.StartT(t, redisserver.Options{Version: version})
			w := dial(t, server)
			s := newManualStore(w, newMemory())
			plan := storetest.WithPrompt(manualPlan, 1, nil)
			plan.Scope, plan.Prefix.IndexMemory.Remote = scope, bytes
			id := lb.LeaseID(0)
			send := func(n int) {
				for range n {
					id++
					plan.Prefix.Blocks = newBlocks(prompt.MaxBlocks)
					plan.Prefix.Bytes = 100 * prompt.MaxBlocks
					if n := cachedBlocks(t, s, id, plan); n != 0 {
						t.Fatalf("%d blocks of a new prompt are known", n)
					}
				}
			}
			send(1)
			before := usedMemory(t, server)
			send(1500)
			took := usedMemory(t, server) - before
			pages := w.value("HLEN", newPagesModel(scope, bytes).key).Int
			if took > bytes || took < bytes/2 {
				t.Errorf("%d pages need %d bytes, want up to %d", pages, took, bytes)
			}
			send(500)
			if more := usedMemory(t, server) - before; more > bytes {
				t.Errorf("%d bytes, were %d", more, took)
			}
		})
	}
}

// While gateways change from one size to another, each size has its own pages, and no more than it allows. Those of the
// old size expire when no gateway uses them any more.
func TestMemoryWhileTheSizeChanges(t *testing.T) {
	onEachVersion(t, func(t *testing.T, w *syncTransport, s *redisclient.Store) {
		sizes := []int{100_000, 150_000}
		plan := storetest.WithPrompt(manualPlan, 1, nil)
		for i := range 1600 { // enough prompts for each page to get at least one
			plan.Prefix.Blocks, plan.Prefix.Bytes, plan.Prefix.IndexMemory.Remote = newBlocks(20), 2000, sizes[i%2]
			cachedBlocks(t, s, lb.LeaseID(i), plan)
		}
		for _, size := range sizes {
			m := newPagesModel("llm", size)
			if n := w.value("HLEN", m.key).Int; uint64(n) != m.slots {
				t.Errorf("%d pages in %d bytes, want %d", n, size, m.slots)
			}
			if ttl := time.Duration(w.value("PTTL", m.key).Int) * time.Millisecond; ttl <= 0 || ttl > plan.Prefix.TTL {
				t.Errorf("pages in %d bytes live for %v", size, ttl)
			}
		}
		if n := len(w.pageKeys()); n != len(sizes) {
			t.Errorf("%d hashes", n)
		}
	})
}

// newBlocks returns the blocks of a prompt that was never sent before.
func newBlocks(n int) []prompt.Block {
	out := make([]prompt.Block, n)
	for i := range out {
		out[i] = prompt.Block{Key: rand.Uint64() >> 8, End: 100 * (i + 1)}
	}
	return out
}

func usedMemory(t *testing.T, s *redisserver.Server) int {
	t.Helper()
	info, err := s.Info("memory")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(info["used_memory"])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
