package streamtest

import "strings"

// nativeScenarios are those in which the gateway's own balancing decides.
var nativeScenarios = []scenario{
	{name: "disabled", endpoints: 2, run: func(t *run) {
		t.push(strings.Replace(t.config(""), "{", `{"enabled":false,`, 1))
		wantNative(t, "disabled")
	}},
	{name: "disabled without more", endpoints: 2, run: func(t *run) {
		t.push(`{"enabled":false}`)
		name := decisionsOf("none", "disabled")
		t.mark(name)
		t.finish(t.chats(2)...)
		t.wantGrown(name, 2)
	}},
	{name: "no rule", endpoints: 2, run: func(t *run) {
		t.push(t.rules(rule{match: another}))
		name := decisionsOf("none", "no_rule")
		t.mark(name)
		t.finish(t.chats(2)...)
		t.wantGrown(name, 2)
		t.wantDrained()
	}},
	{name: "shadow", endpoints: 3, config: `"shadow":true`, run: func(t *run) {
		t.mark(decisions("shadow"), "warmgate_lease_moves_total")
		streams := t.chats(6)
		want := make([]int64, t.size)
		for _, s := range streams {
			s.Head(200)
			want[s.Upstream()]++
		}
		t.wantLoads(want...)
		t.finish(streams...)
		streams[0].wantReason("shadow")
		t.wantDrained()
		t.wantGrown(decisions("shadow"), 6)
		t.wantGrown("warmgate_lease_moves_total", 0)
	}},
	{name: "shadow does not shed", endpoints: 1, config: `"shadow":true,"max_inflight":1`, run: func(t *run) {
		t.mark(decisions("shadow"))
		t.finish(t.chats(3)...)
		t.wantDrained()
		t.wantGrown(decisions("shadow"), 3)
	}},
	{name: "no endpoints", run: func(t *run) {
		t.mark(decisions("no_endpoints"))
		s := t.Open(chat())
		if r := s.Result(); r.Status != 503 {
			t.Errorf("answered %d, want the gateway's own 503", r.Status)
		}
		s.wantReason("no_endpoints")
		t.wantGrown(decisions("no_endpoints"), 1)
	}},
	{name: "no healthy endpoint", list: []Endpoint{{State: Unhealthy}, {State: Unhealthy}}, run: func(t *run) {
		t.mark(decisions("no_healthy_endpoint"))
		s := t.Open(chat())
		if s.Upstream() >= 0 { // by the gateway's own panic mode
			s.Finish()
		}
		s.wantReason("no_healthy_endpoint")
		t.wantGrown(decisions("no_healthy_endpoint"), 1)
		t.wantDrained()
	}},
	{name: "panic threshold", list: []Endpoint{{}, {State: Unhealthy}, {State: Unhealthy}}, run: func(t *run) {
		wantNative(t, "panic_threshold")
	}},
	{
		name: "no panic threshold", list: []Endpoint{{}, {State: Unhealthy}, {State: Unhealthy}},
		config: `"health":{"slow_start":0,"panic_threshold":0}`, run: func(t *run) {
			t.mark(decisions("chosen"))
			t.finish(t.chats(3)...)
			t.wantGrown(decisions("chosen"), 3)
		},
	},
}

// wantNative sends requests and fails the test unless they fall back to native balancing for that reason, uncounted.
func wantNative(t *run, reason string) {
	t.Helper()
	t.mark(decisions(reason))
	streams := t.chats(3)
	t.wantLoads(make([]int64, t.size)...)
	for _, s := range streams {
		t.finish(s)
		s.wantReason(reason)
		if host, ok := s.Result().Headers["x-warmgate-host"]; ok {
			t.Errorf("the client got the header of a choice, %s", host)
		}
	}
	t.wantGrown(decisions(reason), 3)
}
