package admission

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/redisserver"
)

// startTwo returns two gateways that share a Redis.
func startTwo(t *testing.T, config string) (one, two *gateway, redis *redisserver.Server) {
	t.Helper()
	redis = redisserver.StartT(t, redisserver.Options{})
	o := harness.Options{
		Redis: redis.Addr(),
		Config: strings.Replace(config, `"debug_headers":true`,
			`"debug_headers":true,"reserve_timeout":"10s","envoy":{"redis_cluster":"warmgate-redis"}`, 1),
	}
	return startWith(t, o), startWith(t, o), redis
}

// fill schedules tasks until none is admitted, and returns their ids.
func (g *gateway) fill() (ids []string) {
	g.Helper()
	for !g.Failed() {
		_, id := g.schedule("")
		if id == "" {
			break
		}
		ids = append(ids, id)
	}
	return ids
}

// Callers of two gateways, who tell the other one of what becomes of their tasks, never have more of them than the
// targets take. Either gateway shows the same.
func TestCapsOverGateways(t *testing.T) {
	one, two, _ := startTwo(t, plugin)
	work(t, one, two)
	for _, g := range []*gateway{one, two} {
		_, models := g.call("/models", "")
		if text := fmt.Sprint(models); strings.Count(text, "in_flight:0") != 4 ||
			strings.Contains(text, "tokens_left:1e+06") {
			t.Errorf("when all is done: %s", text)
		}
	}
	held := one.fill()
	if len(held) != 6 {
		t.Errorf("%d tasks at once, want 6", len(held))
	}
	if _, id := two.schedule(""); id != "" {
		t.Error("one more at the other gateway")
	}
	if _, models := two.call("/models", ""); strings.Count(fmt.Sprint(models), "state:full") != 2 {
		t.Errorf("with all slots taken: %v", models)
	}
}

// Tasks outlive the gateway that has admitted them: they are renewed and completed at another one, and those that
// nobody renews are given back in time.
func TestAGatewayDies(t *testing.T) {
	one, two, _ := startTwo(t, expiring)
	tasks := one.fill()
	if len(tasks) != 6 {
		t.Fatalf("%d tasks, want 6", len(tasks))
	}
	two.schedule("") // a gateway looks after the scopes that it uses
	began := time.Now()
	if err := syscall.Kill(one.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	abandoned, kept := tasks[:2], tasks[2:]
	var back time.Duration
	for back == 0 && time.Since(began) < harness.Patience {
		for _, id := range kept {
			if !two.ok("/heartbeat", id) {
				t.Fatal("a task that is renewed is not found")
			}
		}
		if _, id := two.schedule(""); id != "" {
			back = time.Since(began)
			tasks = append(tasks, id)
		}
		time.Sleep(ttl / 20)
	}
	if back == 0 {
		t.Fatal("the slots of tasks without heartbeats are not given back")
	}
	t.Logf("the slots of tasks without heartbeats are given back after %v, the TTL is %v", back, ttl)
	for _, id := range abandoned {
		status, answer := two.call("/complete", `{"task_id":"`+id+`"}`)
		if status != 200 || answer["reason"] != "abandoned" {
			t.Errorf("a late complete: %d %v", status, answer)
		}
	}
	for _, id := range tasks[2:] {
		for range 2 {
			if !two.ok("/complete", id) {
				t.Error("a task that lives cannot be completed")
			}
		}
	}
}

// Without Redis nothing is admitted, what can be repeated is to be repeated, and no call is forwarded. When it is back,
// so is the API.
func TestRedisIsLost(t *testing.T) {
	one, two, redis := startTwo(t, plugin)
	_, id := one.schedule("")
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for _, g := range []*gateway{one, two} {
			status, answer := g.call("/schedule", `{"estimated_tokens":1000}`)
			if ms, _ := answer["wait_for_ms"].(float64); status != 200 || ms < 900 || ms > 1100 {
				t.Errorf("schedule: %d %v", status, answer)
			}
			task := `{"task_id":"` + id + `"}`
			for _, c := range [][2]string{{"/complete", task}, {"/heartbeat", task}, {"/models", ""}, {"/advice", ""}} {
				if status, answer := g.call(c[0], c[1]); status != 503 || answer["error"] == nil {
					t.Errorf("%s: %d %v", c[0], status, answer)
				}
			}
		}
	}
	if err := redis.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, g := range []*gateway{one, two} {
		var id string
		harness.Await(t, func() error {
			if _, id = g.schedule(""); id == "" {
				return fmt.Errorf("no task is admitted")
			}
			return nil
		})
		harness.Await(t, func() error { // each worker finds out by itself that Redis is back, and says 503 before
			status, answer := g.call("/complete", `{"task_id":"`+id+`"}`)
			if status != 503 && (status != 200 || answer["ok"] != true) {
				t.Fatalf("a task that lives cannot be completed: %d %v", status, answer)
			}
			if status == 503 {
				return fmt.Errorf("complete: %v", answer)
			}
			return nil
		})
	}
	for _, g := range []*gateway{one, two} {
		if n := g.SumT(t, `^cluster\.llm\.upstream_rq_total$`); n != 0 {
			t.Errorf("%v requests are forwarded", n)
		}
	}
}
