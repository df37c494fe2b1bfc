package fault

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// The headers of load reports.
const (
	reportHeader = "endpoint-load-metrics"
	formatHeader = "endpoint-load-metrics-format"
)

// reports says what load the engine reports in its answers.
func (e *engine) reports(running, waiting int) {
	report := fmt.Sprintf("TEXT named_metrics.kv_cache_usage_perc=0, named_metrics.num_requests_waiting=%d, "+
		"named_metrics.num_requests_running=%d", waiting, running)
	e.report.Store(&report)
}

// TestLoadReports goes without scraping: engines are asked for load reports in their answers, and tell foreign load by
// them. Only a client that has asked for a report gets it.
func TestLoadReports(t *testing.T) {
	t.Parallel()
	s := &scraped{}
	s.engines, s.port = engines(t, 3)
	s.engines[0].reports(50, 20)
	s.engines[1].reports(0, 0)
	s.engines[2].reports(0, 0)
	byReports := config(`"metrics":{"orca":true,"stale_after":"10m"}`)
	s.start(t, harness.Options{Config: strings.Replace(byReports, "global_least_request", "endpoint_metrics", 1)})
	before := s.engines[0].asked.Load()
	s.awaitServed(t, false, true, true)
	s.awaitFresh(t, 3)
	if n := s.engines[0].asked.Load() - before; n != 0 {
		t.Errorf("the engine was asked for its page %d times, want never", n)
	}
	s.checkAsked(t, "TEXT", 3)
	if got := s.ask(t, ""); got != "" {
		t.Errorf("a client that asked for nothing got the report %q", got)
	}
	if got := s.ask(t, "JSON"); !strings.HasPrefix(got, "TEXT ") {
		t.Errorf("a client that asked for a report got %q", got)
	}
	s.checkAsked(t, "JSON", 1)
	s.Gateway.DrainedT(t)
}

// checkAsked checks how many engines were last asked for a report in the format.
func (s *scraped) checkAsked(t *testing.T, format string, want int) {
	t.Helper()
	n := 0
	for _, e := range s.engines {
		if last := e.format.Load(); last != nil && *last == format {
			n++
		}
	}
	if n != want {
		t.Errorf("%d engines were asked for a report as %q, want %d", n, format, want)
	}
}

// ask sends a request that asks for a report in the format, or for none, and returns it.
func (s *scraped) ask(t *testing.T, format string) string {
	t.Helper()
	var headers []string
	if format != "" {
		headers = append(headers, formatHeader+": "+format)
	}
	a := harness.Send(t, http1, http.MethodGet, s.URL()+"/v1/models", "", headers...)
	if a.Status != http.StatusOK {
		t.Errorf("status %d", a.Status)
	}
	return a.Header.Get(reportHeader)
}
