package redisclient_test

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// BenchmarkTask measures the server's time for a task over ten targets that is scheduled and completed, while tasks
// that have ended are remembered, and forgotten.
func BenchmarkTask(b *testing.B) {
	server := redisserver.StartT(b, redisserver.Options{})
	s, plan := newBenchStore(b, server, 10, 1000)
	plan.Budget.Tokens, plan.Tokens = 1801, 1801
	for i := range plan.Candidates {
		plan.Budget.Limits = append(plan.Budget.Limits,
			budget.Limits{Weight: float64(1 + i), Tokens: 1e12, Requests: 1e12})
	}
	before := evalTime(b, server)
	b.ResetTimer()
	for i := range b.N {
		plan.Random = uint64(i)
		s.Schedule(0, 0, 200*time.Millisecond, plan, func(t lb.Task, err error) {
			if err != nil {
				b.Fatal(err)
			}
			s.Complete(0, plan.Scope, t.ID, lb.TaskUse{Tokens: 1507}, func(end lb.TaskEnd, err error) {
				if end != lb.TaskCompleted || err != nil {
					b.Fatal(end, err)
				}
			})
		})
	}
	b.ReportMetric(float64((evalTime(b, server)-before).Nanoseconds())/float64(b.N)/1000, "server-µs/op")
}
