package core

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/views"
)

func TestSchedule(t *testing.T) {
	d, tasks := startAPI(t, 2, "")
	admitted := `{"model_backend_id":"b","task_id":"` + fakeTaskText + `"}`
	tasks.grant.Index = 1
	d.wantAnswer("admitted", d.call(0, "/schedule", okCall), 200, admitted)
	if p := tasks.plan; p.Scope != "budgets/clusters" || p.Budget.Tokens != 1800 || p.Tokens != 1800 ||
		!p.HasBudget() || p.Wait.Waits() || len(p.Candidates) != 3 || p.Candidates[2].Cap != 2 {
		t.Errorf("the plan is %+v", p)
	}
	if tasks.key != 0 || tasks.ttl != 30*time.Second {
		t.Errorf("key %d, for %v", tasks.key, tasks.ttl)
	}
	d.wantAnswer("in parts", d.call(1, "/schedule", okCall[:5], okCall[5:20], okCall[20:]), 200, admitted)
	keyed := `{"estimated_tokens":1,"idempotency_key":"k","models":["c","a"]}`
	d.wantAnswer("some of the targets", d.call(0, "/schedule", keyed), 200, strings.Replace(admitted, `"b"`, `"c"`, 1))
	first := tasks.plan
	if key := tasks.key; key == 0 {
		t.Error("no key")
	} else if d.call(1, "/schedule", keyed); tasks.key != key {
		t.Error("another key in another worker")
	} else if d.call(1, "/schedule", strings.Replace(keyed, `"k"`, `"l"`, 1)); tasks.key == key {
		t.Error("the same key")
	}
	if len(first.Candidates) != 2 || first.Candidates[0].Addr != "a" || first.Candidates[1].Addr != "c" ||
		len(first.Budget.Limits) != 2 || first.Budget.Limits[1].Weight != 0.5 {
		t.Errorf("for a and c the plan is %+v", first)
	}
	tasks.grant.Index = 0
	for body, same := range map[string]bool{
		`{"estimated_tokens":1,"models":["a","c"],"idempotency_key":"m"}`: true,
		`{"estimated_tokens":2,"models":["a","c"]}`:                       false,
		`{"estimated_tokens":1,"models":["a"]}`:                           false,
		`{"estimated_tokens":1}`:                                          false,
	} {
		if d.call(0, "/schedule", body); (tasks.plan.Budget.Call == first.Budget.Call) != same {
			t.Errorf("%s: digest %d, that of %s is %d", body, tasks.plan.Budget.Call, keyed, first.Budget.Call)
		}
	}
	tasks.err = lb.ErrOtherCall
	d.wantAnswer("another body", d.call(0, "/schedule", keyed), 422, `{"error":"idempotency_key: the task that has it `+
		`was asked for by another body, want the same one, or another key"}`)
	if n := d.apiCalls("schedule", "other_call"); n != 1 {
		t.Errorf("counted %d times", n)
	}
	tasks.err = nil
	d.call(0, "/schedule", `{"estimated_tokens":1,"models":["a","c"]}`)
	if tasks.plan.Digest() != first.Digest() {
		t.Error("an equal list of candidates is another one")
	}
	d.noToken()
	d.drained()
}

// A caller that is not admitted is told when to come again: about when a target can be expected to be open, but no
// later than callers are told at most, and then not all the same.
func TestToldToWait(t *testing.T) {
	d, tasks := startAPI(t, 1, "")
	wait := func() int64 {
		t.Helper()
		c := d.call(0, "/schedule", okCall)
		var answer map[string]int64
		err := json.Unmarshal([]byte(c.Result().Body), &answer)
		if err != nil || c.Result().Status != 200 || len(answer) != 1 {
			t.Fatalf("answered %d %s", c.Result().Status, c.Result().Body)
		}
		return answer["wait_for_ms"]
	}
	for _, err := range []error{lb.ErrOverBudget, lb.ErrFull} {
		tasks.err = err
		for expected, within := range map[time.Duration][2]int64{
			0: {50, 50}, time.Millisecond: {50, 50}, 900 * time.Millisecond: {810, 990},
			10 * time.Second: {2500, 5000}, 534 * time.Second: {2500, 5000},
		} {
			tasks.grant.Expected = expected
			seen := map[int64]bool{}
			for range 50 {
				ms := wait()
				seen[ms] = true
				if ms < within[0] || ms > within[1] {
					t.Errorf("%v: told %d ms, want %v", expected, ms, within)
				}
			}
			if expected == 10*time.Second && len(seen) < 40 {
				t.Errorf("%d different waits", len(seen))
			}
		}
	}
	for _, err := range []error{lb.ErrUnready, lb.ErrRemoteDown, errors.New("lost")} {
		tasks.err = err
		if ms := wait(); ms < 900 || ms > 1100 {
			t.Errorf("%v: told %d ms", err, ms)
		}
	}
	if a, b := d.apiCalls("schedule", "wait"), d.apiCalls("schedule", "unavailable"); a != 500 || b != 3 {
		t.Errorf("counted %d and %d", a, b)
	}
	tasks.err = nil
	for _, name := range []string{"a", "b", "c"} {
		d.sicken(name)
	}
	if ms := wait(); ms < 900 || ms > 1100 || d.apiCalls("schedule", "no_target") != 1 {
		t.Errorf("without a healthy target: told %d ms", ms)
	}
	d.drained()
}

func TestCompleteAndHeartbeat(t *testing.T) {
	d, tasks := startAPI(t, 1, "")
	task := `{"task_id":"` + fakeTaskText + `"}`
	unavailable := `{"error":"the store does not answer, try again"}`
	for _, c := range []struct {
		end    lb.TaskEnd
		err    error
		status int
		body   string
		result string
	}{
		{lb.TaskCompleted, nil, 200, `{"ok":true}`, "completed"},
		{lb.TaskEnded, nil, 200, `{"ok":true}`, "repeated"},
		{lb.TaskAbandoned, nil, 200, `{"ok":false,"reason":"abandoned"}`, "abandoned"},
		{lb.TaskUnknown, nil, 404, `{"error":"Task not found"}`, "not_found"},
		{lb.TaskUnknown, lb.ErrRemoteDown, 503, unavailable, "unavailable"},
	} {
		tasks.end, tasks.err = c.end, c.err
		s := d.call(0, "/complete", task)
		d.wantAnswer("complete "+c.result, s, c.status, c.body)
		if after := s.Result().Headers["retry-after"]; (after == "1") != (c.status == 503) {
			t.Errorf("%s: retry-after %q", c.result, after)
		}
		n := d.apiCalls("complete", c.result)
		if n != 1 || tasks.id != fakeTask || tasks.scope != views.BudgetScope || tasks.use.Tokens != -1 {
			t.Errorf("%s: counted %d times, task %x in %s, %+v", c.result, n, tasks.id, tasks.scope, tasks.use)
		}
	}
	tasks.err = nil
	d.call(0, "/complete", `{"task_id":"`+fakeTaskText+`","actual_tokens":1700}`)
	if tasks.use.Tokens != 1700 {
		t.Errorf("%d tokens", tasks.use.Tokens)
	}
	tasks.found = true
	d.wantAnswer("heartbeat", d.call(0, "/heartbeat", task), 200, `{"ok":true}`)
	if tasks.id != fakeTask || tasks.ttl != 30*time.Second || tasks.scope != views.BudgetScope {
		t.Errorf("renewed %x for %v in %s", tasks.id, tasks.ttl, tasks.scope)
	}
	tasks.found = false
	d.wantAnswer("heartbeat", d.call(0, "/heartbeat", task), 200, `{"ok":false,"reason":"not_found"}`)
	tasks.err = lb.ErrUnready
	d.wantAnswer("heartbeat", d.call(0, "/heartbeat", task), 503, unavailable)

	asked := len(tasks.calls)
	for _, id := range []string{
		"x", "tsk_", strings.ToUpper(fakeTaskText), fakeTaskText + "0", fakeTaskText[:35], "tsk-" + fakeTaskText[4:],
		strings.Replace(fakeTaskText, "0123", "+123", 1), strings.Replace(fakeTaskText, "abc", "éb", 1),
	} {
		d.wantAnswer(id, d.call(0, "/complete", `{"task_id":"`+id+`"}`), 404, `{"error":"Task not found"}`)
		d.wantAnswer(id, d.call(0, "/heartbeat", `{"task_id":"`+id+`"}`), 200, `{"ok":false,"reason":"not_found"}`)
	}
	if len(tasks.calls) != asked {
		t.Error("the store was asked for what is no id")
	}
	d.drained()
}

// A caller tells what its target has answered: what no model has worked on is given back, and a target that asks to try
// again later is closed for that time.
func TestTargetsAnswers(t *testing.T) {
	d, tasks := startAPI(t, 1, "")
	for members, want := range map[string]lb.TaskUse{
		`"status":200`:                                   {Tokens: -1},
		`"status":200,"actual_tokens":7`:                 {Tokens: 7},
		`"status":400`:                                   {},
		`"status":400,"actual_tokens":7`:                 {Tokens: 7},
		`"status":408`:                                   {Tokens: -1},
		`"status":500`:                                   {Tokens: -1},
		`"status":429`:                                   {Closed: time.Second},
		`"status":503`:                                   {},
		`"status":429,"retry_after":1.5`:                 {Closed: 1500 * time.Millisecond},
		`"status":529,"retry_after":"20"`:                {Closed: 20 * time.Second},
		`"status":429,"retry_after":0,"actual_tokens":3`: {Tokens: 3},
	} {
		tasks.end, tasks.use = lb.TaskCompleted, lb.TaskUse{}
		d.wantAnswer(members, d.call(0, "/complete", `{"task_id":"`+fakeTaskText+`",`+members+`}`), 200, `{"ok":true}`)
		if want.Most = time.Minute; tasks.use != want { // max_closed
			t.Errorf("%s: told the store %+v, want %+v", members, tasks.use, want)
		}
	}
	bad := d.call(0, "/complete", `{"task_id":"`+fakeTaskText+`","status":429,"retry_after":"soon"}`)
	d.wantAnswer("a time that is none", bad, 400, `{"error":"retry_after: got \"soon\", want a number of seconds, `+
		`or a time such as \"Sun, 06 Nov 1994 08:49:37 GMT\""}`)
	d.drained()
}

// Answers of the store may come later, and after the caller has left: a task of which nobody will know is given back.
func TestLateAnswers(t *testing.T) {
	d, tasks := startAPI(t, 1, "")
	tasks.late = true
	c := d.call(0, "/schedule", okCall[:10], okCall[10:])
	if !c.Held() || c.Ended {
		t.Fatal("not held")
	}
	d.advance(time.Minute)
	tasks.flush()
	d.settle()
	d.wantAnswer("late", c, 200, `{"model_backend_id":"a","task_id":"`+fakeTaskText+`"}`)

	for body, given := range map[string]int{okCall: 1, `{"estimated_tokens":1,"idempotency_key":"k"}`: 0} {
		tasks.calls = nil
		left := d.call(0, "/schedule", body)
		left.ResetByClient()
		tasks.flush()
		d.settle()
		if n := len(tasks.calls) - 1; n != given {
			t.Errorf("%s: given back %d times, want %d: %v", body, n, given, tasks.calls)
		}
	}
	if tasks.use.Tokens != 0 || tasks.id != fakeTask || d.apiCalls("schedule", "left") != 2 {
		t.Errorf("%d tokens of %x, %d have left", tasks.use.Tokens, tasks.id, d.apiCalls("schedule", "left"))
	}
	tasks.flush()
	for _, name := range []string{"/complete", "/heartbeat"} {
		c := d.call(0, name, `{"task_id":"`+fakeTaskText+`"}`)
		tasks.end, tasks.found = lb.TaskCompleted, true
		tasks.flush()
		d.settle()
		d.wantAnswer(name, c, 200, `{"ok":true}`)
	}
	d.drained()
}

// Classes are those of the queue, and who waits in a lower one gains less.
func TestClassesOfTasks(t *testing.T) {
	d, tasks := startAPI(t, 1, `"queue":{"max_wait":"1s","classes":{"interactive":8,"batch":2}},"age_bonus":1000,`)
	for body, bonus := range map[string]float64{
		`{"estimated_tokens":1,"class":"interactive"}`: 1000, `{"estimated_tokens":1,"class":"batch"}`: 250,
		`{"estimated_tokens":1}`: 250,
	} {
		d.call(0, "/schedule", body)
		if got := tasks.plan.Budget.AgeBonus; got != bonus || tasks.plan.Wait.Waits() {
			t.Errorf("%s: age bonus %v, want %v", body, got, bonus)
		}
	}
	d.wantAnswer("another class", d.call(0, "/schedule", `{"estimated_tokens":1,"class":"bulk"}`), 400,
		`{"error":"class: got \"bulk\", want one of \"interactive\", \"batch\""}`)
}

// sicken makes all endpoints of a cluster unhealthy.
func (d *fakeDriver) sicken(cluster string) {
	for _, i := range d.sites[cluster] {
		d.endpoints[i].State = lb.Unhealthy
	}
}
