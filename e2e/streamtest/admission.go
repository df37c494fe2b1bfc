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
	{name: "a task over workers", endpoints: 1, run: func(t *run) {
		t.admission()
		body := `{"estimated_tokens":1000,"idempotency_key":"a"}`
		id := t.admitted(0, body)
		if again := t.admitted(1, body[:7], body[7:30], body[30:]); again != id {
			t.Errorf("the same key gives %s, want %s", again, id)
		}
		other := t.admitted(1, `{"estimated_tokens":1000}`)
		if wait := t.wantCalled(t.callIn(0, "/schedule", `{"estimated_tokens":1}`), 200); wait["wait_for_ms"] == nil {
			t.Errorf("beyond the cap: %v", wait)
		}
		for i, name := range []string{"/heartbeat", "/complete", "/complete"} {
			if a := t.wantCalled(t.callIn(i, name, `{"task_id":"`+id+`"}`), 200); a["ok"] != true {
				t.Errorf("%s: %v", name, a)
			}
		}
		t.wantCalled(t.callIn(1, "/complete", `{"task_id":"`+other+`","actual_tokens":1}`), 200)
		models := t.wantCalled(t.callIn(0, "/models"), 200)
		if text, _ := json.Marshal(models); !strings.Contains(string(text), `"in_flight":0`) {
			t.Errorf("when all is done: %s", text)
		}
		t.wantCalled(t.callIn(1, "/advice"), 200)
		t.wantGrown(calls("schedule_admitted"), 3)
		t.wantGrown(calls("schedule_wait"), 1)
		t.wantGrown(calls("complete_repeated"), 1)
		t.wantDrained()
	}},
	{name: "a task without heartbeats", endpoints: 1, needs: []Ability{SimulatedTime, RefillTime}, run: func(t *run) {
		t.admission()
		id := t.admitted(0, `{"estimated_tokens":100000}`)
		if wait := t.wantCalled(t.callIn(1, "/schedule", `{"estimated_tokens":50000}`), 200); wait["wait_for_ms"] == nil {
			t.Errorf("beyond the rate: %v", wait)
		}
		t.Advance(6 * time.Second)
		t.admitted(1, `{"estimated_tokens":100000}`)
		if a := t.wantCalled(t.callIn(1, "/complete", `{"task_id":"`+id+`"}`), 200); a["reason"] != "abandoned" {
			t.Errorf("a late complete: %v", a)
		}
	}},
	{name: "calls that are refused", endpoints: 1, run: func(t *run) {
		t.admission()
		bare := Request{Method: "GET", Path: callPath + "/advice"}
		t.wantCalled(t.Open(bare), 401)
		with := func(header, value string) Stream {
			r := call("/schedule", `{"estimated_tokens":1}`)
			r.Headers = append(r.Headers, [2]string{header, value})
			return t.Open(r)
		}
		t.wantCalled(with("content-encoding", "gzip"), 415)
		t.wantCalled(t.callIn(0, "/nowhere"), 404)
		t.wantCalled(t.callIn(0, "/schedule"), 405)
		t.wantCalled(t.callIn(0, "/schedule", `{"estimated_tokens":`, `"x"}`), 400)
		t.wantCalled(t.callIn(0, "/complete", `{"task_id":"x"}`), 404)
		t.wantCalled(t.callIn(0, "/heartbeat", strings.Repeat(" ", 40_000), strings.Repeat(" ", 40_000)), 413)
		t.wantGrown(calls("unauthorized"), 1)
		t.wantGrown(calls("heartbeat_too_long"), 1)
	}},
	{name: "a caller leaves", endpoints: 1, run: func(t *run) {
		t.admission()
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
	}},
	{name: "it is bad at first", endpoints: 1, bare: true, needs: []Ability{FirstConfig}, run: func(t *run) {
		if err := t.Configure(strings.Replace(t.admissionConfig(), `"weight":1`, `"weight":-1`, 1)); err != nil {
			t.Fatal(err)
		}
		t.wantCallsRefused()
		t.finish(t.Open(Request{Path: callPath + "0"}))
		t.admission()
		t.complete(t.admitted(0, `{"estimated_tokens":1}`))
	}},
	{name: "the rule of the API is bad", endpoints: 1, run: func(t *run) {
		good, bad := t.admissionConfig(), strings.Replace(t.admissionConfig(), `"weight":1`, `"weight":-1`, 1)
		rule := func(part string) string {
			others := t.rules(rule{`"_match_domain_":["*"]`, ""})
			return strings.TrimSuffix(others, "]}") + `,{"_match_route_":["tasks"],` + part[1:] + "]}"
		}
		if err := t.Configure(rule(bad)); err != nil {
			t.Fatal(err)
		}
		t.wantCallsRefused()
		t.finish(t.open(1)...)
		for _, part := range []string{good, bad} { // then its last good form is in force
			if err := t.Configure(rule(part)); err != nil {
				t.Fatal(err)
			}
			t.complete(t.admitted(0, `{"estimated_tokens":1}`))
		}
	}},
	{name: "other paths", endpoints: 1, run: func(t *run) {
		t.admission()
		t.configure("")
		s := t.callIn(0, "/advice") // there is no API any more
		if s.Upstream() < 0 {
			t.Errorf("not forwarded: %+v", s.Result())
		}
		t.finish(s)
		t.wantDrained()
	}},
}

func calls(result string) string { return "warmgate_api_calls_total;result=" + result }

// admission puts an admission API into force for a target with two slots, whose tasks live for 5 s without a heartbeat.
func (t *run) admission() {
	t.Helper()
	if err := t.Configure(t.admissionConfig()); err != nil {
		t.Fatal(err)
	}
	t.mark(calls("schedule_admitted"), calls("schedule_wait"), calls("complete_repeated"), calls("unauthorized"),
		calls("heartbeat_too_long"), calls("schedule_left"))
}

// admissionConfig returns the configuration of that API.
func (t *run) admissionConfig() string {
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
func (t *run) wantCallsRefused() {
	t.Helper()
	for _, s := range []Stream{
		t.callIn(0, "/schedule", `{"estimated_`, `tokens":1}`), t.callIn(1, "/models"),
		t.Open(Request{Method: "GET", Path: callPath + "/advice"}),
	} {
		if answer := t.wantCalled(s, 503); answer["error"] != "the configuration is refused" {
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
func (t *run) callIn(worker int, name string, frames ...string) Stream {
	r := call(name, frames...)
	r.Worker = worker % t.Workers()
	return t.Open(r)
}

// wantCalled fails the test unless the plugin has answered the call so, and returns the answer.
func (t *run) wantCalled(s Stream, status int) map[string]any {
	t.Helper()
	if at := s.Upstream(); at >= 0 {
		t.Fatalf("forwarded to endpoint %d", at)
	}
	r := s.Result()
	var answer map[string]any
	if err := json.Unmarshal([]byte(r.Body), &answer); err != nil || r.Status != status {
		t.Fatalf("answered %d %q, want %d", r.Status, r.Body, status)
	}
	if r.Headers["content-type"] != "application/json" || (status >= 400) != (answer["error"] != nil) {
		t.Errorf("answered %d %q, %v", r.Status, r.Body, r.Headers)
	}
	return answer
}

// complete ends a task.
func (t *run) complete(id string) {
	t.Helper()
	t.wantCalled(t.callIn(0, "/complete", `{"task_id":"`+id+`"}`), 200)
}

// admitted returns the id of a task that is admitted.
func (t *run) admitted(worker int, frames ...string) string {
	t.Helper()
	answer := t.wantCalled(t.callIn(worker, "/schedule", frames...), 200)
	id, _ := answer["task_id"].(string)
	if id == "" || answer["model_backend_id"] != "m" {
		t.Fatalf("answered %v", answer)
	}
	return id
}
