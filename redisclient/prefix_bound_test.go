package redisclient_test

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// However many prompts there are, they need no more of a server's memory than plans say.
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
			plan.Scope, plan.Prefix.Shared = scope, bytes
			id := lb.LeaseID(0)
			send := func(n int) {
				for range n {
					id++
					plan.Prefix.Blocks = unknown(prompt.MaxBlocks)
					plan.Prefix.Length = 100 * prompt.MaxBlocks
					if n := once(t, s, id, plan); n != 0 {
						t.Fatalf("%d blocks of a new prompt are known", n)
					}
				}
			}
			send(1)
			before := usedMemory(t, server)
			send(1500)
			took := usedMemory(t, server) - before
			pages := len(w.value("KEYS", redisclient.KeysOf(scope).Page+"*").Items)
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

// While gateways roll from one size to another, there are no more pages than the larger one allows.
func TestMemoryWhileTheSizeChanges(t *testing.T) {
	onVersions(t, func(t *testing.T, w *wire, s *redisclient.Store) {
		for i := range 400 {
			plan := storetest.WithPrompt(manualPlan, 1, unknown(20))
			plan.Prefix.Shared = []int{100_000, 150_000}[i%2]
			once(t, s, lb.LeaseID(i), plan)
		}
		if n, most := len(w.runs()), newPagesModel("llm", 150_000).slots; n != most {
			t.Errorf("%d pages, want the %d of the larger size", n, most)
		}
	})
}

// unknown returns the blocks of a prompt that never was.
func unknown(n int) []prompt.Block {
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
