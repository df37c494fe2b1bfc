package core

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb"
)

const (
	apiPath  = "/warmgate/v1"
	apiToken = "0123456789abcdef"
)

// apiConfig is a configuration with an admission API for the targets a, b and c; members are more of lb_config.
func apiConfig(members string) string {
	return `{"lb_type":"cluster","lb_policy":"token_budget","lb_config":{` + members + `"debug_headers":true,"targets":{
		"a":{"weight":3,"max_concurrent_requests":20,"max_tokens_per_minute":200000},
		"b":{"weight":1,"max_concurrent_requests":10,"max_requests_per_minute":60},
		"c":{"weight":0.5,"max_concurrent_requests":2}},
		"api":{"path":"` + apiPath + `","token":"` + apiToken + `"}}}`
}

// startAPI returns a process with that API, whose tasks are in a fake store.
func startAPI(t *testing.T, workers int, members string) (*fakeDriver, *fakeTasks) {
	t.Helper()
	d := startSites(t, workers, apiConfig(members))
	d.anyCluster = true
	return d, d.fakeTasks()
}

// call sends a call to the API with the token; without frames it is a GET.
func (d *fakeDriver) call(worker int, name string, frames ...string) *fakeStream {
	method := "POST"
	if len(frames) == 0 {
		method = "GET"
	}
	return d.client(worker, streamtest.Request{
		Method: method, Path: apiPath + name, Frames: frames,
		Headers: [][2]string{{"authorization", "Bearer " + apiToken}},
	})
}

// wantAnswer fails the test unless the call was answered so, never forwarded, and its answer is JSON.
func (d *fakeDriver) wantAnswer(what string, c *fakeStream, status int, body string) {
	d.t.Helper()
	r := c.Result()
	if r.Status != status || r.Body != body {
		d.t.Errorf("%s: answered %d %s, want %d %s", what, r.Status, r.Body, status, body)
	}
	if c.Upstream() >= 0 || c.Routed || c.Held() {
		d.t.Errorf("%s: forwarded to %d, routed %v, held %v", what, c.Upstream(), c.Routed, c.Held())
	}
	if !json.Valid([]byte(r.Body)) || r.Headers["content-type"] != "application/json" ||
		r.Headers["cache-control"] != "no-store" {
		d.t.Errorf("%s: %q, headers %v", what, r.Body, r.Headers)
	}
}

func (d *fakeDriver) apiCalls(call, result string) uint64 {
	if call != "" {
		result = call + "_" + result
	}
	return d.Counter("warmgate_api_calls_total;result=" + result)
}

const okCall = `{"estimated_tokens":1800}`

// refusedCall is a call that is refused.
type refusedCall struct {
	method, path string
	headers      [][2]string
	body         []string
	status       int
	want         string
	header       [2]string // of the answer
	call, result string
}

// authorization returns that header alone.
func authorization(value string) [][2]string { return [][2]string{{"authorization", value}} }

// strangeCalls returns calls from whom the gateway does not know, or to where nothing is.
func strangeCalls() []refusedCall {
	const strange = `{"error":"no or wrong token, want authorization: Bearer and the token"}`
	const nowhere = `{"error":"no such path, want schedule, complete, heartbeat, advice, models or targets ` +
		`below /warmgate/v1"}`
	auth, good, body := authorization, authorization("Bearer "+apiToken), []string{okCall}
	challenge := [2]string{"www-authenticate", "Bearer"}
	return []refusedCall{
		{"GET", "/advice", nil, nil, 401, strange, challenge, "", "unauthorized"},
		{"POST", "/schedule", nil, body, 401, strange, challenge, "", "unauthorized"},
		{"GET", "/nowhere", nil, nil, 401, strange, challenge, "", "unauthorized"},
		{"GET", "/advice", auth("Bearer 0123456789abcdeF"), nil, 401, strange, challenge, "", "unauthorized"},
		{"GET", "/advice", auth("Bearer 0123456789abcdef0"), nil, 401, strange, challenge, "", "unauthorized"},
		{"GET", "/advice", auth("Bearer "), nil, 401, strange, challenge, "", "unauthorized"},
		{"GET", "/advice", auth(apiToken), nil, 401, strange, challenge, "", "unauthorized"},
		{"GET", "/advice", auth("Basic " + apiToken), nil, 401, strange, challenge, "", "unauthorized"},
		{"GET", "", good, nil, 404, nowhere, [2]string{}, "", "no_such_path"},
		{"GET", "/", good, nil, 404, nowhere, [2]string{}, "", "no_such_path"},
		{"POST", "/schedule/", good, body, 404, nowhere, [2]string{}, "", "no_such_path"},
		{"POST", "/../schedule", good, body, 404, nowhere, [2]string{}, "", "no_such_path"},
	}
}

// badHeaders returns calls with everything else that can be wrong with their headers, but for lengths.
func badHeaders() []refusedCall {
	good, body := authorization("Bearer "+apiToken), []string{okCall}
	with := func(name, value string) [][2]string { return append(good[:1:1], [2]string{name, value}) }
	return []refusedCall{
		{
			"GET", "/schedule?x=1", good, nil, 405, `{"error":"wrong method, want POST"}`,
			[2]string{"allow", "POST"},
			"schedule", "wrong_method",
		},
		{
			"POST", "/models", good, body, 405, `{"error":"wrong method, want GET"}`,
			[2]string{"allow", "GET"},
			"models", "wrong_method",
		},
		{
			"HEAD", "/advice", good, nil, 405, `{"error":"wrong method, want GET"}`,
			[2]string{"allow", "GET"},
			"advice", "wrong_method",
		},
		{
			"POST", "/schedule", with("content-encoding", "gzip"),
			[]string{"\x1f\x8b"},
			415,
			`{"error":"the body is encoded, want plain JSON"}`,
			[2]string{},
			"schedule", "encoded",
		},
		{
			"POST", "/schedule", with("expect", "100-continue"), body, 417,
			`{"error":"cannot answer 100 Continue, want the body without expect"}`,
			[2]string{},
			"schedule", "expects",
		},
	}
}

// badBodies returns calls with bodies that are too long or not what the call wants.
func badBodies() []refusedCall {
	const long = `{"error":"the body is too long, want at most 65536 bytes"}`
	good, body := authorization("Bearer "+apiToken), []string{okCall}
	declared := append(good[:1:1], [2]string{"content-length", "65537"})
	return []refusedCall{
		{"POST", "/complete", declared, body, 413, long, [2]string{}, "complete", "too_long"},
		{
			"POST", "/schedule", good,
			[]string{strings.Repeat(" ", 65536), " "},
			413, long,
			[2]string{},
			"schedule", "too_long",
		},
		{
			"POST", "/schedule", good, nil, 400,
			`{"error":"body: empty, want an object like {\"estimated_tokens\": 1800}"}`,
			[2]string{},
			"schedule", "bad_request",
		},
		{
			"POST", "/heartbeat", good,
			[]string{`{"task":1}`},
			400,
			`{"error":"task: unknown member, want \"task_id\"; task_id: missing, want the one that schedule has answered"}`,
			[2]string{},
			"heartbeat", "bad_request",
		},
		{
			"POST", "/complete", good,
			[]string{`[`},
			400,
			`{"error":"body: not valid JSON at line 1, column 2: a value is missing"}`,
			[2]string{},
			"complete", "bad_request",
		},
	}
}

func TestCallsAreRefused(t *testing.T) {
	d, tasks := startAPI(t, 1, "")
	for _, c := range slices.Concat(strangeCalls(), badHeaders(), badBodies()) {
		what := c.method + " " + c.path
		before := d.apiCalls(c.call, c.result)
		s := d.client(0, streamtest.Request{
			Method: c.method, Path: apiPath + c.path, Headers: c.headers, Frames: c.body,
		})
		d.wantAnswer(what, s, c.status, c.want)
		if name := c.header[0]; name != "" && s.Result().Headers[name] != c.header[1] {
			t.Errorf("%s: %s is %q, want %q", what, name, s.Result().Headers[name], c.header[1])
		}
		if n := d.apiCalls(c.call, c.result) - before; n != 1 {
			t.Errorf("%s: counted %d times as %s %s", what, n, c.call, c.result)
		}
		for name := range s.Result().Headers {
			if strings.HasPrefix(name, "x-warmgate-") {
				t.Errorf("%s: a debug header, %s", what, name)
			}
		}
	}
	if len(tasks.calls) > 0 {
		t.Errorf("the store was called: %v", tasks.calls)
	}
	d.noToken()
	d.drained()
}

// noToken fails the test if the token is in a log, a note or the name of a statistic.
func (d *fakeDriver) noToken() {
	d.t.Helper()
	for _, lines := range [][]string{d.log, d.access} {
		for _, line := range lines {
			if strings.Contains(strings.ToLower(line), apiToken[:8]) {
				d.t.Errorf("the token is written: %s", line)
			}
		}
	}
	for name := range d.metrics.kinds {
		if strings.Contains(name, apiToken[:8]) {
			d.t.Errorf("the token is in a statistic: %s", name)
		}
	}
}

// Requests to other paths go their way, with the API and whatever they bring.
func TestOtherPathsAreNoCalls(t *testing.T) {
	d, _ := startAPI(t, 1, "")
	for _, path := range []string{"/warmgate", "/warmgate/v10/schedule", "/v1/warmgate/v1/schedule", "/"} {
		c := d.client(0, streamtest.Request{Method: "GET", Path: path})
		if c.Upstream() < 0 {
			t.Errorf("%s: not forwarded: %+v", path, c.Result())
		}
		c.Finish()
	}
}

// A body that does not come is not waited for.
func TestLateBody(t *testing.T) {
	d, tasks := startAPI(t, 1, "")
	for _, frames := range [][]string{nil, {okCall[:5]}} {
		c := d.client(0, streamtest.Request{
			Method: "POST", Path: apiPath + "/schedule", Frames: frames, Unended: true,
			Headers: [][2]string{{"authorization", "Bearer " + apiToken}},
		})
		d.advance(9 * time.Second)
		if !c.Held() || c.Ended {
			t.Fatal("not waited for")
		}
		d.advance(2 * time.Second)
		d.wantAnswer("late", c, 408, `{"error":"the body did not come within 10s"}`)
	}
	gone := d.client(0, streamtest.Request{
		Method: "POST", Path: apiPath + "/schedule", Unended: true,
		Headers: [][2]string{{"authorization", "Bearer " + apiToken}},
	})
	gone.ResetByClient()
	d.advance(11 * time.Second)
	withTrailers := d.client(0, streamtest.Request{
		Method: "POST", Path: apiPath + "/schedule", Frames: []string{okCall}, Trailers: [][2]string{{"x", "y"}},
		Headers: [][2]string{{"authorization", "Bearer " + apiToken}},
	})
	d.wantAnswer("trailers", withTrailers, 200, `{"model_backend_id":"a","task_id":"`+fakeTaskText+`"}`)
	if len(tasks.calls) != 1 {
		t.Errorf("the store was called: %v", tasks.calls)
	}
	d.drained()
}

// Whatever panics, a call is answered and not forwarded.
func TestPanicsInCalls(t *testing.T) {
	for _, fault := range []string{
		"RequestHeaders", "HoldBody", "RequestBody", "Reply", "SetNote", "Random", "KnownView",
	} {
		for left := 1; left <= 2; left++ {
			d, _ := startAPI(t, 1, "")
			d.fault, d.faultLeft = fault, left
			c := d.call(0, "/schedule", okCall)
			d.fault = ""
			if c.Upstream() >= 0 && fault != "RequestHeaders" {
				t.Errorf("%s %d: forwarded", fault, left)
			}
			if d.faultLeft > 0 {
				continue
			}
			r := c.Result()
			if fault != "RequestHeaders" && (r.Status != 500 || r.Body != `{"error":"the plugin failed"}`) {
				t.Errorf("%s %d: answered %d %s, held %v", fault, left, r.Status, r.Body, c.Held())
			}
			next := d.call(0, "/heartbeat", `{"task_id":"x"}`)
			d.wantAnswer("the next", next, 200, `{"ok":false,"reason":"not_found"}`)
			c.leave()
			d.drained()
		}
	}
	d, tasks := startAPI(t, 1, "")
	tasks.late = true
	c := d.call(0, "/schedule", okCall)
	d.fault, d.faultLeft = "Random", 1
	tasks.err = lb.ErrOverBudget
	tasks.flush()
	d.settle()
	d.fault = ""
	if c.Result().Status != 500 || c.Upstream() >= 0 {
		t.Errorf("later: answered %d, held %v", c.Result().Status, c.Held())
	}
	d.drained()
}
