package redisclient_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// BenchmarkServe measures the server's time for a release that grants, a poll that fetches the grant, and a new
// request, while many wait.
func BenchmarkServe(b *testing.B) {
	server := redisserver.StartT(b, redisserver.Options{})
	for _, waiting := range []int{20, 2000} {
		for _, tenants := range []int{1, 100} {
			b.Run(fmt.Sprintf("%d of %d tenants wait", waiting, tenants), func(b *testing.B) {
				benchmarkServe(b, server, waiting, tenants)
			})
		}
	}
}

// newBenchStore returns a store, and a plan over so many endpoints with the cap.
func newBenchStore(
	b *testing.B, server *redisserver.Server, endpoints int, limit int64,
) (*redisclient.Store, *lb.Plan) {
	w := dial(b, server)
	w.value("FLUSHALL")
	s := redisclient.New(w, redisclient.Options{Owner: 1, TTL: time.Hour, Timeout: time.Hour, KV: newMemory()})
	plan := storetest.Even(storetest.Addrs(endpoints))
	for i := range plan.Candidates {
		plan.Candidates[i].Cap = limit
	}
	return s, plan
}

func benchmarkServe(b *testing.B, server *redisserver.Server, waiting, tenants int) {
	s, plan := newBenchStore(b, server, 16, 4)
	plan.Wait = lb.Wait{Max: time.Hour, Length: 1e6, Class: lb.Class{ID: 1, Weight: 1}}
	var held []lb.LeaseID
	id := lb.LeaseID(0)
	reserve := func() {
		id++
		this := id
		plan.Wait.Tenant = uint64(int(id) % tenants)
		s.Reserve(0, this, plan, func(_ lb.Grant, err error) {
			if err != nil {
				b.Fatal(err)
			}
			held = append(held, this)
		})
	}
	for range 64 + waiting {
		reserve()
	}
	before := evalTime(b, server)
	b.ResetTimer()
	for range b.N {
		s.Release(0, held[0])
		held = held[1:]
		s.PollSoon()
		s.Poll(0)
		reserve()
	}
	b.ReportMetric(float64((evalTime(b, server)-before).Nanoseconds())/float64(b.N)/1000, "server-µs/op")
}

// BenchmarkPatience measures the server's time for a new request of another prompt, which is placed at once, and its
// release, while many wait for the one endpoint that has their prompt and all others are open.
func BenchmarkPatience(b *testing.B) {
	server := redisserver.StartT(b, redisserver.Options{})
	for _, waiting := range []int{7, 64} {
		b.Run(fmt.Sprintf("%d wait", waiting), func(b *testing.B) { benchmarkPatience(b, server, waiting) })
	}
}

func benchmarkPatience(b *testing.B, server *redisserver.Server, waiting int) {
	s, plan := newBenchStore(b, server, 64, 16)
	plan.Tokens = 1000
	plan.Wait = lb.Wait{
		Max: time.Hour, Length: 1e6, Class: lb.Class{ID: 1, Weight: 1}, Skip: 32, Patience: time.Minute,
	}
	warm := storetest.WithPrompt(plan, 100, storetest.Blocks(1, 2, 3))
	granted := 0
	done := func(_ lb.Grant, err error) {
		if granted++; err != nil {
			b.Fatal(err)
		}
	}
	for id := range lb.LeaseID(16 + waiting) {
		s.Reserve(0, id, warm, done)
	}
	if granted != 16 {
		b.Fatalf("%d were granted", granted)
	}
	before := evalTime(b, server)
	b.ResetTimer()
	for i := range b.N {
		id := lb.LeaseID(1e6 + i)
		s.Reserve(0, id, plan, done)
		s.Release(0, id)
	}
	if granted != 16+b.N {
		b.Fatalf("%d were granted of %d", granted, 16+b.N)
	}
	b.ReportMetric(float64((evalTime(b, server)-before).Nanoseconds())/float64(b.N)/1000, "server-µs/op")
}
