package streamtest

import "fmt"

// sessionScenarios are those of consistent_hash, and of prefix_cache with session_affinity.
var sessionScenarios = []scenario{
	{name: "a session stays", policy: consistentHash, endpoints: 4, run: func(t *run) {
		used := map[int]bool{}
		for i := range 9 {
			home := homeOf(t, ofSession(i), "home")
			used[home] = true
			for worker := range t.Workers() {
				r := ofSession(i)
				r.Worker = worker
				if at := homeOf(t, r, "home"); at != home {
					t.Errorf("session %d goes to endpoint %d, then to %d", i, home, at)
				}
			}
		}
		if len(used) < 2 {
			t.Error("all sessions go to one endpoint")
		}
		t.wantDrained()
	}},
	{name: "the key may be anywhere", policy: consistentHash, endpoints: 4, run: func(t *run) {
		t.apply(`"session":{"key":["header:x-a","cookie:sid","query:u","body:user","body:metadata.user_id"]}`)
		body := []string{`{"messages":[{"role":"user","content":"user"}],`, `"n":1,`}
		for value := range 5 {
			text := fmt.Sprintf("value %d", value)
			home := homeOf(t, Request{Frames: []string{`{}`}, Headers: [][2]string{{"x-a", text}}}, "home")
			for name, r := range map[string]Request{
				"cookie":    {Frames: []string{`{}`}, Headers: [][2]string{{"cookie", "a=b; sid=" + text + "; c=d"}}},
				"body":      {Frames: append(body, `"user":"`+text+`"}`)},
				"in member": {Frames: append(body, `"metadata":{"user_id":"`+text+`"}}`)},
				"the first": {Frames: append(body, `"user":"x"}`), Headers: [][2]string{{"x-a", text}}},
			} {
				if at := homeOf(t, r, "home"); at != home {
					t.Errorf("the key in the %s leads to endpoint %d, in a header to %d", name, at, home)
				}
			}
		}
		at := homeOf(t, Request{Path: "/v1/models?x=1&u=seven"}, "home")
		if again := homeOf(t, Request{Path: "/v1/chat/completions?u=seven", Frames: []string{`{}`}}, "home"); again != at {
			t.Errorf("the key in the query leads to endpoint %d, then to %d", at, again)
		}
		t.wantDrained()
	}},
	{name: "no key", policy: consistentHash, endpoints: 2, run: func(t *run) {
		busy := t.begin(chat())
		next := t.begin(chat())
		if next.Upstream() == busy.Upstream() {
			t.Error("a request without a key is not sent where fewer requests are")
		}
		t.finish(busy, next)
		busy.wantSession("none")
		next.wantSession("none")
		t.wantDrained()
	}},
	{name: "a home that is too busy", policy: consistentHash, endpoints: 2, run: func(t *run) {
		t.apply(`"session":{"min_inflight":0}`)
		var open []*stream
		at := map[int]int{}
		for i := range 12 {
			r := ofSession(1)
			r.Worker = i % t.Workers()
			s := t.begin(r)
			open = append(open, s)
			at[s.Upstream()]++
		}
		home := open[0].Upstream()
		if at[home] != 8 || at[1-home] != 4 { // 1.25 times the mean of 12 requests, rounded up
			t.Errorf("%d requests at home, %d at the other endpoint; want 8 and 4", at[home], at[1-home])
		}
		t.finish(open...)
		for _, s := range open {
			s.wantSession(map[bool]string{true: "home", false: "displaced"}[s.Upstream() == home])
		}
		t.wantDrained()
		homeOf(t, ofSession(1), "home")
	}},
	{name: "sessions come home", policy: consistentHash, endpoints: 3, run: func(t *run) {
		homes := map[int]int{}
		for i := range 12 {
			homes[i] = homeOf(t, ofSession(i), "home")
		}
		t.SetEndpoints([]Endpoint{{}, {}, {State: Unhealthy}})
		for i, home := range homes {
			if at := homeOf(t, ofSession(i), "home"); at != home && home != 2 {
				t.Errorf("session %d moves from endpoint %d to %d, although another one is unhealthy", i, home, at)
			}
		}
		t.SetEndpoints([]Endpoint{{}, {}, {}})
		for i, home := range homes { // where time is real, a worker learns of it a little later
			if at := -1; !t.Await(func() bool { at = homeOf(t, ofSession(i), "home"); return at == home }) {
				t.Errorf("session %d is at endpoint %d, not at its home %d", i, at, home)
			}
		}
		t.wantDrained()
	}},
	{name: "an order of retries", policy: consistentHash, endpoints: 4, needs: []Ability{SecondHop}, run: func(t *run) {
		var tried [2][2]int
		for i := range tried {
			s := t.begin(ofSession(3))
			tried[i][0] = s.Upstream()
			tried[i][1] = s.Retry()
			t.finish(s)
			t.wantDrained()
		}
		// What the home has failed moves a part of its sessions to the end of their order: the next one moves up then.
		if one, two := tried[0], tried[1]; two != one && two[0] != one[1] {
			t.Errorf("a session is tried at endpoints %d, then at %d", one, two)
		}
	}},
	{name: "a new conversation of a session", policy: prefixCache, endpoints: 4, config: `"session_affinity":true`, run: func(t *run) {
		home := -1
		for i := range 4 {
			r := t.conversation(100 + i)
			r.Headers = [][2]string{{"x-session-id", "s"}}
			s := t.play(r)
			t.wantDrained()
			if home < 0 {
				home = s.Upstream()
			}
			if s.Upstream() != home {
				t.Errorf("conversation %d of a session begins at endpoint %d, not at %d", i, s.Upstream(), home)
			}
		}
	}},
}

// ofSession is a usual request of a session.
func ofSession(n int) Request {
	r := chat()
	r.Headers = [][2]string{{"x-session-id", fmt.Sprintf("session %d", n)}}
	return r
}

// homeOf serves a request and returns the endpoint that had it.
func homeOf(t *run, r Request, want string) int {
	t.Helper()
	s := t.play(r)
	at := s.Upstream()
	s.wantSession(want)
	return at
}
