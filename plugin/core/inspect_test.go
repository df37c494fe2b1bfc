package core

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/internal/state"
)

const (
	inspectPath    = "/warmgate/inspect"
	inspectMembers = `"inspect":{"path":"` + inspectPath + `","token":"` + apiToken + `"}`
	inspectConfig  = `{"lb_policy":"global_least_request","lb_config":{` + inspectMembers + `}}`
)

// inspect asks a worker for what the gateway knows; query is that of the call.
func (d *fakeDriver) inspect(worker int, query string) (s state.State) {
	d.t.Helper()
	call := d.client(worker, streamtest.Request{
		Path: inspectPath + "/state" + query, Headers: authorization("Bearer " + apiToken),
	})
	for range 10 {
		if call.Held() {
			d.advance(100 * time.Millisecond)
		}
	}
	r := call.Result()
	read := json.NewDecoder(bytes.NewReader([]byte(r.Body)))
	read.DisallowUnknownFields()
	if err := read.Decode(&s); r.Status != 200 || err != nil || r.Headers["cache-control"] != "no-store" {
		d.t.Fatalf("answered %d %s: %v", r.Status, r.Body, err)
	}
	return s
}

// Any worker shows what all of them count, also of a cluster that it has had no request for.
func TestEachWorkerShowsTheWholeState(t *testing.T) {
	d := startFake(t, 2, 3, inspectConfig)
	held := []*fakeStream{
		d.client(0, streamtest.Request{}), d.client(0, streamtest.Request{}), d.client(0, streamtest.Request{}),
		d.client(0, streamtest.Request{}),
	}
	d.advance(time.Second)
	for worker := range 2 {
		s := d.inspect(worker, "")
		if s.Format != state.Format || s.VMs == 0 || len(s.Clusters) != 1 {
			t.Fatalf("worker %d shows %+v", worker, s)
		}
		c, n := s.Clusters[0], int64(0)
		if c.Name+" "+c.Policy+" "+c.Unit+" "+c.Store != fakeCluster+" global_least_request requests embedded" {
			t.Errorf("worker %d shows the cluster %+v", worker, c)
		}
		for i, e := range c.Endpoints {
			n += e.Requests
			if e.Addr != d.Addr(i) || e.Health != "healthy" || e.Weight != 1 || e.Requests < 1 {
				t.Errorf("worker %d shows the endpoint %+v", worker, e)
			}
		}
		if len(c.Endpoints) != 3 || n != int64(len(held)) {
			t.Errorf("worker %d shows %d requests at %d endpoints", worker, n, len(c.Endpoints))
		}
	}
	for _, s := range held {
		s.Finish()
	}
}

// Who has not the token learns nothing, and no request to the path is forwarded.
func TestStrangersSeeNothing(t *testing.T) {
	d := startFake(t, 1, 1, inspectConfig)
	good := authorization("Bearer " + apiToken)
	for _, c := range []struct {
		method, path string
		headers      [][2]string
		status       int
		want         string
	}{
		{"GET", "/state", nil, 401, "unauthorized"},
		{"GET", "/state", authorization("Bearer 0123456789abcdeF"), 401, "unauthorized"},
		{"POST", "/explain/v1/chat/completions", nil, 401, "unauthorized"},
		{"GET", "/nowhere", good, 404, "no_such_path"},
		{"GET", "", good, 404, "no_such_path"},
		{"POST", "/state", good, 405, "state_wrong_method"},
		{"GET", "/explain/v1/models", good, 405, "explain_wrong_method"},
		{"GET", "/state?since=yesterday", good, 400, "state_bad_request"},
	} {
		before := d.apiCalls("", c.want)
		s := d.client(0, streamtest.Request{Method: c.method, Path: inspectPath + c.path, Headers: c.headers})
		r := s.Result()
		if r.Status != c.status || s.Routed || s.Upstream() >= 0 || d.apiCalls("", c.want) != before+1 {
			t.Errorf("%s %s: answered %d %s, routed %v", c.method, c.path, r.Status, r.Body, s.Routed)
		}
		if strings.Contains(r.Body, apiToken) || strings.Contains(r.Body, d.Addr(0)) {
			t.Errorf("%s %s: answered %s", c.method, c.path, r.Body)
		}
	}
}

// Decisions of both workers are shown while somebody watches, with what they cost where; and again when they are over.
func TestDecisionsAreShown(t *testing.T) {
	d := startFake(t, 2, 3, inspectConfig)
	d.client(0, streamtest.Request{}).Finish()
	if s := d.inspect(1, ""); len(s.Decisions) != 0 {
		t.Errorf("a decision before anybody watched is shown: %+v", s.Decisions)
	}
	var held []*fakeStream
	for worker := range 2 {
		held = append(held, d.client(worker, streamtest.Request{}))
		d.advance(10 * time.Millisecond)
	}
	d.advance(200 * time.Millisecond)
	s := d.inspect(0, "")
	if len(s.Decisions) != 2 || s.Lost != 0 {
		t.Fatalf("%+v are shown, %d lost", s.Decisions, s.Lost)
	}
	for i, x := range s.Decisions {
		if x.Cluster != fakeCluster || x.Policy != "global_least_request" || x.Reason != "chosen" || x.Ended ||
			x.Endpoint != d.Addr(held[i].Upstream()) || len(x.Candidates) != 3 || x.Others != 0 {
			t.Errorf("%+v is shown", x)
		}
		c, last := x.Candidates[0], x.Candidates[2]
		if c.Requests != 0 || c.Cost > last.Cost || c.Cost != c.Base+c.Load+c.Over-c.Credit {
			t.Errorf("%+v is the cheapest", c)
		}
	}
	if n := s.Decisions[1].Candidates[2].Requests; n != 1 || s.Decisions[0].Candidates[2].Requests != 0 {
		t.Errorf("the second request found %d at the busiest", n)
	}
	d.advance(time.Second)
	held[0].Finish()
	d.advance(200 * time.Millisecond)
	later := d.inspect(1, "?since="+strconv.FormatInt(s.AtMS+500, 10))
	if len(later.Decisions) != 1 || later.Decisions[0].ID != s.Decisions[0].ID {
		t.Fatalf("since then, %+v", later.Decisions)
	}
	if x := later.Decisions[0]; !x.Ended || x.Result != "served" || x.TookMS < 1000 {
		t.Errorf("the end of a request is shown as %+v", x)
	}
	held[1].Finish()
}

// A call to explain is answered with what would become of its request, of which nothing is counted.
func TestExplainIsAnswered(t *testing.T) {
	d := startFake(t, 1, 2, inspectConfig)
	busy := d.client(0, streamtest.Request{})
	call := d.client(0, streamtest.Request{
		Path: inspectPath + "/explain/v1/chat/completions", Headers: authorization("Bearer " + apiToken),
		Frames: []string{`{"model":"m","messages":[]}`},
	})
	var e state.Explanation
	r := call.Result()
	if err := json.Unmarshal([]byte(r.Body), &e); r.Status != 200 || err != nil || call.Upstream() >= 0 {
		t.Fatalf("answered %d %s: %v", r.Status, r.Body, err)
	}
	if x := e.Decisions[0]; x.Reason != "chosen" || x.Endpoint != d.Addr(1-busy.Upstream()) || len(x.Candidates) != 2 {
		t.Errorf("%+v is what would become of it", e)
	}
	if n := d.apiCalls("explain", "ok"); n != 1 || d.metrics.decisions()["chosen"] != 1 {
		t.Errorf("%d calls, decisions %v", n, d.metrics.decisions())
	}
	busy.Finish()
}

// A call is also answered if the explanation fails, and then, too, nothing of its request goes on.
func TestFailedExplanationIsAnswered(t *testing.T) {
	d := startFake(t, 1, 2, inspectConfig)
	d.fault, d.faultLeft = "Wall", 1 // read for the explanation alone
	call := d.client(0, streamtest.Request{
		Path: inspectPath + "/explain/v1/models", Method: "POST", Headers: authorization("Bearer " + apiToken),
	})
	if r := call.Result(); r.Status != 500 || call.Routed || d.apiCalls("explain", "panic") != 1 {
		t.Errorf("answered %d %s, routed %v", r.Status, r.Body, call.Routed)
	}
	d.drained()
}
