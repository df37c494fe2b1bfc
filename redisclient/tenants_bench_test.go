package redisclient_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/redisclient"
)

// BenchmarkTenants measures the server's time for a request at the budget of its tenant, from its reservation over its
// usage to its release, while so many tenants have sent requests.
func BenchmarkTenants(b *testing.B) {
	server := redisserver.StartT(b, redisserver.Options{})
	for _, n := range []int{10, 300, 1000, 5003} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchmarkTenants(b, server, n) })
	}
}

func benchmarkTenants(b *testing.B, server *redisserver.Server, tenants int) {
	w := dial(b, server)
	w.value("FLUSHALL")
	s := redisclient.New(w, redisclient.Options{Owner: 1, TTL: time.Hour, Timeout: time.Hour, KV: newMemory()})
	limits := lb.TenantBudget{Header: "x", Limits: budget.Limits{Tokens: 1e9, Requests: 1e9}, MaxConcurrent: 100}
	id := lb.LeaseID(0)
	serve := func(tenant int) {
		id++
		plan := limits.Plan("tenants/llm", uint64(tenant+1)*0x9e3779b97f4a7c15, 1000)
		s.Reserve(0, id, plan, func(_ lb.Grant, err error) {
			if err != nil {
				b.Fatal(err)
			}
		})
		s.Settle(0, id, plan.Candidates[0].Addr, -10, 0)
		s.Release(0, id)
	}
	for tenant := range tenants {
		serve(tenant)
	}
	random := rand.New(rand.NewPCG(1, 2))
	before := evalTime(b, server)
	b.ResetTimer()
	for range b.N {
		serve(random.IntN(tenants))
	}
	b.ReportMetric(float64((evalTime(b, server)-before).Nanoseconds())/float64(b.N)/1000, "server-µs/op")
}
