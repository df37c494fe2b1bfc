package fault

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// TestMetricsMemory lets one engine of three show pages that are far too long, again and again. Envoy's memory must not
// grow by more than 8 MiB over that with pages of exactly the length that is read of one. Those let the VM grow to
// where its garbage is collected first.
func TestMetricsMemory(t *testing.T) {
	t.Parallel()
	const line = "# HELP nobody Nobody wants this.\n"
	padding := strings.Repeat(line, mib/len(line))
	long := func(int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			vllmPage(0, 0)(w, r)
			pages(padding, 1)(w, r)
		}
	}
	s := scrape(t, 3, long, `"interval":"200ms","stale_after":"1s"`)
	const warm = 60
	s.peak(t, "ok", warm)
	before, err := s.RSS()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct {
		result string
		page   http.HandlerFunc
	}{
		{"incomplete", pages(padding, 100)},
		{"incomplete", pages(padding, 0)},
		{"unreadable", pages(padding, 3)},
	} {
		s.engines[0].setPage(t, f.page)
		const times = 4
		growth := s.peak(t, f.result, times) - before
		t.Logf("%s: Envoy has grown by %.1f MiB", f.result, float64(growth)/mib)
		if growth > 8*mib {
			t.Errorf("%s: Envoy has grown by %d MiB", f.result, growth/mib)
		}
	}
	s.engines[0].setPage(t, vllmPage(0, 0))
	s.awaitFresh(t, 3)
	s.Gateway.DrainedT(t)
}

// peak waits until so many more scrapes had the result, and returns the maximum of Envoy's resident memory in that
// time.
func (s *scraped) peak(t *testing.T, result string, n float64) (most int64) {
	t.Helper()
	until := s.results(t, result) + n
	harness.Await(t, func() error {
		resident, err := s.RSS()
		if err != nil {
			return err
		}
		most = max(most, resident)
		if got := s.results(t, result); got < until {
			return fmt.Errorf("%v pages were %s, want %v", got, result, until)
		}
		return nil
	})
	return most
}
