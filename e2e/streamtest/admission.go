package streamtest

import (
	"encoding/json"
	"strings"
	"time"
)

const (
	callPath  = "/warmgate/v1"
	callToken = "0123456789abcdef"
)

// admissionScenarios are about calls of the admission API, none of which is forwarded.
var admissionScenarios = []scenario{
	{name: "a task over workers", endpoints: 1, run: calling(func(t caller) {
		body := `{"estimated_tokens":1000,"idempotency_key":"a"}`
		id := t.admitted(0, body)
		if again := t.admitted(1, body[:7], body[7:30], body[30:]); again != id {
			t.Errorf("the same key gives %s, want %s", again, id)
		}
		other := t.admitted(1, `{"estimated_tokens":1000}`)
		if wait := t.callIn(0, "/schedule", `{"estimated_tokens":1}`).wantCalled(200); wait["wait_for_ms"] == nil {
			t.Errorf("beyond the cap: %v", wait)
		}
		for i, name := range []string{"/heartbeat", "/complete", "/complete"} {
			if a := t.callIn(i, name, `{"task_id":"`+id+`"}`).wantCalled(200); a["ok"] != true {
				t.Errorf("%s: %v", name, a)
			}
		}
		t.callIn(1, "/complete", `{"task_id":"`+other+`","actual_tokens":1}`).wantCalled(200)
		models := t.callIn(0, "/models").wantCalled(200)
		if text, _ := json.Marshal(models); !strings.Contains(string(text), `"in_flight":0`) {
			t.Errorf("when all is done: %s", text)
		}
		t.callIn(1, "/advice").wantCalled(200)
		t.wantGrown(calls("schedule_admitted"), 3)
		t.wantGrown(calls("schedule_wait"), 1)
		t.wantGrown(calls("complete_repeated"), 1)
		t.wantDrained()
	})},
	{name: "a task without heartbeats", endpoints: 1, needs: []Ability{
		SimulatedTime, RefillTime,
	}, run: calling(func(t caller) {
		id := t.admitted(0, `{"estimated_tokens":100000}`)
		if wait := t.callIn(1, "/schedule", `{"estimated_tokens":50000}`).wantCalled(200); wait["wait_for_ms"] == nil {
			t.Errorf("beyond the rate: %v", wait)
		}
		t.Advance(6 * time.Second)
		t.admitted(1, `{"estimated_tokens":100000}`)
		if a := t.callIn(1, "/complete", `{"task_id":"`+id+`"}`).wantCalled(200); a["reason"] != "abandoned" {
			t.Errorf("a late complete: %v", a)
		}
	})},
	{name: "calls that are refused", endpoints: 1, run: calling(func(t caller) {
		bare := Request{Method: "GET", Path: callPath + "/advice"}
		t.Open(bare).wantCalled(401)
		with := func(header, value string) *stream {
			r := call("/schedule", `{"estimated_tokens":1}`)
			r.Headers = append(r.Headers, [2]string{header, value})
			return t.Open(r)
		}
		with("content-encoding", "gzip").wantCalled(415)
		t.callIn(0, "/nowhere").wantCalled(404)
		t.callIn(0, "/schedule").wantCalled(405)
		t.callIn(0, "/schedule", `{"estimated_tokens":`, `"x"}`).wantCalled(400)
		t.callIn(0, "/complete", `{"task_id":"x"}`).wantCalled(404)
		t.callIn(0, "/heartbeat", strings.Repeat(" ", 40_000), strings.Repeat(" ", 40_000)).wantCalled(413)
		t.wantGrown(calls("unauthorized"), 1)
		t.wantGrown(calls("heartbeat_too_long"), 1)
	})},
	{name: "a caller leaves", endpoints: 1, run: calling(func(t caller) {
		r := call("/schedule", `{"estimated_`)
		r.Unended = true
		s := t.Open(r)
		if !t.Await(s.Held) {
			t.Error("the call is not held")
		}
		s.ResetByClient()
		t.wantGrown(calls("schedule_left"), 1)
		id := t.admitted(0, `{"estimated_tokens":1}`)
		t.complete(id) // scenarios that follow in this gateway need both slots
	})},
	{name: "it is bad at first", endpoints: 1, bare: true, needs: []Ability{FirstConfig}, run: func(r *run) {
		t := caller{r}
		t.push(strings.Replace(t.api(), `"weight":1`, `"weight":-1`, 1))
		t.wantCallsRefused()
		t.finish(t.Open(Request{Path: callPath + "0"}))
		t.start()
		t.complete(t.admitted(0, `{"estimated_tokens":1}`))
	}},
	{name: "the rule of the API is bad", endpoints: 1, run: func(r *run) {
		t := caller{r}
		good, bad := t.api(), strings.Replace(t.api(), `"weight":1`, `"weight":-1`, 1)
		rule := func(part string) string {
			others := t.rules(rule{`"_match_domain_":["*"]`, ""})
			return strings.TrimSuffix(others, "]}") + `,{"_match_route_":["tasks"],` + part[1:] + "]}"
		}
		t.push(rule(bad))
		t.wantCallsRefused()
		t.finish(t.chats(1)...)
		for _, part := range []string{good, bad} { // then its last good form is in force
			t.push(rule(part))
			t.complete(t.admitted(0, `{"estimated_tokens":1}`))
		}
	}},
	{name: "other paths", endpoints: 1, run: calling(func(t caller) {
		t.apply("")
		s := t.callIn(0, "/advice") // there is no API any more
		if s.Upstream() < 0 {
			t.Errorf("not forwarded: %+v", s.Result())
		}
		t.finish(s)
		t.wantDrained()
	})},
}

func calls(result string) string { return "warmgate_api_calls_total;result=" + result }

// caller is a run that calls an admission API.
type caller struct{ *run }

// calling is a scenario with an admission API.
func calling(play func(caller)) func(*run) {
	return func(r *run) {
		t := caller{r}
		t.start()
		play(t)
	}
}

// start puts an admission API into force for a target with two slots, whose tasks live for 5 s without a heartbeat.
func (t caller) start() {
	t.Helper()
	t.push(t.api())
	t.mark(calls("schedule_admitted"), calls("schedule_wait"), calls("complete_repeated"), calls("unauthorized"),
		calls("heartbeat_too_long"), calls("schedule_left"))
}

// api returns the configuration of that API.
func (t caller) api() string {
	members := []string{
		`"debug_headers":true`,
		`"targets":{"m":{"weight":1,"max_concurrent_requests":2,"max_tokens_per_minute":100000}}`,
		`"api":{"path":"` + callPath + `","token":"` + callToken + `","lease_ttl":"5s"}`,
	}
	if source := t.Source(); source != "" {
		members = append(members, source)
	}
	return `{"lb_type":"cluster","lb_policy":"token_budget","lb_config":{` + strings.Join(members, ",") + `}}`
}

// wantCallsRefused fails the test unless calls are answered that the configuration is refused, whoever sends them.
func (t caller) wantCallsRefused() {
	t.Helper()
	for _, s := range []*stream{
		t.callIn(0, "/schedule", `{"estimated_`, `tokens":1}`), t.callIn(1, "/models"),
		t.Open(Request{Method: "GET", Path: callPath + "/advice"}),
	} {
		if answer := s.wantCalled(503); answer["error"] != "the configuration is refused" {
			t.Errorf("answered %v", answer)
		}
	}
}

// call returns a call with the token; without frames it is a GET.
func call(name string, frames ...string) Request {
	r := Request{
		Path: callPath + name, Frames: frames, Headers: [][2]string{{"authorization", "Bearer " + callToken}},
	}
	if len(frames) > 0 {
		r.Headers = append(r.Headers, [2]string{"content-type", "application/json"})
	}
	return r
}

// callIn sends a call through a worker.
func (t caller) callIn(worker int, name string, frames ...string) *stream {
	r := call(name, frames...)
	r.Worker = worker % t.Workers()
	return t.Open(r)
}

// wantCalled fails the test unless the plugin has answered the call so, and returns the answer.
func (s *stream) wantCalled(status int) map[string]any {
	s.t.Helper()
	if at := s.Upstream(); at >= 0 {
		s.t.Fatalf("forwarded to endpoint %d", at)
	}
	r := s.Result()
	var answer map[string]any
	if err := json.Unmarshal([]byte(r.Body), &answer); err != nil || r.Status != status {
		s.t.Fatalf("answered %d %q, want %d", r.Status, r.Body, status)
	}
	if r.Headers["content-type"] != "application/json" || (status >= 400) != (answer["error"] != nil) {
		s.t.Errorf("answered %d %q, %v", r.Status, r.Body, r.Headers)
	}
	return answer
}

// complete ends a task.
func (t caller) complete(id string) {
	t.Helper()
	t.callIn(0, "/complete", `{"task_id":"`+id+`"}`).wantCalled(200)
}

// admitted returns the id of a task that is admitted.
func (t caller) admitted(worker int, frames ...string) string {
	t.Helper()
	answer := t.callIn(worker, "/schedule", frames...).wantCalled(200)
	id, _ := answer["task_id"].(string)
	if id == "" || answer["model_backend_id"] != "m" {
		t.Fatalf("answered %v", answer)
	}
	return id
}
