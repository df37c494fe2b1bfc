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

// reports sets the load that the engine reports in its answers.
func (e *engine) reports(running, waiting int) {
	report := fmt.Sprintf("TEXT named_metrics.kv_cache_usage_perc=0, named_metrics.num_requests_waiting=%d, "+
		"named_metrics.num_requests_running=%d", waiting, running)
	e.report.Store(&report)
}

// TestLoadReports uses no scrapes: requests accept load reports in the answers, and engines report foreign load in
// them. A client gets a report only if its own request accepts one.
func TestLoadReports(t *testing.T) {
	t.Parallel()
	s := &scraped{}
	s.engines, s.port = engines(t, 3)
	s.engines[0].reports(50, 20)
	s.engines[1].reports(0, 0)
	s.engines[2].reports(0, 0)
	byReports := config(`"metrics":{"orca":true,"stale_after":"10m"}`)
	s.start(t, harness.Options{Config: strings.Replace(byReports, "global_least_request", "endpoint_metrics", 1)})
	before := s.engines[0].scrapes.Load()
	s.awaitServed(t, false, true, true)
	s.awaitFresh(t, 3)
	if n := s.engines[0].scrapes.Load() - before; n != 0 {
		t.Errorf("the engine was scraped %d times, want never", n)
	}
	s.checkFormat(t, "TEXT", 3)
	if got := s.report(t, ""); got != "" {
		t.Errorf("a client that requested none got the report %q", got)
	}
	if got := s.report(t, "JSON"); !strings.HasPrefix(got, "TEXT ") {
		t.Errorf("a client that requested a report got %q", got)
	}
	s.checkFormat(t, "JSON", 1)
	s.Gateway.DrainedT(t)
}

// checkFormat checks for how many engines the last request accepted a report in the format.
func (s *scraped) checkFormat(t *testing.T, format string, want int) {
	t.Helper()
	n := 0
	for _, e := range s.engines {
		if last := e.format.Load(); last != nil && *last == format {
			n++
		}
	}
	if n != want {
		t.Errorf("%d engines were requested to report as %q, want %d", n, format, want)
	}
}

// report sends a request that accepts a report in the format, or none, and returns the report.
func (s *scraped) report(t *testing.T, format string) string {
	t.Helper()
	var headers []string
	if format != "" {
		headers = append(headers, formatHeader+": "+format)
	}
	a := harness.Send(t, http1, http.MethodGet, s.URL()+"/sim/echo", "", headers...)
	if a.Status != http.StatusOK {
		t.Errorf("status %d", a.Status)
	}
	return a.Header.Get(reportHeader)
}
