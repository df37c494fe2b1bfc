package core

import (
	"maps"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/plugin/placement"
	"github.com/warmgate/warmgate/plugin/request"
)

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		status   int
		complete bool
		details  string
		want     lb.Verdict
	}{
		{200, true, "via_upstream", lb.Success},
		{404, true, "via_upstream", lb.Rejected},
		{400, true, "", lb.Rejected},
		{408, true, "via_upstream", lb.Neutral},
		{501, true, "via_upstream", lb.Neutral}, // the request is for what no server has
		{505, true, "via_upstream", lb.Neutral},
		{529, true, "via_upstream", lb.Overload},
		{429, true, "via_upstream", lb.Overload},
		{503, true, "via_upstream", lb.Overload},
		{500, true, "via_upstream", lb.Failure},
		{502, true, "", lb.Failure}, // a gateway without details
		{503, true, "", lb.Overload},
		{101, false, "via_upstream", lb.Success}, // a WebSocket
		{429, false, "via_upstream", lb.Overload},
		{200, false, "downstream_remote_disconnect", lb.Neutral},
		{0, false, "downstream_remote_disconnect", lb.Neutral},
		{0, false, "downstream_local_disconnect(upstream_is_draining)", lb.Neutral},
		{0, false, "http2.remote_reset", lb.Neutral},
		{200, false, "upstream_reset_after_response_started{connection_termination}", lb.Failure},
		{503, true, "upstream_reset_before_response_started{connection_failure}", lb.Failure},
		{504, true, "response_timeout", lb.TimedOut},
		{504, true, "upstream_per_try_timeout", lb.TimedOut},
		{504, true, "stream_idle_timeout", lb.TimedOut},
		{408, true, "stream_idle_timeout", lb.Neutral}, // the gateway's answer to a client that does not continue
		{200, false, "stream_idle_timeout", lb.Neutral},
		{0, false, "max_duration_timeout", lb.TimedOut},
		{200, false, "upstream_max_stream_duration_reached", lb.Neutral}, // a long answer
		{503, true, "upstream_reset_before_response_started{overflow}", lb.Neutral},
		{503, true, "overflow", lb.Neutral},
		{503, true, "no_healthy_upstream", lb.Neutral},
		{503, true, "fault_filter_abort", lb.Neutral},
		{403, true, "rbac_access_denied", lb.Neutral},
		{0, false, "", lb.Neutral},
	} {
		p := newFakeProcess(t, 1)
		fake := p.endedBy(c.details)
		p.effective = fake
		s := &placement.Placement{}
		s.Request = &request.Request{Gateway: fake, Body: request.Body{EndedAt: p.now}}
		s.Response.Status, s.Response.Complete, s.Response.Reached = c.status, c.complete, true
		if got := s.Response.Verdict(p.now, s.SentAt(), &s.Body, fake); got != c.want {
			t.Errorf("status %d, complete %v, %q: verdict %d, want %d", c.status, c.complete, c.details, got, c.want)
		}
		if s.Response.Reached = false; s.Response.Verdict(p.now, s.SentAt(), &s.Body, fake) != lb.Neutral {
			t.Errorf("status %d, %q: held against an endpoint that was never tried", c.status, c.details)
		}
	}
}

// A client that leaves does not count as a failure, unless the endpoint has had the complete request for long without
// an answer.
func TestVerdictOfImpatience(t *testing.T) {
	for _, c := range []struct {
		details string
		status  int
		sent    bool
		waited  time.Duration
		want    lb.Verdict
	}{
		{"downstream_remote_disconnect", 0, true, 5 * time.Second, lb.Overload},
		{"http2.remote_reset", 0, true, time.Minute, lb.Overload},
		{"downstream_remote_disconnect", 0, true, 5*time.Second - 1, lb.Neutral},
		{"downstream_remote_disconnect", 200, true, time.Minute, lb.Neutral},
		{"downstream_remote_disconnect", 0, false, time.Minute, lb.Neutral}, // an upload that was given up
		{"stream_idle_timeout", 504, false, time.Minute, lb.Neutral},
	} {
		p := newFakeProcess(t, 1)
		fake := p.endedBy(c.details)
		p.effective = fake
		s := &placement.Placement{}
		s.Request = &request.Request{Gateway: fake}
		s.Response.Status, s.Response.Reached = c.status, true
		if c.sent {
			s.Body.EndedAt = p.now
		}
		if got := s.Response.Verdict(p.now+c.waited, s.SentAt(), &s.Body, fake); got != c.want {
			t.Errorf("%+v: verdict %d, want %d", c, got, c.want)
		}
	}
}

// Response details cost a call into the gateway. A response with a good status is not checked for them, however it
// ends.
func TestGoodResponsesReadNoDetails(t *testing.T) {
	for name, end := range map[string]func(*fakeStream){
		"headers": func(c *fakeStream) {
			c.answerBegins("204", true)
		},
		"body": func(c *fakeStream) {
			c.Head(200)
			c.response(func() { c.core.OnResponseBody(0, true) })
		},
		"more body": func(c *fakeStream) {
			c.Head(200)
			c.Data("a")
			c.Data("b")
			c.response(func() { c.core.OnResponseBody(0, true) })
		},
		"trailers": func(c *fakeStream) {
			c.Head(200)
			c.Data("a")
			c.response(func() { c.core.OnResponseTrailers() })
		},
	} {
		d := startFake(t, 1, 1, requestsConfig)
		d.fault, d.faultLeft = "Details", 1
		c := d.workers[0].open(streamtest.Request{}.Filled())
		end(c)
		c.end()
		if d.faultLeft != 1 {
			t.Errorf("a response that ends with its %s: the plugin read details", name)
		}
		d.drained()
	}
}

// weights returns the weights of the endpoints in the worker's policy, by address.
func (d *fakeDriver) weights() map[string]float64 {
	out := map[string]float64{}
	list, _ := d.workers[0].vm.Clusters[fakeCluster].Health.Candidates(d.now, d.view, &health.ClusterConfig{}, 0)
	candidates := list.Candidates
	for _, c := range candidates {
		out[c.Addr] = c.Weight
	}
	return out
}

// After a retry both endpoints get a verdict: the first has failed or was full, the second by its answer.
func TestRetryCountsAgainstTheFirst(t *testing.T) {
	for status, well := range map[int]bool{200: true, 500: false} {
		d := startFake(t, 1, 4, requestsConfig)
		c := d.workers[0].open(streamtest.Request{}.Filled())
		first := d.Addr(c.Upstream())
		second := d.Addr(c.Retry())
		c.Head(status)
		c.Finish()
		w := d.weights()
		if w[first] == 1 || (w[second] == 1) != well {
			t.Errorf("%s failed, %s answered %d: weights %v", first, second, status, w)
		}
	}
}

// A request whose deadline panics must continue, although no further part of it comes.
func TestPanicAtTheDeadline(t *testing.T) {
	d := startFake(t, 1, 2, tokensConfig)
	c := d.workers[0].open(streamtest.Request{Unended: true}.Filled())
	d.fault, d.faultLeft = "View", 1
	d.advance(time.Second)
	if c.Held() || c.Upstream() < 0 {
		t.Fatal("the request is still held")
	}
	c.Finish()
	if got := d.metrics.decisions(); !maps.Equal(got, map[string]uint64{"panic": 1}) {
		t.Errorf("decisions %v", got)
	}
	d.drained()
}

// A client that gives up counts against an endpoint only if that had the complete request for long, however the request
// ended.
func TestClientsThatGiveUp(t *testing.T) {
	for name, c := range map[string]struct {
		request streamtest.Request
		wait    time.Duration
		blamed  bool
	}{
		"no body": {streamtest.Request{}, 5 * time.Second, true},
		"a body":  {streamtest.Request{Frames: []string{`{}`}}, 5 * time.Second, true},
		"trailers": {
			streamtest.Request{Frames: []string{`{}`}, Trailers: [][2]string{{"a", "b"}}},
			5 * time.Second,
			true,
		},
		"soon":               {streamtest.Request{Frames: []string{`{}`}}, 4 * time.Second, false},
		"a body without end": {streamtest.Request{Frames: []string{`{`}, Unended: true}, 5 * time.Second, false},
	} {
		d := startFake(t, 1, 2, requestsConfig)
		s := d.workers[0].open(c.request.Filled())
		d.advance(c.wait)
		addr := d.Addr(s.Upstream())
		s.ResetByClient()
		if blamed := d.weights()[addr] < 1; blamed != c.blamed {
			t.Errorf("%s, left after %v: held against the endpoint: %v, want %v", name, c.wait, blamed, c.blamed)
		}
	}
}

// A body that is complete when the request is decided is not late, whenever that is.
func TestCompleteBodyIsNotLate(t *testing.T) {
	for _, c := range []struct {
		end  bool
		want string
	}{{true, "chosen"}, {false, "body_late"}} {
		d := startFake(t, 1, 2, tokensConfig)
		s := d.workers[0].open(streamtest.Request{Frames: []string{`{"prompt":`}, Unended: true}.Filled())
		d.advance(time.Second)
		s.Send(`"a"}`, c.end)
		if got := s.core.first.reason.String(); got != c.want {
			t.Errorf("with the end of the body %v: reason %s, want %s", c.end, got, c.want)
		}
		s.Finish()
		d.drained()
	}
}

// No more is held than is inspected.
func TestHoldsNoMoreThanItReads(t *testing.T) {
	const most = 1024
	config := `{"lb_policy":"global_least_request","lb_config":{"unit":"tokens","max_inspect_bytes":1024}}`
	for size, held := range map[int]bool{most - 1: true, most: false, most + 1: false} {
		d := startFake(t, 1, 2, config)
		body := `{"prompt":"` + string(make([]byte, 0, most))
		for len(body) < size {
			body += "x"
		}
		c := d.workers[0].open(streamtest.Request{Frames: []string{body}, Unended: true}.Filled())
		if c.Held() != held {
			t.Errorf("with %d bytes of a longer body, held: %v, want %v", size, c.Held(), held)
		}
		c.ResetByClient()
		d.drained()
	}
}
