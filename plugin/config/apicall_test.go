package config

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/policy"
)

var someModels = []string{"gpt-4o", "gpt-4o-mini"}

// queueWith returns a queue with these classes, the default one last; without any none waits.
func queueWith(classes ...string) *Queue {
	q := &Queue{}
	for i, name := range classes {
		q.MaxWait = 1
		q.Classes = append(q.Classes, Class{Class: lb.Class{ID: uint16(i + 1)}, Name: name})
	}
	return q
}

func TestReadSchedule(t *testing.T) {
	queued := queueWith("interactive", "batch")
	for _, c := range []struct {
		body string
		in   *Queue
		want ScheduleCall
	}{
		{`{"estimated_tokens":1800}`, queueWith(), ScheduleCall{Tokens: 1800}},
		{` { "estimated_tokens" : 2e3 } `, queueWith(), ScheduleCall{Tokens: 2000}},
		{`{"idempotency_key":"a\u00e9","models":["gpt-4o"],"estimated_tokens":1}`, queueWith(), ScheduleCall{
			Tokens: 1, Models: []string{"gpt-4o"}, Key: "aé",
		}},
		{`{"estimated_tokens":2000000,"class":"interactive"}`, queued, ScheduleCall{
			Tokens: 2000000, Class: &queued.Classes[0], HasClass: true,
		}},
		{`{"estimated_tokens":1}`, queued, ScheduleCall{Tokens: 1, Class: &queued.Classes[1]}},
	} {
		if got, err := ReadSchedule(c.body, someModels, c.in); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, %v", c.body, got, err)
		}
	}
}

func TestReadTask(t *testing.T) {
	for body, want := range map[string]TaskCall{
		`{"task_id":"tsk_1"}`:                      {TaskID: "tsk_1", Tokens: -1},
		`{"task_id":"tsk_1","actual_tokens":0}`:    {TaskID: "tsk_1"},
		`{"actual_tokens":1700,"task_id":"tsk_1"}`: {TaskID: "tsk_1", Tokens: 1700},
	} {
		if got, err := ReadComplete(body); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", body, got, err)
		}
		got, err := ReadHeartbeat(body)
		if plain := want.Tokens < 0; plain != (err == nil) || got.TaskID != "tsk_1" {
			t.Errorf("%s as a heartbeat: got %+v, %v", body, got, err)
		}
	}
}

// Limits that are not named are as configured.
func TestReadLimits(t *testing.T) {
	of := policy.BudgetTarget{Name: "a", MaxConcurrent: 20}
	of.Limits.Tokens = 1000
	for body, want := range map[string]lb.TargetLimits{
		`{"max_tokens_per_minute":5000}`:                                {-1, 5000, -1},
		`{"max_requests_per_minute":1.5,"max_concurrent_requests":1e6}`: {1e6, -1, 1.5},
		`{"max_concurrent_requests":0,"max_tokens_per_minute":0}`:       {0, 0, -1},
	} {
		got, err := ReadLimits(body, &of)
		if over := (lb.TargetLimits{20, 1000, 0}); err != nil || got.Set != want || got.Over != over {
			t.Errorf("%s: got %+v, %v", body, got, err)
		}
	}
	for body, want := range map[string]string{
		`{}`: `body: names no limit, want at least one of "max_concurrent_requests", "max_tokens_per_minute", ` +
			`"max_requests_per_minute"; DELETE ends what was set`,
		``: `body: empty, want an object like {"max_tokens_per_minute": 100000}`,
		`{"weight":2}`: `weight: unknown member, want one of "max_concurrent_requests", "max_tokens_per_minute", ` +
			`"max_requests_per_minute"`,
		`{"max_tokens_per_minute":0.5,"max_concurrent_requests":1.5}`: `max_tokens_per_minute: got 0.5, want a ` +
			`number from 1 to 1000000000000, or 0; max_concurrent_requests: got 1.5, want a whole number from 0 to 1000000`,
	} {
		if _, err := ReadLimits(body, &of); err == nil || err.Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", body, err, want)
		}
	}
}

// What the target has answered is only of a task that is over.
func TestReadTargetsAnswer(t *testing.T) {
	const id = `{"task_id":"x",`
	for body, want := range map[string]TaskCall{
		id + `"status":429}`:                                  {"x", -1, 429, ""},
		id + `"status":200,"actual_tokens":7}`:                {"x", 7, 200, ""},
		id + `"status":503,"retry_after":1.5}`:                {"x", -1, 503, "1.5"},
		id + `"status":529,"retry_after":0}`:                  {"x", -1, 529, "0"},
		id + `"retry_after":"Sun, 06 Nov 1994","status":429}`: {"x", -1, 429, "Sun, 06 Nov 1994"},
	} {
		if got, err := ReadComplete(body); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", body, got, err)
		}
		if _, err := ReadHeartbeat(body); err == nil {
			t.Errorf("%s is a heartbeat", body)
		}
	}
	const wantRetry = "want what the header Retry-After has: a number of seconds, or a time as text"
	for members, want := range map[string]string{
		`"status":99}`:                     "status: got 99, want a whole number from 100 to 599",
		`"status":"429"}`:                  `status: got "429", want a whole number from 100 to 599`,
		`"status":429,"retry_after":-1}`:   "retry_after: got -1, " + wantRetry,
		`"status":429,"retry_after":""}`:   `retry_after: got "", ` + wantRetry,
		`"status":429,"retry_after":true}`: "retry_after: got true, " + wantRetry,
		`"retry_after":1}`:                 "retry_after: got it without a status of 429, 503 or 529, whose answers have it",
		`"status":500,"retry_after":1}`:    "retry_after: got it without a status of 429, 503 or 529, whose answers have it",
	} {
		if _, err := ReadComplete(id + members); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", members, err, want)
		}
	}
}

const wantTokens = "want a whole number from 1 to 2000000"

// badCall is the body of a call, and what is wrong with it.
type badCall struct {
	call       func(body string) error
	body, want string
}

func scheduleError(body string) error {
	_, err := ReadSchedule(body, someModels, queueWith())
	return err
}

func completeError(body string) error { _, err := ReadComplete(body); return err }

func heartbeatError(body string) error { _, err := ReadHeartbeat(body); return err }

// badCalls returns bodies with everything that can be wrong with them.
func badCalls() []badCall {
	const known = `"estimated_tokens", "models", "class", "idempotency_key"`
	schedule, complete, heartbeat := scheduleError, completeError, heartbeatError
	return []badCall{
		{schedule, ``, `body: empty, want an object like {"estimated_tokens": 1800}`},
		{schedule, " \n", `body: empty, want an object like {"estimated_tokens": 1800}`},
		{schedule, `{`, "body: not valid JSON at line 1, column 2: a key in double quotes is missing"},
		{
			schedule, `{"estimated_tokens":1}{`,
			"body: not valid JSON at line 1, column 23: text after the end of the object",
		},
		{schedule, `[1]`, `body: got an array, want an object like {"estimated_tokens": 1800}`},
		{complete, `"x"`, `body: got "x", want an object like {"task_id": "tsk_..."}`},
		{schedule, `{}`, "estimated_tokens: missing, " + wantTokens},
		{schedule, `{"estimated_tokens":0}`, "estimated_tokens: got 0, " + wantTokens},
		{schedule, `{"estimated_tokens":-5}`, "estimated_tokens: got -5, " + wantTokens},
		{schedule, `{"estimated_tokens":1.5}`, "estimated_tokens: got 1.5, " + wantTokens},
		{schedule, `{"estimated_tokens":2000001}`, "estimated_tokens: got 2000001, " + wantTokens},
		{schedule, `{"estimated_tokens":1e999}`, "estimated_tokens: got 1e999, " + wantTokens},
		{schedule, `{"estimated_tokens":"1800"}`, `estimated_tokens: got "1800", ` + wantTokens},
		{schedule, `{"estimated_tokens":null}`, "estimated_tokens: got null, " + wantTokens},
		{schedule, `{"estimated_tokens":1,"estimated_tokens":2}`, "estimated_tokens: written twice"},
		{schedule, `{"estimated_tokens":1,"model":"a"}`, "model: unknown member, want one of " + known +
			`; did you mean "models"?`},
		{
			schedule, `{"estimated_tokens":1,"models":"gpt-4o"}`,
			`models: got "gpt-4o", want a list of names of targets, or nothing for all of them`,
		},
		{schedule, `{"estimated_tokens":1,"models":[]}`, "models: got 0 names, want 1 to 2, or nothing for all targets"},
		{schedule, `{"estimated_tokens":1,"models":["gpt-4o","gpt-4o"]}`, `models[1]: got "gpt-4o" twice`},
		{
			schedule, `{"estimated_tokens":1,"class":"batch"}`,
			"class: not known: there are no classes without lb_config.queue",
		},
		{
			schedule, `{"estimated_tokens":1,"idempotency_key":""}`,
			`idempotency_key: got "", want a string of 1 to 1024 bytes`,
		},
		{
			schedule, `{"estimated_tokens":"x","models":[1,"gpt-5"],"idempotency_key":7}`,
			`estimated_tokens: got "x", ` + wantTokens + `; models[0]: got 1, want one of "gpt-4o", "gpt-4o-mini"; ` +
				`models[1]: got "gpt-5", want one of "gpt-4o", "gpt-4o-mini"; ` +
				"idempotency_key: got 7, want a string of 1 to 1024 bytes",
		},
		{complete, `{}`, "task_id: missing, want the one that schedule has answered"},
		{complete, `{"task_id":5,"actual_tokens":-1}`, "task_id: got 5, want a string of 1 to 1024 bytes; " +
			"actual_tokens: got -1, want a whole number from 0 to 2000000"},
		{heartbeat, `{"task_id":"tsk_1","actual_tokens":1}`, `actual_tokens: unknown member, want "task_id"`},
	}
}

// Every problem of a body is named, with its place and what would be right.
func TestBadCalls(t *testing.T) {
	for _, c := range badCalls() {
		if err := c.call(c.body); err == nil || err.Error() != c.want {
			t.Errorf("%s:\ngot  %v\nwant %s", c.body, err, c.want)
		}
	}
	_, err := ReadSchedule(`{"estimated_tokens":1,"class":"bulk"}`, someModels, queueWith("interactive", "batch"))
	if want := `class: got "bulk", want one of "interactive", "batch"`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	many := strings.Repeat(`"x":1,`, 60)
	err = heartbeatError(`{` + many + `"task_id":"tsk_1"}`)
	if err == nil || !strings.HasSuffix(err.Error(), "; and 10 more") {
		t.Errorf("60 problems: %v", err)
	}
}

// A body is accepted only if encoding/json accepts it too, with equal values; whatever it is, the error is one short
// line.
func FuzzReadSchedule(f *testing.F) {
	f.Add(`{"estimated_tokens":1800,"models":["gpt-4o"],"class":"batch","idempotency_key":"a"}`)
	f.Add(`{"estimated_tokens":1e3,"estimated_tokens":1}`)
	f.Add(`{"task_id":"tsk_1","actual_tokens":5}`)
	f.Add(`{"max_concurrent_requests":0,"max_tokens_per_minute":1e3,"max_requests_per_minute":0.5}`)
	f.Add("{\"estimated_tokens\":\"\n\xff\"}")
	f.Add(`{"estimated_tokens":[[[[]]]],"\u0000":{}}`)
	q := queueWith("batch", "interactive")
	f.Fuzz(func(t *testing.T, body string) {
		if len(body) > MaxCall {
			return
		}
		call, err := ReadSchedule(body, someModels, q)
		task, taskErr := ReadComplete(body)
		_, beatErr := ReadHeartbeat(body)
		_, limitsErr := ReadLimits(body, &policy.BudgetTarget{})
		for _, err := range []error{err, taskErr, beatErr, limitsErr} {
			if err != nil && (strings.ContainsAny(err.Error(), "\n\r\x00") || len(err.Error()) > 16<<10) {
				t.Fatalf("%q: error %q", body, err)
			}
		}
		var std struct {
			EstimatedTokens float64  `json:"estimated_tokens"`
			Models          []string `json:"models"`
			Class           string   `json:"class"`
			IdempotencyKey  string   `json:"idempotency_key"`
			TaskID          string   `json:"task_id"`
			ActualTokens    *float64 `json:"actual_tokens"`
		}
		if err != nil && taskErr != nil {
			return
		}
		if err := json.Unmarshal([]byte(body), &std); err != nil {
			t.Fatalf("%q: accepted, but %v", body, err)
		}
		if err == nil {
			valid := call.Tokens >= 1 && call.Tokens <= maxTaskTokens && float64(call.Tokens) == std.EstimatedTokens
			if !valid || !reflect.DeepEqual(call.Models, std.Models) || strings.ToValidUTF8(call.Key, "\ufffd") == "" !=
				(std.IdempotencyKey == "") || call.Class == nil {
				t.Fatalf("%q: got %+v, want %+v", body, call, std)
			}
		}
		if taskErr == nil && (task.TaskID == "" || (task.Tokens >= 0) != (std.ActualTokens != nil)) {
			t.Fatalf("%q: got %+v, want %+v", body, task, std)
		}
	})
}
