package streamtest

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// viewScenarios are about what is visible of decisions.
var viewScenarios = []scenario{
	{name: "debug headers", endpoints: 2, run: func(t *run) {
		streams := t.chats(4)
		t.finish(streams...)
		for i, s := range streams {
			h := s.Result().Headers
			host, load := t.Addr(s.Upstream()), fmt.Sprint(i/2+1)
			if h["x-warmgate-host"] != host || h["x-warmgate-load"] != load || h["x-warmgate-reason"] != "chosen" {
				t.Errorf("request %d: headers %v; want host %s, load %s, reason chosen", i, h, host, load)
			}
		}
	}},
	{name: "no debug headers", endpoints: 2, run: func(t *run) {
		config := t.config("")
		t.push(`{"lb_policy":"global_least_request","lb_config":{"debug_headers":false` + config[len(
			`{"lb_type":"endpoint","lb_policy":"global_least_request","lb_config":{"debug_headers":true`):])
		s := t.chats(1)[0]
		t.finish(s)
		for name, value := range s.Result().Headers {
			if len(name) >= 10 && name[:10] == "x-warmgate" {
				t.Errorf("the client got the header %s: %s", name, value)
			}
		}
	}},
	{name: "access log", endpoints: 1, config: `"max_inflight":1`, run: func(t *run) {
		s := t.chats(1)
		t.Open(chat()).Result()
		t.finish(s...)
		for _, want := range []string{"host=" + t.Addr(0) + " reason=chosen load=1", "host=- reason=at_capacity"} {
			isIt := func(line string) bool { return strings.HasPrefix(line, want+" policy=global_least_request") }
			if !t.Await(func() bool { return slices.ContainsFunc(t.AccessLog(), isIt) }) {
				t.Errorf("access log %q, want %q in it", t.AccessLog(), want)
			}
		}
	}},
	{name: "gauges", endpoints: 2, config: guessed, run: func(t *run) {
		gauge := func(name string, i int) string {
			return name + ";cluster=" + t.Names().Cluster + ";endpoint=" + t.Addr(i)
		}
		s := t.Open(Request{Frames: []string{completion(400, 0)}})
		at := s.Upstream()
		t.Advance(1100 * time.Millisecond)
		t.wantGauge(gauge("warmgate_inflight_requests", at), 1)
		t.wantGauge(gauge("warmgate_inflight_tokens", at), 200)
		t.wantGauge(gauge("warmgate_inflight_requests", 1-at), 0)
		owners := func() uint64 { return t.Gauge("warmgate_owners") }
		if !t.Await(func() bool { return owners() >= 1 && owners() <= uint64(t.Workers()) }) {
			t.Errorf("warmgate_owners is %d with %d workers", owners(), t.Workers())
		}
		t.finish(s)
		t.Advance(1100 * time.Millisecond)
		t.wantGauge(gauge("warmgate_inflight_requests", at), 0)
		t.wantGauge(gauge("warmgate_inflight_tokens", at), 0)
	}},
	{name: "the leases of a lost VM return", endpoints: 2, needs: []Ability{
		LostVM, PickWorker, SimulatedTime,
	}, run: func(t *run) {
		t.mark("warmgate_owners_returned_total")
		lost := t.chats(8)
		t.wantLoads(4, 4)
		t.Lose(1)
		t.wantLoads(4, 4)
		t.Advance(7 * time.Second)
		kept := make([]int64, 2)
		for i := 0; i < len(lost); i += 2 {
			kept[lost[i].Upstream()]++
		}
		t.wantLoads(kept...)
		t.wantGrown("warmgate_owners_returned_total", 1)
		for i := 0; i < len(lost); i += 2 {
			t.finish(lost[i])
		}
		t.wantDrained()
		t.finish(t.chats(4)...)
		t.wantDrained()
	}},
}
