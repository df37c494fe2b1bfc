package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/streamtest"
)

// A call for what a full endpoint keeps is refused: no other endpoint could serve it.
func TestFullHolder(t *testing.T) {
	d := startFake(t, 2, 3, `{"lb_policy":"global_least_request","lb_config":{"debug_headers":true,"max_inflight":1,`+
		`"health":{"slow_start":0}}}`)
	create := streamtest.Request{Path: "/v1/responses", Frames: []string{`{"input":"a"}`}}
	refer := streamtest.Request{Path: "/v1/responses", Frames: []string{`{"previous_response_id":"resp_1"}`}}
	c := d.client(0, create.Filled())
	holder := c.Upstream()
	c.Head(200)
	c.Data(`{"id":"resp_1"}`)
	c.Finish()
	first := d.client(1, refer.Filled())
	if first.Upstream() != holder {
		t.Errorf("a call for what endpoint %d keeps is sent to endpoint %d", holder, first.Upstream())
	}
	second := d.client(0, refer.Filled())
	if at := second.Upstream(); at >= 0 || second.Result().Headers["x-warmgate-reason"] != "at_capacity" {
		t.Errorf("while that is full, one is sent to endpoint %d: %v", at, second.Result().Headers)
	}
	poll := d.client(1, streamtest.Request{Path: "/v1/responses/resp_1"}.Filled())
	if poll.Upstream() != holder {
		t.Errorf("a poll meets the cap: endpoint %d", poll.Upstream())
	}
	poll.Finish()
	first.Finish()
	d.drained()
}

// What is kept for one tenant is not found for another, and answers of no other kind are read for ids.
func TestHeldByTenant(t *testing.T) {
	d := startFake(t, 1, 4, `{"lb_policy":"prefix_cache","lb_config":{"debug_headers":true,`+
		`"prefix":{"tenant_header":"x-tenant"},"health":{"slow_start":0}}}`)
	of := func(tenant, path string, frames ...string) streamtest.Request {
		return streamtest.Request{Path: path, Frames: frames, Headers: [][2]string{{"x-tenant", tenant}}}.Filled()
	}
	create := func(path, id string) {
		c := d.client(0, of("a", path, `{"input":"`+id+`"}`))
		c.Head(200)
		c.Data(`{"id":"` + id + `"}`)
		c.Finish()
	}
	reason := func(tenant, id string) string {
		c := d.client(0, of(tenant, "/v1/responses/"+id))
		c.Finish()
		return c.Result().Headers["x-warmgate-reason"]
	}
	create("/v1/responses", "resp_1")
	create("/v1/chat/completions", "chatcmpl_2")
	if got := reason("a", "resp_1"); got != "chosen" {
		t.Errorf("the tenant's own: %s", got)
	}
	if got := reason("b", "resp_1"); got != "state_lost" {
		t.Errorf("another tenant's: %s", got)
	}
	if got := reason("a", "chatcmpl_2"); got != "state_lost" {
		t.Errorf("an answer that no engine keeps: %s", got)
	}
	d.drained()
}

// Where another rule places what refers to something, the reason tells whether an endpoint has that.
func TestReasonsOfHeldBesideOtherRules(t *testing.T) {
	for _, config := range []string{
		`{"lb_policy":"token_budget","lb_config":{"debug_headers":true,"health":{"slow_start":0},"targets":{` +
			`"10.0.0.1:8000":{"weight":1},"10.0.0.2:8000":{"weight":1},"10.0.0.3:8000":{"weight":1}}}}`,
		`{"lb_policy":"consistent_hash","lb_config":{"debug_headers":true,"health":{"slow_start":0}}}`,
	} {
		d := startFake(t, 1, 3, config)
		post := func(body string) *fakeStream {
			return d.client(0, streamtest.Request{Path: "/v1/responses", Frames: []string{`{"user":"u",` + body}})
		}
		c := post(`"input":"a"}`)
		holder := c.Upstream()
		c.Head(200)
		c.Data(`{"id":"resp_1"}`)
		c.Finish()
		want := func(when, id, reason string) {
			t.Helper()
			c := post(`"input":"b","previous_response_id":"` + id + `"}`)
			c.Head(404)
			c.Finish()
			if got := c.Result().Headers["x-warmgate-reason"]; got != reason {
				t.Errorf("%s: reason %q, want %q: %s", when, got, reason, config)
			}
		}
		want("it is not known", "resp_2", "state_lost")
		list := make([]streamtest.Endpoint, 3)
		list[holder].State = streamtest.Unhealthy
		d.SetEndpoints(list)
		want("its endpoint is gone", "resp_1", "state_lost")
		d.SetEndpoints(make([]streamtest.Endpoint, 3))
		want("its endpoint is back", "resp_1", "chosen")
		d.drained()
	}
}

// What the answer that passed one gateway has named is known to another one with the same Redis, however busy its
// endpoint is.
func TestHeldIsKnownToOtherGateways(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	for _, policy := range []string{"global_least_request", "prefix_cache"} {
		config := strings.Replace(redisConfig(""), "global_least_request", policy, 1)
		a, b := startGateways(t, server, 4, config)
		for n := range 8 {
			id := fmt.Sprint("resp_", policy, n)
			c := a.client(0, streamtest.Request{Path: "/v1/responses", Frames: []string{`{"input":"a"}`}})
			c.Head(200)
			c.Data(`{"id":"` + id + `"}`)
			a.advance(100 * time.Millisecond) // the record is on its way to Redis
			for _, r := range []streamtest.Request{
				{Path: "/v1/responses", Frames: []string{`{"input":"b","previous_response_id":"` + id + `"}`}},
				{Path: "/v1/responses/" + id},
				{Path: "/v1/responses/" + id + "/cancel", Method: "POST"},
			} {
				f := b.client(0, r)
				f.Finish()
				at, reason := f.Upstream(), f.Result().Headers["x-warmgate-reason"]
				if at != c.Upstream() || reason != "chosen" {
					t.Errorf("%s: %s went to endpoint %d, not %d: %s", policy, r.Path, at, c.Upstream(), reason)
				}
			}
			c.Finish()
		}
		a.drained()
		b.drained()
	}
}

// What refers to something that an engine keeps goes there, whatever stands in front of its id in the answer that made
// it, and wherever it is in a request.
func TestReferencesGoToTheHolder(t *testing.T) {
	const created = "event: response.created\ndata: {\"response\":{\"id\":\"resp_1\"}}\n\n"
	for name, x := range map[string]struct{ path, answer, refer string }{
		"an event in front": {
			"/v1/responses", "event: ping\ndata: {\"type\":\"ping\"}\n\n" + created, `{"previous_response_id":"resp_1"}`,
		},
		"a part of an answer": {
			"/v1/responses", created + "data: {\"item\":{\"id\":\"msg_2\"}}\n\n",
			`{"input":[{"type":"item_reference","id":"msg_2"},{"role":"user","content":"b"}]}`,
		},
		"a file": {
			"/v1/files", `{"id":"file-3"}`,
			`{"input":[{"role":"user","content":[{"type":"input_file","file_id":"file-3"}]}]}`,
		},
		"a store": {
			"/v1/vector_stores", `{"id":"vs_4"}`,
			`{"input":"b","tools":[{"type":"file_search","vector_store_ids":["vs_4"]}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := startFake(t, 2, 4, `{"lb_policy":"global_least_request","lb_config":{"health":{"slow_start":0}}}`)
			c := d.client(0, streamtest.Request{Path: x.path, Frames: []string{`{"input":"a"}`}}.Filled())
			holder := c.Upstream()
			c.Head(200)
			for part := range strings.Lines(x.answer) {
				c.Data(part)
			}
			c.Finish()
			elsewhere := 0
			for n := range 40 {
				c := d.client(n%2, streamtest.Request{Path: "/v1/responses", Frames: []string{x.refer}}.Filled())
				if c.Upstream() != holder {
					elsewhere++
				}
			}
			if elsewhere > 0 {
				t.Errorf("%d of 40 that refer to it are sent elsewhere", elsewhere)
			}
		})
	}
}
