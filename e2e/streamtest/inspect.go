package streamtest

import (
	"encoding/json"
	"time"

	"github.com/warmgate/warmgate/internal/state"
)

// inspectScenarios are about what a gateway shows of itself.
var inspectScenarios = []scenario{
	{name: "state, decisions and what would become of a request", endpoints: 2, config: `"inspect":{"path":"` +
		callPath + `","token":"` + callToken + `"}`, run: func(t *run) {
		t.Open(Request{Method: "GET", Path: callPath + "/state"}).wantCalled(401)
		t.seen("/state", &state.State{}) // from now on somebody watches
		open := t.chats(3)
		var s state.State
		t.Advance(time.Second)
		if !t.Await(func() bool { t.seen("/state", &s); return len(s.Decisions) >= len(open) }) {
			t.Fatalf("%+v is shown", s)
		}
		n := int64(0)
		for i, e := range s.Clusters[0].Endpoints {
			if n += e.Requests; e.Addr != t.Addr(i) || e.Health != "healthy" || e.Weight != 1 {
				t.Errorf("%+v is shown", e)
			}
		}
		if len(s.Clusters) != 1 || n != int64(len(open)) {
			t.Errorf("%d clusters with %d requests are shown", len(s.Clusters), n)
		}
		for _, d := range s.Decisions {
			if len(d.Candidates) != 2 || d.Reason != "chosen" || d.Ended {
				t.Errorf("%+v is shown", d)
			}
		}
		var e state.Explanation
		t.seen("/explain/v1/chat/completions", &e, chat().Frames...)
		next := t.begin(chat())
		if d := e.Decisions[0]; d.Endpoint != t.Addr(next.Upstream()) || len(d.Candidates) != 2 {
			t.Errorf("%+v, and the request went to %s", d, t.Addr(next.Upstream()))
		}
		t.finish(append(open, next)...)
		t.wantDrained()
	}},
}

// seen sends a call to what the gateway shows, and reads its answer; without frames it is a GET.
func (t *run) seen(name string, into any, frames ...string) {
	t.Helper()
	s := t.Open(call(name, frames...))
	t.Advance(time.Second) // the first call is answered once all workers have published what they know
	if r := s.Result(); r.Status != 200 || json.Unmarshal([]byte(r.Body), into) != nil || s.Upstream() >= 0 {
		t.Fatalf("%s: answered %d %s", name, r.Status, r.Body)
	}
}
