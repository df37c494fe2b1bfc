package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
)

// targetRequest is one with a prompt of its own, whose header wants tokens within so many ms.
func targetRequest(prompt int, ms string) streamtest.Request {
	const body = `{"model":"m","stream":true,"messages":[{"role":"user","content":"%d %s"}]}`
	r := streamtest.Request{Frames: []string{fmt.Sprintf(body, prompt, strings.Repeat("a word ", 200))}}
	if ms != "" {
		r.Headers = [][2]string{{"x-slo-tpot-ms", ms}}
	}
	return r.Filled()
}

// When a target has a part in the choice, that is said: with the answer, in the access log, and with the explanation,
// which also says whether another endpoint would be chosen without.
func TestTargetsAreExplained(t *testing.T) {
	d := startFake(t, 1, 2, `{"lb_policy":"prefix_cache","lb_config":{"slo":{"tpot":"1m"},"debug_headers":true}}`)
	play := func(prompt int, ms string) *fakeStream {
		c := d.client(0, targetRequest(prompt, ms))
		each := 95 * time.Millisecond
		if c.Upstream() == 1 {
			each = 108 * time.Millisecond
		}
		c.Head(200, [2]string{"content-type", "text/event-stream"})
		for range 20 {
			d.advance(each)
			c.Data("data: {\"choices\":[{\"text\":\"a\"}]}\n\n")
		}
		c.Data("data: {\"usage\":{\"prompt_tokens\":99,\"completion_tokens\":20}}\n\n")
		c.Data("data: [DONE]\n\n")
		c.Finish()
		return c
	}
	for i := range 40 {
		if got := play(i, "").Result().Headers["x-warmgate-target"]; got != "" {
			t.Fatalf("an answer that is in time everywhere is %s", got)
		}
	}
	effects := map[string]int{}
	for i := range 20 {
		e := d.explain(0, targetRequest(100+i, "104"))
		got := e.Decisions[0].Plan.Target
		if got == nil || got.PerTokenUS < 95e3 || got.PerTokenUS > 104e3 ||
			(got.Effect == "decided") != (got.Without == "10.0.0.2:8000") {
			t.Fatalf("%+v", got)
		}
		for _, c := range e.Decisions[0].Candidates {
			if c.Addr == "10.0.0.2:8000" && !(c.Capacity > 0 && c.Capacity < 1 && c.Over > 0) {
				t.Fatalf("one that is always late: %+v", c)
			}
		}
		effects[got.Effect]++
	}
	if effects["decided"] < 3 || effects["weighed"] < 3 || effects["none"] > 0 {
		t.Errorf("effects %v", effects)
	}
	if got := d.explain(0, targetRequest(200, "")).Decisions[0].Plan.Target; got == nil || got.Effect != "none" {
		t.Errorf("one that all meet: %+v", got)
	}
	before := len(d.access)
	if got := play(300, "104").Result().Headers["x-warmgate-target"]; got != "in_time" {
		t.Errorf("the header is %q", got)
	}
	if lines := strings.Join(d.access[before:], "\n"); !strings.Contains(lines, " target=in_time ") {
		t.Errorf("the log has %s", lines)
	}
	d.drained()
}
