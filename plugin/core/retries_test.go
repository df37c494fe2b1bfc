package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/clusters"
)

// Of a crowd that tries again only a part gets in, until the cluster is not overloaded any more.
func TestRetryStorm(t *testing.T) {
	retry := func(i int) streamtest.Request {
		return streamtest.Request{Headers: [][2]string{{"x-request-id", fmt.Sprint(i)}}}
	}
	d, busy := startQueue(t, 1, 1, queueConfig(`"max_length":10`))
	var waiting []*fakeStream
	for i := range 30 {
		c := d.client(0, retry(i))
		if i < 10 {
			waiting = append(waiting, c)
			continue
		}
		c.wantRefused(t, "max_queue_size_exceeded")
	}
	d.wantWaiting(waiting...)
	for i := 10; i < 30; i++ {
		want := "retry_budget_exceeded"
		if i < 10+clusters.FreeRetries {
			want = "max_queue_size_exceeded"
		}
		d.client(0, retry(i)).wantRefused(t, want)
	}
	for _, c := range []struct{ header, value, code string }{
		{"x-envoy-attempt-count", "2", "retry_budget_exceeded"},
		{"x-envoy-attempt-count", "1", "max_queue_size_exceeded"},
		{"x-stainless-retry-count", "1", "retry_budget_exceeded"},
		{"x-stainless-retry-count", "0", "max_queue_size_exceeded"},
	} {
		d.client(0, streamtest.Request{Headers: [][2]string{{c.header, c.value}}}).wantRefused(t, c.code)
	}
	d.client(0, retry(3)).wantRefused(t, "max_queue_size_exceeded") // the first with this id waits
	for _, c := range append(waiting, busy...) {
		c.ResetByClient()
	}
	d.advance(clusters.RetrySeconds * time.Second)
	for i := range 30 {
		if c := d.client(0, retry(i)); c.Upstream() != 0 {
			t.Fatalf("retry %d: %+v", i, c.Result())
		} else {
			c.Finish()
		}
	}
	d.drained()
	d.wantNoneWaits()
}

// Retries that are refused do not keep a cluster overloaded.
func TestRefusedRetriesKeepNoBudget(t *testing.T) {
	d, busy := startQueue(t, 1, 1, queueConfig(`"max_length":1`))
	retry := streamtest.Request{Headers: [][2]string{{"x-envoy-attempt-count", "2"}}}
	waiting := d.client(0, streamtest.Request{})
	d.client(0, streamtest.Request{}).wantRefused(t, "max_queue_size_exceeded")
	waiting.ResetByClient()
	busy[0].Finish()
	refused := 0
	for range 4 * clusters.RetrySeconds {
		d.advance(time.Second / 4)
		c := d.client(0, retry)
		if c.Upstream() == 0 {
			c.Finish()
			continue
		}
		c.wantRefused(t, "retry_budget_exceeded")
		refused++
	}
	if want := 4*clusters.RetrySeconds - clusters.FreeRetries - 1; refused != want {
		t.Errorf("%d retries were refused within %d s after the last other refusal, want %d", refused,
			clusters.RetrySeconds, want)
	}
	for range 2 * clusters.FreeRetries {
		c := d.client(0, retry)
		if c.Upstream() != 0 {
			t.Fatalf("a retry on an idle cluster: %+v", c.Result())
		}
		c.Finish()
	}
	d.drained()
	d.wantNoneWaits()
}

// Nothing is refused in shadow mode, so the cluster is not overloaded for others by it.
func TestShadowKeepsNoBudget(t *testing.T) {
	d := startFake(t, 1, 1, `{"lb_policy":"global_least_request","lb_config":{"shadow":true,"max_inflight":1}}`)
	d.advance(time.Second)
	for range 3 {
		if c := d.client(0, streamtest.Request{}); c.Result().Status == 429 {
			t.Fatalf("refused: %+v", c.Result())
		}
	}
	for _, cl := range d.workers[0].vm.Clusters {
		if cl.Overloaded(d.now) {
			t.Error("the cluster counts as overloaded")
		}
	}
}

// crowdOf is clients of a queue in a closed loop: each thinks, sends, and thinks again once it is served or refused.
type crowdOf struct {
	*fakeDriver
	body   func(client, number int) string
	id     func(client, number int) string
	served []int // by client
}

func (c *crowdOf) think(client, number int) {
	c.after(time.Duration(c.rand.Int64N(int64(300*time.Millisecond))), func() { c.send(client, number) })
}

func (c *crowdOf) send(client, number int) {
	r := streamtest.Request{
		Headers: [][2]string{{"x-request-id", c.id(client, number)}}, Frames: []string{c.body(client, number)},
	}
	s := c.client(client%len(c.workers), r)
	var wait func()
	wait = func() {
		switch {
		case s.Ended:
			c.think(client, number+1)
		case s.Upstream() >= 0:
			c.after(400*time.Millisecond, func() {
				c.served[client]++
				s.Finish()
				c.think(client, number+1)
			})
		default:
			c.after(10*time.Millisecond, wait)
		}
	}
	wait()
}

// Clients that give one id to all of their requests are served like others, whether or not their bodies are read.
func TestOneIDForManyRequests(t *testing.T) {
	const queue = `"health":{"slow_start":0},"max_inflight":2,"queue":{"max_wait":"1s","max_length":4}}}`
	for name, config := range map[string]string{
		"no body is read":   `{"lb_policy":"global_least_request","lb_config":{` + queue,
		"the length counts": `{"lb_policy":"global_least_request","lb_config":{"unit":"tokens",` + queue,
		"the prompt counts": `{"lb_policy":"prefix_cache","lb_config":{` + queue,
	} {
		const each = 10
		c := &crowdOf{fakeDriver: startFake(t, 2, 2, config), served: make([]int, 2*each)}
		c.body = func(client, number int) string {
			return fmt.Sprintf(`{"model":"m","prompt":"%02d %06d %s"}`, client, number, strings.Repeat("words ", 40))
		}
		c.id = func(client, number int) string {
			if client < each {
				return "trace-of-the-batch-job"
			}
			return fmt.Sprint(client, "-", number)
		}
		c.advance(time.Second)
		for client := range c.served {
			c.think(client, 0)
		}
		c.advance(15 * time.Second)
		one, own := 0, 0
		for client, n := range c.served {
			if client < each {
				one += n
			} else {
				own += n
			}
		}
		if t.Logf("%s: %d with one id, %d with their own", name, one, own); 10*one < 7*own || 10*own < 7*one {
			t.Errorf("%s: %d requests with one id were served, %d with ids of their own", name, one, own)
		}
	}
}

// A retry is known by its id and its body, and where the body is not read, by its id unless several requests have that
// at a time.
func TestRetriesAreKnownByTheirBodies(t *testing.T) {
	for _, c := range map[string]struct {
		policy       string
		again, other string // what the same client, and another one with its id, send
		want         string // for the other one
	}{
		"requests":                    {"global_least_request", "aaaa", "bbbbb", "max_queue_size_exceeded"},
		"requests of the same length": {"global_least_request", "aaaa", "bbbb", "retry_budget_exceeded"},
		"prompts":                     {"prefix_cache", "aaaa", "bbbb", "max_queue_size_exceeded"},
	} {
		d, _ := startQueue(t, 1, 1, strings.Replace(queueConfig(`"max_length":1,"retry_budget":0`),
			"global_least_request", c.policy, 1))
		d.client(0, streamtest.Request{})
		send := func(text string) *fakeStream {
			body := `{"model":"m","prompt":"` + strings.Repeat(text, 300) + `"}`
			return d.client(0, streamtest.Request{
				Headers: [][2]string{{"x-request-id", "7"}, {"content-length", fmt.Sprint(len(body))}},
				Frames:  []string{body},
			})
		}
		for range clusters.FreeRetries + 1 {
			d.client(0, streamtest.Request{Headers: [][2]string{{"x-envoy-attempt-count", "2"}}})
		}
		send("aaaa").wantRefused(t, "max_queue_size_exceeded")
		send(c.again).wantRefused(t, "retry_budget_exceeded")
		send(c.other).wantRefused(t, c.want)
	}
}
