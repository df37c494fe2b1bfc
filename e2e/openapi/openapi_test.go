// Package openapi compares docs/api.yaml with the admission API of a running gateway, and docs/inspect.yaml with what
// one shows of itself. It is a module of its own, so that the validator is no dependency of Warmgate.
package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/errors"

	"github.com/warmgate/warmgate/e2e/harness"
)

const (
	token = "0123456789abcdef"
	// opsToken is that of a caller who may set limits.
	opsToken = "ops-0123456789abcdef"
	// plugin is a configuration whose tasks live for 20 s without a heartbeat.
	plugin = `{"lb_type":"cluster","lb_policy":"token_budget","lb_config":{"targets":{
		"gpt-4o-mini":{"weight":3,"max_concurrent_requests":3,"max_tokens_per_minute":200000},
		"gpt-4o":{"weight":1,"max_concurrent_requests":2}},
		"api":{"path":"/warmgate/v1","token":"` + token + `","lease_ttl":"20s",
		"callers":{"ops":{"token":"` + opsToken + `","sets_limits":true}}}}}`
	unknownTask = "tsk_00000000000000000000000000000000"
)

// document returns the description and a validator for it. The server is where the gateway is.
func document(t *testing.T, name, url string) (libopenapi.Document, validator.Validator) {
	t.Helper()
	text, err := os.ReadFile(harness.PathT(t, name))
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("http://localhost:10000"), []byte(url), 1)
	doc, err := libopenapi.NewDocument(text)
	if err != nil {
		t.Fatal(err)
	}
	v, errs := validator.NewValidator(doc)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return doc, v
}

// The description is valid OpenAPI 3.1.
func TestDescription(t *testing.T) {
	doc, v := document(t, "docs/api.yaml", "http://localhost:10000")
	if got := doc.GetVersion(); got != "3.1.0" {
		t.Errorf("OpenAPI %s", got)
	}
	if ok, errs := v.ValidateDocument(); !ok {
		t.Error(list(errs))
	}
}

func list(errs []*errors.ValidationError) string {
	var text strings.Builder
	for _, e := range errs {
		text.WriteString("\n" + e.Error())
		for _, s := range e.SchemaValidationErrors {
			text.WriteString("\n  " + s.Error())
		}
	}
	return text.String()
}

// checker sends calls and compares each, and its answer, with the description.
type checker struct {
	*testing.T
	v   validator.Validator
	url string
	api string          // path of the API
	met map[string]bool // methods, paths and statuses of answers
}

// send sends a call. valid: the call itself is as described.
func (c *checker) send(method, path, auth, body string, valid bool) (int, string) {
	c.Helper()
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	request := func() *http.Request {
		r, err := http.NewRequestWithContext(c.Context(), method, c.url+c.api+path, content)
		if err != nil {
			c.Fatal(err)
		}
		if body != "" {
			content = strings.NewReader(body)
			r.Body = io.NopCloser(content)
			r.Header.Set("content-type", "application/json")
		}
		if auth != "" {
			r.Header.Set("authorization", auth)
		}
		return r
	}
	resp, err := http.DefaultClient.Do(request())
	if err != nil {
		c.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.Fatal(err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(text))
	what := method + " " + path + " " + body
	if ok, errs := c.v.ValidateHttpRequest(request()); ok != valid {
		c.Errorf("%s: as described: %v, want %v%s", what, ok, valid, list(errs))
	}
	if ok, errs := c.v.ValidateHttpResponse(request(), resp); !ok {
		c.Errorf("%s: answered %d %s, not as described:%s", what, resp.StatusCode, text, list(errs))
	}
	c.met[method+" "+path+" "+resp.Status[:3]] = true
	return resp.StatusCode, string(text)
}

// call sends a call that is as described, and fails the test unless it is answered with the status.
func (c *checker) call(path, body string, status int) map[string]any {
	c.Helper()
	method := "POST"
	if body == "" {
		method = "GET"
	}
	got, text := c.send(method, path, "Bearer "+token, body, true)
	if got != status {
		c.Fatalf("%s %s: answered %d %s, want %d", path, body, got, text, status)
	}
	var answer map[string]any
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		c.Fatal(err)
	}
	return answer
}

// bad sends what is refused.
func (c *checker) bad() {
	c.Helper()
	for _, bad := range []struct {
		method, path, auth, body string
		status                   int
	}{
		{"GET", "/advice", "", "", 401},
		{"GET", "/models", "Bearer wrong", "", 401},
		{"POST", "/schedule", "Bearer " + token, `{"estimated_tokens":0}`, 400},
		{"POST", "/schedule", "Bearer " + token, `{"estimated_tokens":1,"more":1}`, 400},
		{"POST", "/complete", "Bearer " + token, `{"task_id":7}`, 400},
		{"POST", "/complete", "Bearer " + token, `{"task_id":"x","status":429,"retry_after":-1}`, 400},
		{"POST", "/heartbeat", "Bearer " + token, `{}`, 400},
		{"PUT", "/targets/gpt-4o", "Bearer " + token, `{"max_concurrent_requests":1}`, 403},
		{"DELETE", "/targets/gpt-4", "Bearer " + opsToken, "", 404},
		{"PUT", "/targets/gpt-4o", "Bearer " + opsToken, `{}`, 400},
		{"PUT", "/targets/gpt-4o", "Bearer " + opsToken, `{"max_tokens_per_minute":0.5}`, 400},
		{"POST", "/heartbeat", "Bearer " + token, `{"task_id":"` + strings.Repeat("x", 70_000) + `"}`, 413},
	} {
		// the validator knows neither tokens nor targets
		described := bad.auth == "Bearer wrong" || bad.status == 403 || bad.status == 404
		if got, text := c.send(bad.method, bad.path, bad.auth, bad.body, described); got != bad.status {
			c.Errorf("%s %s: answered %d %s, want %d", bad.method, bad.path, got, text, bad.status)
		}
	}
}

// limits sets limits of a target, which are shown, and deletes them.
func (c *checker) limits() {
	c.Helper()
	for _, call := range []struct{ method, body, shown string }{
		{
			"PUT", `{"max_concurrent_requests":0,"max_tokens_per_minute":80000.5}`,
			`["max_concurrent_requests","max_tokens_per_minute"]`,
		},
		{"DELETE", "", `[]`},
	} {
		status, text := c.send(call.method, "/targets/gpt-4o", "Bearer "+opsToken, call.body, true)
		if status != 200 || text != `{"ok":true}` {
			c.Errorf("%s: answered %d %s", call.method, status, text)
		}
		harness.Await(c, func() error { // by whichever worker
			first := c.call("/models", "", 200)["models"].([]any)[0].(map[string]any)
			if got, err := json.Marshal(first["limits_set"]); err != nil || string(got) != call.shown {
				return fmt.Errorf("%s: shown as %s, %v", call.method, got, err)
			}
			return nil
		})
	}
}

// Calls and answers of a gateway with two workers are as described, through the life of tasks.
func TestGateway(t *testing.T) {
	gw := harness.StartT(t, harness.Options{Config: plugin})
	_, v := document(t, "docs/api.yaml", gw.URL())
	c := &checker{t, v, gw.URL(), "/warmgate/v1", map[string]bool{}}

	var ids []string
	for len(ids) < 5 {
		answer := c.call("/schedule", `{"estimated_tokens":1800,"idempotency_key":"`+string(rune('a'+len(ids)))+`"}`, 200)
		ids = append(ids, answer["task_id"].(string))
	}
	if answer := c.call("/schedule", `{"estimated_tokens":1,"models":["gpt-4o"]}`, 200); answer["wait_for_ms"] == nil {
		t.Errorf("while all slots are taken: %v", answer)
	}
	if again := c.call("/schedule", `{"estimated_tokens":1800,"idempotency_key":"a"}`, 200); again["task_id"] != ids[0] {
		t.Errorf("the same key: %v, want %s", again, ids[0])
	}
	c.call("/schedule", `{"estimated_tokens":1801,"idempotency_key":"a"}`, 422)
	c.call("/models", "", 200)
	c.call("/advice", "", 200)
	want := func(path, body, answer string) {
		t.Helper()
		got, err := json.Marshal(c.call(path, body, 200))
		if err != nil || string(got) != answer {
			t.Errorf("%s %s: %s, %v, want %s", path, body, got, err, answer)
		}
	}
	for range 2 {
		want("/complete", `{"task_id":"`+ids[0]+`","actual_tokens":900}`, `{"ok":true}`)
	}
	want("/heartbeat", `{"task_id":"`+ids[1]+`"}`, `{"ok":true}`)
	told := c.call("/schedule", `{"estimated_tokens":1}`, 200)["task_id"].(string)
	want("/complete", `{"task_id":"`+told+`","status":429,"retry_after":0.1}`, `{"ok":true}`)
	want("/heartbeat", `{"task_id":"`+unknownTask+`"}`, `{"ok":false,"reason":"not_found"}`)
	c.call("/complete", `{"task_id":"`+unknownTask+`"}`, 404)
	// The tasks are abandoned; a late complete is answered so for as long as they would have lived.
	harness.Await(t, func() error {
		if late := c.call("/schedule", `{"estimated_tokens":1,"models":["gpt-4o"]}`, 200); late["task_id"] == nil {
			return fmt.Errorf("slots of abandoned tasks are not given back: %v", late)
		}
		return nil
	})
	var ends []string
	for _, id := range ids[1:] {
		_, text := c.send("POST", "/complete", "Bearer "+token, `{"task_id":"`+id+`"}`, true)
		ends = append(ends, text)
	}
	if !slices.Contains(ends, `{"ok":false,"reason":"abandoned"}`) {
		t.Errorf("late completes are answered with %q", ends)
	}

	c.limits()
	c.bad()
	c.haveMet()
}

// haveMet fails the test unless there were answers of all kinds.
func (c *checker) haveMet() {
	c.Helper()
	for _, of := range []string{
		"POST /schedule 200", "POST /complete 200", "POST /complete 404", "POST /heartbeat 200", "GET /advice 200",
		"GET /models 200", "PUT /targets/gpt-4o 200", "DELETE /targets/gpt-4o 200", "POST /schedule 400",
		"GET /advice 401", "POST /heartbeat 413",
	} {
		if !c.met[of] {
			c.Errorf("not met: %s", of)
		}
	}
}
