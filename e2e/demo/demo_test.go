package main

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

func result(policy string, p99 time.Duration, failed int) compare.Result {
	samples := []loadgen.Sample{{Endpoint: "0", TTFT: p99 / 4, Total: p99}}
	for range failed {
		samples = append(samples, loadgen.Sample{ID: 5, Error: loadgen.ErrTruncated, Detail: "unexpected EOF"})
	}
	return compare.Result{
		Policy: policy, Samples: samples, Summary: loadgen.Summarize(samples), Queued: 12,
		Imbalance: 1.5,
	}
}

func TestReportShowsPoliciesSideBySide(t *testing.T) {
	var out strings.Builder
	results := []compare.Result{
		result("round_robin", 8*time.Second, 0), result("least_request", 4*time.Second, 0),
		result("Warmgate", 2*time.Second, 2),
	}
	report(&out, &onePolicyAfterAnother, results)
	for _, want := range []string{
		"round_robin  least_request  Warmgate",
		"8.0 s          4.0 s     2.0 s",
		"Warmgate: p99 latency 25 % of round_robin's, 50 % of least_request's.",
		"Warmgate: request 5 failed: truncated: unexpected EOF",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
	if n := strings.Count(out.String(), "truncated"); n != 1 {
		t.Errorf("a kind of failure is described %d times, want once", n)
	}
}

func TestVerdictCountsEveryFailure(t *testing.T) {
	ok := &demo{results: []compare.Result{result("a", time.Second, 0)}}
	if err := ok.verdict(); err != nil {
		t.Errorf("a clean demo ends with %v", err)
	}
	for name, d := range map[string]*demo{
		"in a phase":      {results: []compare.Result{result("a", time.Second, 0), result("b", time.Second, 1)}},
		"during a switch": {results: []compare.Result{result("a", time.Second, 0)}, failed: 1},
	} {
		if err := d.verdict(); !errors.Is(err, errFailed) {
			t.Errorf("a failure %s ends with %v", name, err)
		}
	}
}

func TestTrafficIsTheSameEveryTime(t *testing.T) {
	show := &onePolicyAfterAnother
	a, b := show.traffic(), show.traffic()
	if !reflect.DeepEqual(a, b) {
		t.Error("two demos play different traffic")
	}
	if got := compare.Load(servers(), a); got < show.load-0.1 || got > show.load+0.1 {
		t.Errorf("the traffic needs %.2f of the capacity, want about %.2f", got, show.load)
	}
}

func TestBar(t *testing.T) {
	for _, tc := range []struct {
		terminal bool
		want     string
	}{
		{true, "\r\x1b[KWarmgate      [============            ]    2/4  latency p50 40 ms  p99 40 ms  failed 1\n"},
		{false, "Warmgate      [============            ]    2/4  latency p50 40 ms  p99 40 ms  failed 1\n"},
	} {
		var out strings.Builder
		b := (&screen{out: &out, terminal: tc.terminal}).bar("Warmgate", 4)
		b.add(&loadgen.Sample{Total: 40 * time.Millisecond})
		b.add(&loadgen.Sample{Error: loadgen.ErrReset})
		b.done()
		if out.String() != tc.want {
			t.Errorf("terminal %v: %q, want %q", tc.terminal, out.String(), tc.want)
		}
	}
}

func TestDecisionInWords(t *testing.T) {
	for _, tc := range []struct {
		name string
		x    decision
		fits bool
		want string
	}{
		{"least alone", decision{inflight: []int{3, 1, 2}, server: 1, load: "2"}, true, "Server 1 was chosen because " +
			"it had the least in flight over all 2 workers: 1; with this request it has 2."},
		{"tie", decision{inflight: []int{1, 1, 2}, server: 1, load: "2"}, true, "it has 2. As few had: 0; ties are " +
			"broken evenly, because no policy knows the speeds"},
		{"overtaken", decision{inflight: []int{3, 2, 1}, server: 1, load: "3"}, false, "taken a moment before"},
		{"all equal explains nothing", decision{inflight: []int{1, 1}, server: 1, load: "2"}, false, ""},
		{"other load", decision{inflight: []int{1, 5}, server: 0, load: "4"}, false, ""},
	} {
		if tc.x.fits() != tc.fits {
			t.Errorf("%s: fits is %v", tc.name, !tc.fits)
		}
		if !strings.Contains(tc.x.words(2), tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, tc.x.words(2), tc.want)
		}
	}
	var out strings.Builder
	x := decision{inflight: []int{3, 1, 2, 2, 2, 2, 2, 2}, server: 1, host: "127.0.0.1:9", reason: "chosen", load: "2"}
	x.write(&out, 2)
	for _, want := range []string{
		"x-warmgate-host: 127.0.0.1:9", "x-warmgate-reason: chosen",
		"x-warmgate-load: 2", "[1]",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the explanation lacks %q:\n%s", want, out.String())
		}
	}
}
