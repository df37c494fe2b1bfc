package redisclient_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// evalTime returns how much CPU time scripts have taken.
func evalTime(b *testing.B, server *redisserver.Server) time.Duration {
	stats, err := server.CommandStats()
	if err != nil {
		b.Fatal(err)
	}
	return stats["evalsha"].Time
}

// BenchmarkForgetPrompt measures how long a server is busy with forgetting a prompt, all of it or its second half,
// while all pages are full.
func BenchmarkForgetPrompt(b *testing.B) {
	for _, version := range redisserver.Versions() {
		server := redisserver.StartT(b, redisserver.Options{Version: version})
		w := dial(b, server)
		s := redisclient.New(w, redisclient.Options{Owner: 1, TTL: time.Hour, Timeout: time.Hour, KV: newMemory()})
		addrs := storetest.Addrs(8)
		first := uint64(1)
		prompt := func(blocks int) *lb.Plan {
			plan := storetest.WithPrompt(storetest.Even(addrs), 1, numberedBlocks(blocks, first))
			plan.Prefix.IndexMemory.Remote, plan.Prefix.TTL = 2<<20, time.Hour
			first += uint64(blocks)
			return plan
		}
		rng := rand.New(rand.NewPCG(1, 1))
		for range 2000 {
			s.RecordPrompt(0, 1, prompt(64), addrs[rng.IntN(len(addrs))])
		}
		for _, blocks := range []int{8, 64, 128} {
			for _, n := range []int{0, blocks / 2} {
				b.Run(fmt.Sprintf("%s, all but %d of %d blocks", version, n, blocks), func(b *testing.B) {
					busy := time.Duration(0)
					for range b.N {
						plan := prompt(blocks)
						s.RecordPrompt(0, 1, plan, addrs[0])
						before := evalTime(b, server)
						s.ForgetPrompt(0, 1, plan, addrs[0], n)
						busy += evalTime(b, server) - before
					}
					b.ReportMetric(float64(busy.Microseconds())/float64(b.N), "server-µs/op")
				})
			}
		}
	}
}
