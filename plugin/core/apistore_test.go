package core

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// startTasks returns a process with the API and the embedded store.
func startTasks(t *testing.T, workers int) *fakeDriver {
	t.Helper()
	d := startSites(t, workers, apiConfig(""))
	d.advance(time.Second)
	return d
}

// answer returns the answer to a call, which has to have the status 200.
func (d *fakeDriver) answer(worker int, name string, body ...string) map[string]any {
	d.t.Helper()
	r := d.call(worker, name, body...).Result()
	var answer map[string]any
	if err := json.Unmarshal([]byte(r.Body), &answer); err != nil || r.Status != 200 {
		d.t.Fatalf("%s %s: answered %d %s", name, body, r.Status, r.Body)
	}
	return answer
}

// admit returns the id of a task that is admitted to a target, "" for one that is told to wait.
func (d *fakeDriver) admit(worker int, target, more string) string {
	d.t.Helper()
	answer := d.answer(worker, "/schedule", `{"estimated_tokens":1000,"models":["`+target+`"]`+more+`}`)
	id, admitted := answer["task_id"].(string)
	_, waits := answer["wait_for_ms"]
	if admitted == waits || admitted && answer["model_backend_id"] != target {
		d.t.Fatalf("answered %v", answer)
	}
	return id
}

func taskBody(id string) string { return `{"task_id":"` + id + `"}` }

// The tasks of all workers are in one store, to the last slot: what one worker has admitted another one completes.
func TestTasksOfWorkers(t *testing.T) {
	d := startTasks(t, 3)
	first, second := d.admit(0, "c", ""), d.admit(1, "c", `,"idempotency_key":"k"`)
	if first == "" || second == "" || d.admit(2, "c", "") != "" {
		t.Fatal("c does not take two tasks")
	}
	if again := d.admit(2, "c", `,"idempotency_key":"k"`); again != second {
		t.Errorf("the same key gives %s, want %s", again, second)
	}
	if r := d.answer(2, "/heartbeat", taskBody(first)); r["ok"] != true {
		t.Errorf("heartbeat: %v", r)
	}
	for range 2 {
		if r := d.answer(1, "/complete", taskBody(first)); r["ok"] != true {
			t.Errorf("complete: %v", r)
		}
	}
	third := d.admit(2, "c", "")
	if third == "" || third == first || third == second {
		t.Errorf("the slot was not given back, or the id is not new: %s", third)
	}
	d.wantAnswer("nothing", d.call(0, "/complete", taskBody(fakeTaskText)), 404, `{"error":"Task not found"}`)
	for _, id := range []string{second, third} {
		d.answer(0, "/complete", taskBody(id))
	}
	d.advance(time.Second)
	if n := d.inBudget("c"); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// A task that is not renewed is abandoned, and its slot free, within the TTL and a second, and a late complete is told
// so. One that is renewed lives on, also when the worker that has admitted it is lost.
func TestTasksAreAbandoned(t *testing.T) {
	d := startTasks(t, 2)
	lost, kept := d.admit(0, "c", ""), d.admit(0, "c", "")
	d.workers[0].lose()
	for range 5 {
		d.advance(10 * time.Second)
		if r := d.answer(1, "/heartbeat", taskBody(kept)); r["ok"] != true {
			t.Fatalf("heartbeat: %v", r)
		}
		if d.now-time.Hour > 32*time.Second {
			break
		}
	}
	if n := d.inBudget("c"); n != 1 {
		t.Errorf("%d in flight after 31 s, want the one that is renewed", n)
	}
	d.wantAnswer("late", d.call(1, "/complete", taskBody(lost)), 200, `{"ok":false,"reason":"abandoned"}`)
	d.wantAnswer("late", d.call(1, "/heartbeat", taskBody(lost)), 200, `{"ok":false,"reason":"not_found"}`)
	if d.admit(1, "c", "") == "" {
		t.Error("the slot is not free")
	}
	if r := d.answer(0, "/complete", taskBody(kept)); r["ok"] != true {
		t.Errorf("complete: %v", r)
	}
	d.advance(2 * time.Minute)
	d.wantAnswer("long ago", d.call(1, "/complete", taskBody(lost)), 404, `{"error":"Task not found"}`)
	if n := d.inBudget("c"); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// Tokens are charged by the estimate, corrected by the truth, and given back by what is abandoned.
func TestTasksAreCharged(t *testing.T) {
	d := startTasks(t, 2)
	big := func(tokens int) map[string]any {
		t.Helper()
		return d.answer(0, "/schedule", fmt.Sprintf(`{"estimated_tokens":%d,"models":["a"]}`, tokens))
	}
	first := big(150_000)["task_id"].(string)
	wait, _ := big(100_000)["wait_for_ms"].(float64)
	if wait < 2500 || wait > 5000 { // 50,000 tokens are missing: 15 s, but nobody is told more than 5 s
		t.Errorf("told to wait %v ms", wait)
	}
	d.answer(1, "/complete", `{"task_id":"`+first+`","actual_tokens":50000}`)
	second, _ := big(100_000)["task_id"].(string)
	if second == "" {
		t.Fatal("what was not used was not given back")
	}
	d.advance(31 * time.Second) // half the bucket is refilled, and the task abandoned
	if big(200_000)["task_id"] == nil {
		t.Error("what the abandoned task was charged was not given back")
	}
}

// Requests that the gateway forwards, on any route, and tasks share a target's slots.
func TestTasksAndRequestsShareBudgets(t *testing.T) {
	d := startTasks(t, 2)
	ids := []string{d.admit(0, "c", ""), d.admit(1, "c", "")}
	for range 30 {
		d.admit(0, "a", "")
		d.admit(1, "b", "")
	}
	c := d.client(0, regionChat)
	if c.Upstream() >= 0 || c.Result().Status != 429 {
		t.Errorf("while tasks have all slots: to %d, answered %d", c.Upstream(), c.Result().Status)
	}
	d.answer(1, "/complete", taskBody(ids[0]))
	served := d.client(1, regionChat)
	if served.Upstream() < 4 || d.inBudget("c") != 2 {
		t.Errorf("not at c, but at %d: %+v", served.Upstream(), served.Result())
	}
	if d.admit(0, "c", "") != "" {
		t.Error("a task beyond the cap")
	}
	served.Finish()
	if d.admit(0, "c", "") == "" {
		t.Error("no task when the request has ended")
	}
}
