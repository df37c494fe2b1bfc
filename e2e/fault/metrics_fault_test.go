package fault

import (
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
)

// metricsFault is one way in which an engine's page of metrics fails, and the end of the log line about it.
type metricsFault struct {
	name string
	page http.HandlerFunc // nil: no listener
	line string
}

// The ends of the log lines.
const (
	unreadable = "answers, but not with metrics of a known engine"
	silent     = "scrape failed: "
)

func metricsFaults() []metricsFault {
	const family = "vllm:num_requests_running %s\nvllm:num_requests_waiting %s\nvllm:kv_cache_usage_perc %[1]s\n"
	valued := func(v string) http.HandlerFunc { return pages(fmt.Sprintf(family, v, v), 1) }
	renamed := strings.ReplaceAll(fmt.Sprintf(family, "1", "1"), "vllm:", "vllm2:")
	padding := strings.Repeat("# HELP nobody Nobody wants this.\n", mib/32)
	return []metricsFault{
		{"garbage", pages("\x00\xff\xfe\n{{{ 1 1 1\n", 100), unreadable},
		{"no line ends", pages(strings.Repeat("vllm:", 1000), 1), unreadable},
		{"HTML", pages("<!DOCTYPE html><html><body>Sign in</body></html>\n", 1), unreadable},
		{"JSON", pages(`{"vllm:num_requests_running": 1}`+"\n", 1), unreadable},
		{"NaN", valued("NaN"), unreadable},
		{"Inf", valued("+Inf"), unreadable},
		{"negative", valued("-1"), unreadable},
		{"no numbers", valued("many"), unreadable},
		{"renamed families", pages(renamed, 1), unreadable},
		{"1 MiB before what is wanted", pages(padding+fmt.Sprintf(family, "1", "1"), 1), unreadable},
		{"nothing", status(http.StatusOK), unreadable},
		{"100 MB", pages(padding, 100), silent + "incomplete"},
		{"endless", pages(padding, 0), silent + "incomplete"},
		{"a byte a second", drip, silent + "incomplete"},
		{
			"cut", hijacked("HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n"+fmt.Sprintf(family, "1", "1"), false),
			silent + "incomplete",
		},
		{"stalled", stall, silent + "timeout"},
		{"gzip", zipped(fmt.Sprintf(family, "1", "1")), silent + "encoded"},
		{"404", status(http.StatusNotFound), silent + "status 404"},
		{"500", status(http.StatusInternalServerError), silent + "status 500"},
		{"elsewhere", http.RedirectHandler("/elsewhere", http.StatusFound).ServeHTTP, silent + "status 302"},
		{"no HTTP", hijacked("garbage\r\n\r\n", false), silent + "status 502"}, // Envoy's own
		{"reset", hijacked("", true), silent + "unreachable"},
		{"no listener", nil, silent + "unreachable"},
	}
}

// drip answers with a byte a second.
func drip(w http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(w)
	for {
		if _, err := io.WriteString(w, "#"); err != nil || out.Flush() != nil {
			return
		}
		select {
		case <-time.After(time.Second):
		case <-r.Context().Done():
			return
		}
	}
}

// stall does not answer.
func stall(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// hijacked answers with the text, byte by byte as given, and ends the connection, optionally with a reset.
func hijacked(text string, reset bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		if tcp, ok := conn.(*net.TCPConn); ok && reset {
			_ = tcp.SetLinger(0) // a failure leaves an orderly end, which is as good as no answer
		}
		_, _ = io.WriteString(conn, text) // the peer may be gone
	}
}

// zipped answers with the text as gzip, whatever the request accepts.
func zipped(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, text) // the peer may be gone
		z.Close()
	}
}

// readablePages are unusual pages with valid metrics.
func readablePages() map[string]http.HandlerFunc {
	const page = "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"
	return map[string]http.HandlerFunc{
		"names of old": pages(page+"vllm:gpu_cache_usage_perc 0\n", 1),
		"one value in three": pages("vllm:num_requests_running 0\nvllm:num_requests_waiting "+
			"NaN\nvllm:kv_cache_usage_perc -1\n", 1),
		"Windows' line ends": pages(strings.ReplaceAll(page, "\n", "\r\n")+"vllm:kv_cache_usage_perc 0\r\n", 1),
		"3 MiB after": pages(page+"vllm:kv_cache_usage_perc 0\n"+
			strings.Repeat("# nothing else\n", 3*mib/15), 1),
		"another engine's": pages("sglang:num_running_reqs 0\nsglang:num_queue_reqs 0\nsglang:token_usage 0\n",
			1),
		"between lines of noise": pages("\x00\xff\n"+page+"<html>\nvllm:kv_cache_usage_perc 0\n\"\n", 1),
	}
}

// TestMetricsFail lets the metrics of many engines fail at once, each in its own way, under traffic. They become stale,
// and these engines still get their fair part of the requests. The others keep their metrics: one that reports foreign
// load gets no request. No request fails, and the log has each fault once. When all pages fail, the gateway decides,
// until they are good again.
func TestMetricsFail(t *testing.T) {
	t.Parallel()
	faults, unusual := metricsFaults(), readablePages()
	s := scrape(t, len(faults)+len(unusual)+2, idle, quick)
	sick, rest := s.engines[:len(faults)], s.engines[len(faults):]
	traffic := steadyTraffic(t, s.Gateway)
	for i, f := range faults {
		sick[i].setPage(t, f.page)
	}
	i := 0
	for _, page := range unusual {
		rest[i].setPage(t, page)
		i++
	}
	loaded := rest[i]
	loaded.setPage(t, vllmPage(50, 20))
	s.awaitFresh(t, len(rest))
	s.awaitScrapes(t, rest, 8) // the others were scraped several times as well
	s.awaitFresh(t, len(rest))
	s.checkLog(t, faults)
	traffic.Pause()
	s.checkParts(t, 20*len(s.engines), loaded, faults)
	traffic.Start(t.Context())
	for _, e := range rest {
		e.setPage(t, status(http.StatusInternalServerError))
	}
	harness.AwaitReason(t, s.URL(), "no_metrics")
	s.awaitFresh(t, 0)
	for _, e := range s.engines {
		e.setPage(t, vllmPage(0, 0))
	}
	harness.AwaitReason(t, s.URL(), "chosen")
	s.awaitFresh(t, len(s.engines))
	traffic.Pause()
	wantNoneFailed(t, traffic)
	s.Gateway.DrainedT(t)
}

// awaitScrapes waits until each engine was scraped n more times.
func (s *scraped) awaitScrapes(t *testing.T, engines []*engine, n int64) {
	t.Helper()
	until := map[*engine]int64{}
	for _, e := range engines {
		until[e] = e.scrapes.Load() + n
	}
	harness.Await(t, func() error {
		for e, n := range until {
			if scrapes := e.scrapes.Load(); scrapes < n {
				return fmt.Errorf("engine %d was scraped %d times, want %d", e.index, scrapes, n)
			}
		}
		return nil
	})
}

// checkLog checks that the log has each fault once, not at each scrape. A VM logs it once, and on a busy machine
// another may have taken over.
func (s *scraped) checkLog(t *testing.T, faults []metricsFault) {
	t.Helper()
	log := s.Logs()
	for i, f := range faults {
		if n := strings.Count(log, "cluster=llm "+s.engines[i].addr()+" "+f.line); n < 1 || n > 2 {
			t.Errorf("%s: the log has %d lines about it that end with %q, want 1", f.name, n, f.line)
		}
	}
}

// checkParts sends n requests and checks that all engines get a fair part, except the one that is loaded.
func (s *scraped) checkParts(t *testing.T, n int, loaded *engine, faults []metricsFault) {
	t.Helper()
	parts := s.parts(t, n)
	fair := n / (len(parts) - 1)
	for i, part := range parts {
		name := strconv.Itoa(i)
		if i < len(faults) {
			name = faults[i].name
		}
		switch {
		case i == loaded.index && part > 0:
			t.Errorf("the engine with foreign load got %d of %d requests, want none", part, n)
		case i != loaded.index && (part < fair/8 || part > 3*fair):
			t.Errorf("%s: got %d of %d requests, want about %d", name, part, n, fair)
		}
	}
	t.Logf("parts of %d requests: %v", n, slices.Sorted(slices.Values(parts)))
}
