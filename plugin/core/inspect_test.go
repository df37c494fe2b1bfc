package core

import (
	"bytes"
	"encoding/json"
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
