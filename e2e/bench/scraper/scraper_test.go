package scraper

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/benchtest"
)

func TestFleetShowsThePage(t *testing.T) {
	f := startFleet(3, []byte("a 1\n"))
	list := f.endpoints(2)
	if len(list) != 2 || list[0].Addr == list[1].Addr {
		t.Fatalf("endpoints %v", list)
	}
	for _, path := range []string{"/metrics", "/health"} {
		resp, err := http.Get("http://" + list[1].Addr + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		want := map[string]string{"/metrics": "a 1\n"}[path]
		if err != nil || resp.StatusCode != http.StatusOK || string(body) != want {
			t.Errorf("%s: %s, %q, %v", path, resp.Status, body, err)
		}
	}
	if n := f.scrapes(); n != 1 {
		t.Errorf("scraped %d times, want once", n)
	}
	if ages := f.ages(2, time.Now().Add(time.Second)); len(ages) != 1 || ages[0] < 1000 || ages[0] > 60_000 {
		t.Errorf("ages %v, want one of a little more than a second", ages)
	}
	f.close()
	if _, err := http.Get("http://" + list[0].Addr + "/metrics"); err == nil {
		t.Error("a closed fleet answers")
	}
}

func TestParserTimes(t *testing.T) {
	var log strings.Builder
	for _, ns := range []int{9000, 8000, 3000, 1000, 2000} { // the first two warm up
		fmt.Fprintf(&log, "[warning] wasm log: probe: 1000 bytes in %d ns\n", ns)
	}
	got, err := parserTimes(log.String())
	if err != nil || got.Median != 2 || got.Min != 1 || got.Max != 3 {
		t.Errorf("%+v, %v, want 2 (1..3) ms per MB", got, err)
	}
	if _, err := parserTimes("nothing of it"); err == nil {
		t.Error("a log without times passes as one with times")
	}
}

func TestReport(t *testing.T) {
	rep := &report{settings: settings{sizes: []int{10, 20}}, page: 50_000}
	for _, n := range rep.settings.sizes {
		for i := range 3 {
			x := float64(n)
			rep.Add("", strconv.Itoa(n), run{
				cpu: 2*x + float64(i), cpuPlain: x, rate: x, age: 500, oldest: 1000 + float64(i), fresh: x, rss: 120,
				rssPlain: 100,
			})
		}
	}
	rep.parser.Median = 1.5
	l := rep.line()
	benchtest.Report(t, rep.configuration(), rep.table(), l)
	cells := l["cells"].([]bench.Line)
	if l["parse_target_met"] != true || len(cells) != 2 {
		t.Fatalf("%+v", l)
	}
	for name, want := range map[string]float64{
		"cpu_ms_per_s_added": 21, "cpu_ms_per_s_without": 20, "cpu_ms_per_mb": 21, "requests_per_s": 20, "age_ms": 500,
		"age_ms_max": 1002, "fresh_endpoints": 20, "rss_mib_added": 20, "rss_mib_without": 100,
	} {
		if got := cells[1][name]; got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if s := cells[1]["cpu_ms_per_s_added_spread"].(bench.Spread); s.Min != 20 || s.Max != 22 {
		t.Errorf("%+v", s)
	}
}
