package core

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/metrics"
	"github.com/warmgate/warmgate/plugin/process"
)

const reportsConfig = `{"lb_policy":"endpoint_metrics","lb_config":{"debug_headers":true,"metrics":{"orca":true},` +
	`"health":{"slow_start":0}}}`

// answerWith sends a request and has it answered with a load report, "" for none.
func (d *fakeDriver) answerWith(worker int, report string, headers ...[2]string) *fakeStream {
	c := d.client(worker, streamtest.Request{Headers: headers})
	var list [][2]string
	if report != "" {
		list = append(list, [2]string{metrics.ORCAHeader, report})
	}
	c.Head(200, list...)
	c.Finish()
	return c
}

// reportIn returns the report that the client got, and whether it got one.
func reportIn(c *fakeStream) (string, bool) {
	report, there := c.Result().Headers[metrics.ORCAHeader]
	return report, there
}

// The first reports come with requests that the gateway has placed: the endpoint that served the request is the one
// that reports.
func TestFirstReport(t *testing.T) {
	d := startFake(t, 1, 3, reportsConfig)
	c := d.answerWith(0, "TEXT num_requests_waiting=3, kv_cache_usage_perc=0.25")
	if got := c.Result().Headers["x-warmgate-reason"]; got != "no_metrics" {
		t.Errorf("reason %q for the first request", got)
	}
	d.advance(2 * process.TickPeriod)
	got := d.published()
	r, there := got[d.Addr(c.Upstream())]
	waiting, _ := r.Value(metrics.Waiting)
	use, _ := r.Value(metrics.KVUse)
	if len(got) != 1 || !there || waiting != 3 || use != 0.25 || !r.Counted {
		t.Errorf("published is %+v", got)
	}
	next := d.answerWith(0, "")
	if reason := next.Result().Headers["x-warmgate-reason"]; reason != "chosen" || next.Upstream() == c.Upstream() {
		t.Errorf("with one report of a queue, the next request is sent to %d, "+
			"as %d did, for %s", next.Upstream(), c.Upstream(),
			reason)
	}
	d.drained()
}

// After a retry the report is that of the endpoint that answered.
func TestReportAfterARetry(t *testing.T) {
	d := startFake(t, 1, 3, reportsConfig)
	d.answerWith(0, "TEXT num_requests_waiting=0")
	d.advance(2 * process.TickPeriod)
	c := d.client(0, streamtest.Request{})
	c.Retry()
	c.Head(200, [2]string{metrics.ORCAHeader, "TEXT num_requests_waiting=9"})
	c.Finish()
	d.advance(2 * process.TickPeriod)
	for addr, r := range d.published() {
		if waiting, _ := r.Value(metrics.Waiting); (waiting == 9) != (addr == d.Addr(c.Upstream())) {
			t.Errorf("%s has %v waiting; %s has reported 9", addr, waiting, d.Addr(c.Upstream()))
		}
	}
	d.drained()
}

// Reports are for clients that request them.
func TestReportsAreRemoved(t *testing.T) {
	const report = "TEXT num_requests_waiting=0"
	for _, c := range []struct {
		name, config string
		requests     string // of the client
		requested    string // of the endpoint
		got          bool
	}{
		{"the plugin alone", reportsConfig, "", metrics.ORCAFormat, false},
		{"the client, too", reportsConfig, "JSON", "JSON", true},
		{"only the client", metricsConfig, "JSON", "JSON", true},
		{"none", metricsConfig, "", "", true},
		{
			"a policy without metrics", strings.Replace(reportsConfig, "endpoint_metrics",
				"global_least_request", 1), "", "",
			true,
		},
		{
			"prefix_cache", strings.Replace(reportsConfig, "endpoint_metrics", "prefix_cache",
				1), "", metrics.ORCAFormat,
			false,
		},
		{"in shadow", strings.Replace(reportsConfig, `{"debug`, `{"shadow":true,"debug`, 1), "", metrics.ORCAFormat, false},
	} {
		d := startFake(t, 1, 2, c.config)
		for round := range 2 { // without metrics and with them
			var headers [][2]string
			if c.requests != "" {
				headers = [][2]string{{metrics.ORCARequestHeader, c.requests}}
			}
			s := d.answerWith(0, report, headers...)
			if got := s.Received().Headers[metrics.ORCARequestHeader]; got != c.requested {
				t.Errorf("%s, round %d: the endpoint got %q, want %q", c.name, round, got, c.requested)
			}
			if got, there := reportIn(s); there != c.got || there && got != report {
				t.Errorf("%s, round %d: the client got %q (%v)", c.name, round, got, there)
			}
			d.advance(2 * process.TickPeriod)
		}
		d.drained()
	}
}

// A report that cannot be parsed is logged once, has no effect and is not passed to the client either.
func TestUnreadableReports(t *testing.T) {
	d := startFake(t, 1, 2, reportsConfig)
	d.answerWith(0, "TEXT num_requests_waiting=1")
	d.advance(2 * process.TickPeriod)
	before := len(d.log)
	known := d.published()
	for _, report := range []string{"BIN CgA=", "nonsense", "TEXT", strings.Repeat("x", 1<<16)} {
		for range 4 {
			if got, there := reportIn(d.answerWith(0, report)); there {
				t.Errorf("the client got %.20q", got)
			}
		}
	}
	d.advance(time.Second)
	for addr, r := range d.published() {
		if r.At != known[addr].At {
			t.Errorf("of %s, a sample was made of nonsense", addr)
		}
	}
	for _, line := range d.log[before:] {
		if !strings.Contains(line, "cannot be read") || len(line) > 200 {
			t.Errorf("the log has %.300q", line)
		}
	}
	if n := len(d.log) - before; n == 0 || n > len(d.endpoints) {
		t.Errorf("%d lines in the log, want one for each endpoint", n)
	}
	d.drained()
}

// After the end of a request, however it ended, nothing is read in its context.
func TestWhoseContextIsRead(t *testing.T) {
	d := startFake(t, 1, 2, metricsConfig)
	v := d.workers[0].vm
	ends := []func(c *fakeStream){
		(*fakeStream).Finish,
		(*fakeStream).ResetByClient,
		(*fakeStream).ResetByUpstream,
		func(c *fakeStream) { c.Head(200); c.ResetByUpstream() },
		func(c *fakeStream) { c.Head(500); c.Finish() },
	}
	for round := range 2 { // left to the gateway, and placed
		for i, end := range ends {
			c := d.client(0, streamtest.Request{})
			if open := v.Clusters[fakeCluster].Metrics.Open(); !slices.Equal(open, []uint32{c.core.Context}) {
				t.Errorf("round %d, %d: %d are being served, want %d alone", round, i, open, c.core.Context)
			}
			if end(c); len(v.Clusters[fakeCluster].Metrics.Open()) != 0 {
				t.Errorf("round %d, %d: it is over and still being served", round, i)
			}
		}
		d.SetPage(0, vllmPage(0))
		d.serve(0, 200)
		d.advance(time.Second)
	}
	d.drained()
}
