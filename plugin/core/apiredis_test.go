package core

import (
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/streamtest"
)

// startRedisTasks returns a process with the API and its tasks in Redis, which takes a while to answer.
func startRedisTasks(t *testing.T, s *redisserver.Server) *fakeDriver {
	t.Helper()
	d := &fakeDriver{fakeProcess: newFakeProcess(t, 2)}
	d.useSites()
	d.attachRedis(t, s).latency = time.Millisecond
	config := apiConfig(`"serviceFQDN":"redis.static","password":"my secret","reserve_timeout":"100ms",`)
	if !d.configure(config) {
		t.Fatalf("refused: %s", config)
	}
	d.advance(time.Second)
	return d
}

// later sends a call and returns it when Redis has answered, or its time is over.
func (d *fakeDriver) later(worker int, name string, body ...string) streamtest.Result {
	d.t.Helper()
	c := d.call(worker, name, body...)
	d.advance(200 * time.Millisecond)
	if c.Held() || !c.Ended {
		d.t.Errorf("%s %s: not answered", name, body)
	}
	return c.Result()
}

// Tasks in Redis are those of all workers. While Redis is lost none is admitted, and what cannot be said is to be said
// again; when it is back, tasks go on.
func TestTasksInRedis(t *testing.T) {
	d := startRedisTasks(t, redisserver.StartT(t, redisserver.Options{}))
	const schedule = `{"estimated_tokens":1000,"models":["c"],"idempotency_key":"`
	admitted := d.later(0, "/schedule", schedule+`a"}`)
	same := d.later(1, "/schedule", schedule+`a"}`)
	if admitted.Status != 200 || len(admitted.Body) < 60 || same.Body != admitted.Body {
		t.Fatalf("answered %+v, the same key %+v", admitted, same)
	}
	id := admitted.Body[len(`{"model_backend_id":"c","task_id":"`):][:len(fakeTaskText)]
	d.later(1, "/schedule", schedule+`b"}`)
	if r := d.later(0, "/schedule", schedule+`c"}`); !strings.HasPrefix(r.Body, `{"wait_for_ms":`) {
		t.Errorf("a task beyond the cap: %s", r.Body)
	}
	if r := d.later(0, "/advice"); r.Status != 200 || !strings.HasPrefix(r.Body, `{"backpressure_score":0.`) {
		t.Errorf("advice: %d %s", r.Status, r.Body)
	}
	d.later(0, "/schedule", `{"estimated_tokens":900000,"models":["a"]}`)
	models := d.later(1, "/models").Body
	for _, want := range []string{
		`"id":"a","state":"over_budget","in_flight":1,"tokens_in_flight":900000,`, `"tokens_left":0,`,
		`"id":"b","state":"open","in_flight":0,`, `"requests_left":60,`, `"id":"c","state":"full","in_flight":2,`,
	} {
		if !strings.Contains(models, want) {
			t.Errorf("models: %s has no %s", models, want)
		}
	}
	for range 2 {
		if r := d.later(1, "/heartbeat", taskBody(id)); r.Body != `{"ok":true}` {
			t.Errorf("heartbeat: %s", r.Body)
		}
	}

	d.redis.fate, d.redis.manual = redisSilent, true
	for i := range 8 { // until the circuit breaker is open, and then
		worker := i % 2
		if r := d.later(worker, "/schedule", schedule+`d"}`); r.Status != 200 || !strings.HasPrefix(r.Body, `{"wait_for_ms":`) {
			t.Errorf("schedule without Redis: %d %s", r.Status, r.Body)
		}
		for _, name := range []string{"/complete", "/heartbeat"} {
			r := d.later(worker, name, taskBody(id))
			if r.Status != 503 || r.Headers["retry-after"] != "1" {
				t.Errorf("%s without Redis: %d %s", name, r.Status, r.Body)
			}
		}
	}
	for _, name := range []string{"/advice", "/models"} {
		if r := d.later(0, name); r.Status != 503 {
			t.Errorf("%s without Redis: %d %s", name, r.Status, r.Body)
		}
	}
	d.redis.fate, d.redis.manual = redisAnswers, false
	d.advance(10 * time.Second)
	for range 2 {
		if r := d.later(1, "/complete", taskBody(id)); r.Status != 200 || r.Body != `{"ok":true}` {
			t.Errorf("complete: %d %s", r.Status, r.Body)
		}
	}
}

// The task of a gateway that has died is completed by another one, or ends with its lease.
func TestTasksOfTwoGateways(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	one, two := startRedisTasks(t, server), startRedisTasks(t, server)
	r := one.later(0, "/schedule", `{"estimated_tokens":1000,"models":["c"]}`)
	id := r.Body[len(`{"model_backend_id":"c","task_id":"`):][:len(fakeTaskText)]
	if r := two.later(0, "/heartbeat", taskBody(id)); r.Body != `{"ok":true}` {
		t.Errorf("heartbeat at another gateway: %d %s", r.Status, r.Body)
	}
	if r := two.later(1, "/complete", taskBody(id)); r.Body != `{"ok":true}` {
		t.Errorf("complete at another gateway: %d %s", r.Status, r.Body)
	}
	if r := one.later(0, "/complete", taskBody(id)); r.Body != `{"ok":true}` {
		t.Errorf("complete again: %d %s", r.Status, r.Body)
	}
}

// A target that has closed itself is asked at once when it is added again with its store in Redis, too.
func TestTargetsInRedisThatAreAddedAgain(t *testing.T) {
	d := startRedisTasks(t, redisserver.StartT(t, redisserver.Options{}))
	const schedule = `{"estimated_tokens":1,"models":["a"]}`
	admitted := d.later(0, "/schedule", schedule).Body
	id := strings.TrimPrefix(admitted, `{"model_backend_id":"a","task_id":"`)[:len(fakeTaskText)]
	d.later(1, "/complete", `{"task_id":"`+id+`","status":429,"retry_after":3600}`)
	if r := d.later(0, "/schedule", schedule); !strings.HasPrefix(r.Body, `{"wait_for_ms":`) {
		t.Fatalf("closed: %s", r.Body)
	}
	text := d.running
	d.configure(`{"lb_policy":"global_least_request"}`)
	d.configure(text)
	d.advance(time.Second)
	if r := d.later(0, "/schedule", schedule); !strings.Contains(r.Body, "task_id") {
		t.Errorf("added again: %s", r.Body)
	}
}
