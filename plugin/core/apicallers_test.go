package core

import (
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/streamtest"
)

// callerCall sends a call with a token.
func (d *fakeDriver) callerCall(token, name, body string) *fakeStream {
	method, frames := "POST", []string{body}
	if body == "" {
		method, frames = "GET", nil
	}
	return d.client(0, streamtest.Request{
		Method: method, Path: apiPath + name, Frames: frames, Headers: authorization("Bearer " + token),
	})
}

const (
	chatToken = "chat-token-0123456789"
	etlToken  = "etl-token-0123456789"
)

// startCallers starts a worker with two callers, of which chat may have more members.
func startCallers(t *testing.T, ofChat string) *fakeDriver {
	callers := `"callers":{"chat":{"token":"` + chatToken + `"` + ofChat + `},` +
		`"etl":{"token":"` + etlToken + `","share":0.25,"class":"bulk"}},`
	config := strings.Replace(apiConfig(`"queue":{"max_wait":"1s","classes":{"interactive":2,"bulk":1}},`),
		`"token":`, callers+`"token":`, 1)
	d := startSites(t, 1, config)
	d.anyCluster = true
	return d
}

// Callers have tokens of their own, with the slots that their tasks may fill and their class, and are counted apart.
func TestCallersOfTheAPI(t *testing.T) {
	d := startCallers(t, "")
	const task = `{"estimated_tokens":1,"models":["a"]}`
	admitted := func(token string) (n int) {
		t.Helper()
		for strings.Contains(d.callerCall(token, "/schedule", task).Result().Body, "task_id") {
			n++
		}
		return n
	}
	want := func(who string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d tasks, want %d", who, got, want)
		}
	}
	d.wantAnswer("advice of etl", d.callerCall(etlToken, "/advice", ""), 200,
		`{"backpressure_score":0,"suggested_parallelism":8}`)
	want("etl, of 20 slots", admitted(etlToken), 5)
	want("chat, behind it", admitted(chatToken), 15)
	want("the token that is nobody's", admitted(apiToken), 0)

	tasks := d.fakeTasks()
	for body, status := range map[string]int{
		okCall: 200, `{"estimated_tokens":1,"class":"bulk"}`: 200, `{"estimated_tokens":1,"class":"interactive"}`: 400,
	} {
		c := d.callerCall(etlToken, "/schedule", body)
		got := c.Result()
		if got.Status != status || status == 400 && !strings.Contains(got.Body, `want none or \"bulk\"`) {
			t.Errorf("%s: %d %s", body, got.Status, got.Body)
		}
	}
	d.callersBonus(tasks)
	for token, status := range map[string]int{
		"": 401, "chat-token-012345678": 401, chatToken + " ": 401, strings.ToUpper(etlToken): 401, chatToken: 200,
	} {
		if got := d.callerCall(token, "/models", "").Result().Status; got != status {
			t.Errorf("token %q: answered %d, want %d", token, got, status)
		}
	}
	for labels, want := range map[string]uint64{
		"caller=etl;result=schedule_admitted": 5 + 2, "caller=chat;result=schedule_wait": 1,
		"caller=etl;result=advice_ok": 1, "caller=etl;result=schedule_bad_request": 1,
		"caller=;result=schedule_wait": 0,
	} {
		if n := d.Counter("warmgate_api_caller_calls_total;" + labels); n != want {
			t.Errorf("%s: counted %d times, want %d", labels, n, want)
		}
	}
	d.noToken()
}

// callersBonus looks at what tasks gain by waiting, by their classes; the last one was of the lowest.
func (d *fakeDriver) callersBonus(tasks *fakeTasks) {
	d.t.Helper()
	lowest := tasks.plan.Budget.AgeBonus
	if d.callerCall(chatToken, "/schedule", okCall); lowest != tasks.plan.Budget.AgeBonus {
		d.t.Errorf("without a class the bonus is %v, that of the lowest class %v", tasks.plan.Budget.AgeBonus, lowest)
	}
	d.callerCall(chatToken, "/schedule", `{"estimated_tokens":1,"class":"interactive"}`)
	if higher := tasks.plan.Budget.AgeBonus; lowest >= higher {
		d.t.Errorf("of a higher class it is %v", higher)
	}
}

// Each caller has keys of its own, and caps of its own only as far as its share cuts them. Its class is no part of
// what its calls ask for: it may be another one when they are repeated.
func TestTasksOfCallers(t *testing.T) {
	const keyed = `{"estimated_tokens":1,"idempotency_key":"k"}`
	d := startCallers(t, `,"class":"interactive"`)
	tasks := d.fakeTasks()
	keys := map[uint64]string{}
	asked := map[uint16]bool{}
	for _, token := range []string{apiToken, chatToken, etlToken} {
		d.callerCall(token, "/schedule", keyed)
		if other := keys[tasks.key]; other != "" || tasks.key == 0 {
			t.Errorf("%s: key %d, which is %q's", token, tasks.key, other)
		}
		keys[tasks.key] = token
		asked[tasks.plan.Budget.Call] = true
		if own := tasks.plan.Budget.OwnCaps; own != (token == etlToken) {
			t.Errorf("%s: caps of its own %v", token, own)
		}
	}
	d.callerCall(etlToken, "/schedule", strings.Replace(keyed, "}", `,"class":"bulk"}`, 1))
	if len(asked) != 1 || asked[tasks.plan.Budget.Call] {
		t.Errorf("the same body has the digests %v, and with a class %d", asked, tasks.plan.Budget.Call)
	}
}
