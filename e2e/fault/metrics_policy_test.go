package fault

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// fan is a page of one gauge, the higher the higher the index of the engine.
func fan(i int) http.HandlerFunc {
	return pages(fmt.Sprintf("fan_speed{unit=\"rpm\"} %d\n", 1000*(i+1)), 1)
}

// TestTargetMetric balances by a metric of which the plugin knows nothing but the name: towards the lowest value, first
// with a limit to the share of requests, then without, and then towards the highest.
func TestTargetMetric(t *testing.T) {
	t.Parallel()
	const limit = 0.4
	const least = `"metric_policy":"least","target_metric":"fan_speed"`
	s := scrape(t, 4, fan, steady, least, fmt.Sprintf(`"rate_limit":%v`, limit))
	s.checkShares(t, limit)
	s.engines[3].setPage(t, vllmPage(0, 0)) // whose fan may have any speed
	for _, step := range []struct {
		config string
		want   []bool
	}{
		{least, []bool{true, false, false, false}},
		{`"metric_policy":"most","target_metric":"fan_speed"`, []bool{false, false, true, false}},
	} {
		if err := s.PushPlugin(context.Background(), metricsConfig(s.port, steady, step.config)); err != nil {
			t.Fatal(err)
		}
		s.awaitServed(t, step.want...)
	}
	for _, e := range s.engines {
		e.setPage(t, vllmPage(0, 0))
	}
	harness.AwaitReason(t, s.URL(), "no_metrics")
	s.Gateway.DrainedT(t)
}

// checkShares checks that the two best of four engines get as many requests as the limit allows, over all workers,
// although they would otherwise get all, that the next best gets the rest, and the worst none.
func (s *scraped) checkShares(t *testing.T, limit float64) {
	t.Helper()
	const n = 300
	const slack = 0.05 // workers exchange their counts every 100 ms
	parts := s.parts(t, n)
	t.Logf("parts of %d requests: %v", n, parts)
	least, most := int((limit-slack)*n), int((limit+slack)*n)
	if min(parts[0], parts[1]) < least || max(parts[0], parts[1]) > most || parts[3] > 0 {
		t.Errorf("%v of %d requests went to the engines, want a share of %v at the two best, the rest at the next, "+
			"none at the last", parts, n, limit)
	}
}
