package otel

import (
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"testing"

	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/warmgate/warmgate/e2e/harness"
)

// page is what a gateway shows of five requests: one has failed, one was left by its client.
const page = `# TYPE warmgate_request_duration_ms histogram
warmgate_request_duration_ms_bucket{cluster="llm",policy="prefix_cache",model="m",outcome="ok",le="1000"} 1
warmgate_request_duration_ms_bucket{cluster="llm",policy="prefix_cache",model="m",outcome="ok",le="2500"} 3
warmgate_request_duration_ms_bucket{cluster="llm",policy="prefix_cache",model="m",outcome="ok",le="+Inf"} 3
warmgate_request_duration_ms_sum{cluster="llm",policy="prefix_cache",model="m",outcome="ok"} 4500
warmgate_request_duration_ms_count{cluster="llm",policy="prefix_cache",model="m",outcome="ok"} 3
warmgate_request_duration_ms_bucket{cluster="llm",policy="prefix_cache",model="m",outcome="client_left",le="1000"} 0
warmgate_request_duration_ms_bucket{cluster="llm",policy="prefix_cache",model="m",outcome="client_left",le="2500"} 1
warmgate_request_duration_ms_bucket{cluster="llm",policy="prefix_cache",model="m",outcome="client_left",le="+Inf"} 1
warmgate_request_duration_ms_sum{cluster="llm",policy="prefix_cache",model="m",outcome="client_left"} 2000
warmgate_request_duration_ms_count{cluster="llm",policy="prefix_cache",model="m",outcome="client_left"} 1
warmgate_request_duration_ms_bucket{cluster="llm",policy="prefix_cache",outcome="server_failed",le="1000"} 1
warmgate_request_duration_ms_bucket{cluster="llm",policy="prefix_cache",outcome="server_failed",le="2500"} 1
warmgate_request_duration_ms_bucket{cluster="llm",policy="prefix_cache",outcome="server_failed",le="+Inf"} 1
warmgate_request_duration_ms_sum{cluster="llm",policy="prefix_cache",outcome="server_failed"} 10
warmgate_request_duration_ms_count{cluster="llm",policy="prefix_cache",outcome="server_failed"} 1
# TYPE warmgate_ttft_ms histogram
warmgate_ttft_ms_bucket{cluster="llm",policy="prefix_cache",model="m",class="gold",le="100"} 1
warmgate_ttft_ms_bucket{cluster="llm",policy="prefix_cache",model="m",class="gold",le="250"} 2
warmgate_ttft_ms_bucket{cluster="llm",policy="prefix_cache",model="m",class="gold",le="+Inf"} 2
warmgate_ttft_ms_sum{cluster="llm",policy="prefix_cache",model="m",class="gold"} 250
warmgate_ttft_ms_count{cluster="llm",policy="prefix_cache",model="m",class="gold"} 2
# TYPE warmgate_time_per_output_token_us histogram
warmgate_time_per_output_token_us_bucket{cluster="llm",policy="prefix_cache",model="m",le="10000"} 0
warmgate_time_per_output_token_us_bucket{cluster="llm",policy="prefix_cache",model="m",le="25000"} 2
warmgate_time_per_output_token_us_bucket{cluster="llm",policy="prefix_cache",model="m",le="+Inf"} 2
warmgate_time_per_output_token_us_sum{cluster="llm",policy="prefix_cache",model="m"} 40000
warmgate_time_per_output_token_us_count{cluster="llm",policy="prefix_cache",model="m"} 2
# TYPE warmgate_request_tokens histogram
warmgate_request_tokens_bucket{cluster="llm",policy="prefix_cache",model="m",kind="prompt",le="1024"} 2
warmgate_request_tokens_bucket{cluster="llm",policy="prefix_cache",model="m",kind="prompt",le="+Inf"} 2
warmgate_request_tokens_sum{cluster="llm",policy="prefix_cache",model="m",kind="prompt"} 900
warmgate_request_tokens_count{cluster="llm",policy="prefix_cache",model="m",kind="prompt"} 2
warmgate_request_tokens_bucket{cluster="llm",policy="prefix_cache",model="m",kind="completion",le="1024"} 2
warmgate_request_tokens_bucket{cluster="llm",policy="prefix_cache",model="m",kind="completion",le="+Inf"} 2
warmgate_request_tokens_sum{cluster="llm",policy="prefix_cache",model="m",kind="completion"} 300
warmgate_request_tokens_count{cluster="llm",policy="prefix_cache",model="m",kind="completion"} 2
# TYPE warmgate_decisions_total counter
warmgate_decisions_total{policy="prefix_cache",reason="chosen"} 5
# TYPE envoy_server_live gauge
envoy_server_live 1
`

// showing returns the address of a gateway that shows a page of statistics.
func showing(t *testing.T, page func() string) string {
	t.Helper()
	return harness.ServeT(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		if r.URL.Path == "/stats/prometheus" {
			io.WriteString(w, page())
		}
	})).Addr
}

// series is one histogram of a metric.
type series struct {
	unit       string
	count      uint64
	sum        float64
	bounds     []float64
	attributes map[string]any
}

// genAI returns the histograms that were exported last, by metric and attributes, but for those that are the same
// everywhere; nil before there are any.
func (b *backend) genAI(t *testing.T) map[string]series {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.metrics == (pmetric.Metrics{}) {
		return nil
	}
	found := map[string]series{}
	for _, resource := range b.metrics.ResourceMetrics().All() {
		for _, scope := range resource.ScopeMetrics().All() {
			for _, m := range scope.Metrics().All() {
				if m.Type() != pmetric.MetricTypeHistogram {
					continue // statistics of the scrapes themselves
				}
				for _, p := range m.Histogram().DataPoints().All() {
					key := m.Name()
					for _, name := range []string{"error.type", "gen_ai.token.type"} {
						if v, ok := p.Attributes().Get(name); ok {
							key += " " + v.Str()
						}
					}
					found[key] = series{
						m.Unit(), p.Count(), p.Sum(), p.ExplicitBounds().AsRaw(), p.Attributes().AsRaw(),
					}
				}
			}
		}
	}
	return found
}

// TestMetrics holds what the collector makes of a page of statistics: names, units, bounds, sums and attributes as
// OpenTelemetry's conventions for generative AI say.
func TestMetrics(t *testing.T) {
	c := startCollector(t, showing(t, func() string { return page }))
	always := map[string]any{
		"gen_ai.provider.name": "vllm", "gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
		"warmgate.cluster": "llm", "warmgate.policy": "prefix_cache",
	}
	with := func(more ...string) map[string]any {
		all := maps.Clone(always)
		for i := 0; i < len(more); i += 2 {
			if all[more[i]] = more[i+1]; more[i+1] == "" {
				delete(all, more[i])
			}
		}
		return all
	}
	seconds := []float64{1, 2.5}
	input, output := with("gen_ai.token.type", "input"), with("gen_ai.token.type", "output")
	gold := with("warmgate.class", "gold")
	want := map[string]series{
		"gen_ai.server.request.duration":             {"s", 3, 4.5, seconds, with()},
		"gen_ai.server.request.duration client_left": {"s", 1, 2, seconds, with("error.type", "client_left")},
		"gen_ai.server.request.duration server_failed": {
			"s", 1, 0.01, seconds, with("error.type", "server_failed", "gen_ai.request.model", ""),
		},
		"gen_ai.server.time_to_first_token":   {"s", 2, 0.25, []float64{0.1, 0.25}, gold},
		"gen_ai.server.time_per_output_token": {"s", 2, 0.04, []float64{0.01, 0.025}, with()},
		"gen_ai.client.token.usage input":     {"{token}", 2, 900, []float64{1024}, input},
		"gen_ai.client.token.usage output":    {"{token}", 2, 300, []float64{1024}, output},
	}
	var got map[string]series
	harness.Await(t, func() error {
		if got = c.genAI(t); len(got) < len(want) {
			return fmt.Errorf("%d histograms, want %d: %v", len(got), len(want), got)
		}
		return nil
	})
	for key := range got {
		if _, ok := want[key]; !ok {
			t.Errorf("%s was exported, too: %v", key, got[key])
		}
	}
	for key, w := range want {
		if g, ok := got[key]; !ok || !g.is(w) {
			t.Errorf("%s is %v, want %v", key, g, w)
		}
	}
}

// is compares what was exported with what is wanted: scaled by a factor, so not to the last bit.
func (s series) is(want series) bool {
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
	if s.unit != want.unit || s.count != want.count || !near(s.sum, want.sum) || len(s.bounds) != len(want.bounds) {
		return false
	}
	for i := range s.bounds {
		if !near(s.bounds[i], want.bounds[i]) {
			return false
		}
	}
	return maps.Equal(s.attributes, want.attributes)
}
