package core

import (
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
)

// A request with `Prefer: if-available` is answered where its prompt is cached and there is room, else with 412 at
// once: it does not wait, and what was refused is not taken for cached.
func TestPreferIfAvailable(t *testing.T) {
	text := `{"lb_policy":"prefix_cache","lb_config":{"debug_headers":true,"max_inflight":1,` +
		`"health":{"slow_start":0},"queue":{"max_wait":"10s"},"prefix":{"if_available_tokens":100}}}`
	prompt := func(word, prefer string) streamtest.Request {
		r := streamtest.Request{Frames: []string{
			`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat(word+" ", 1000) + `"}]}`,
		}}
		if prefer != "" {
			r.Headers = [][2]string{{"prefer", "wait=10"}, {"prefer", prefer}}
		}
		return r
	}
	d := startFake(t, 2, 3, text)
	d.advance(time.Second)
	refused := func(why string, r streamtest.Request) {
		t.Helper()
		c := d.client(0, r)
		if a := c.Result(); !c.Ended || a.Status != 412 || a.Headers["x-warmgate-reason"] != "not_cached" {
			t.Errorf("%s: at endpoint %d, ended %t: %+v", why, c.Upstream(), c.Ended, a)
		}
	}
	refused("not cached", prompt("cold", "if-available"))
	refused("still not cached", prompt("cold", "if-available"))
	first := d.client(1, prompt("cold", ""))
	at := first.Upstream()
	first.Finish()
	d.advance(time.Second)
	again := d.client(0, prompt("cold", "respond-async, If-Available;a=b"))
	if again.Upstream() != at {
		t.Fatalf("cached at %d, sent to %d: %+v", at, again.Upstream(), again.Result())
	}
	refused("cached where there is no room", prompt("cold", "if-available"))
	if c := d.client(0, prompt("warm", "handling=lenient")); c.Upstream() < 0 {
		t.Errorf("another preference: %+v", c.Result())
	} else {
		c.Finish()
	}
	short := streamtest.Request{Headers: [][2]string{{"prefer", "if-available"}}, Frames: []string{
		`{"model":"m","messages":[{"role":"user","content":"hi"}]}`,
	}}
	if c := d.client(0, short); c.Upstream() < 0 {
		t.Errorf("a short prompt: %+v", c.Result())
	} else {
		c.Finish()
	}
	broken := prompt("x", "if-available")
	for _, n := range []int{500, 20} {
		broken.Frames[0] = broken.Frames[0][:n]
		refused("a prompt that cannot be read", broken)
	}
	again.Finish()
	d.drained()
}

// Where it is not configured, or says nothing, the preference changes nothing.
func TestPreferIsNotRead(t *testing.T) {
	for _, text := range []string{
		`{"lb_policy":"prefix_cache","lb_config":{"prefix":{"if_available_tokens":0}}}`,
		`{"lb_policy":"prefix_cache","lb_config":{"shadow":true,"prefix":{"if_available_tokens":1}}}`,
		`{"lb_policy":"global_least_request","lb_config":{"unit":"tokens","prefix":{"if_available_tokens":1}}}`,
	} {
		d := startFake(t, 1, 1, text)
		d.advance(time.Second)
		r := ofSession("", 1)
		r.Headers = [][2]string{{"prefer", "if-available"}}
		if c := d.client(0, r); c.Ended {
			t.Errorf("%s: %+v", text, c.Result())
		} else {
			c.Finish()
		}
		d.drained()
	}
}
