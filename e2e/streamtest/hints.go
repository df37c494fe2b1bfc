package streamtest

import "strings"

// hintScenarios are about what requests say of themselves: how urgent they are, and how long their answers will be.
var hintScenarios = []scenario{
	{name: "the class of a priority in the body", endpoints: 1, run: func(t *run) {
		prioritize(t)
		long := hinted(`"priority":10`) // behind more than what is read at once
		long.Frames[0] = `{"prompt":"` + strings.Repeat("x", 700_000) + `",` + long.Frames[0][1:]
		t.wantClasses(map[string][]Request{
			"urgent": {
				long, hinted(`"priority":10`), hinted(`"osl":3,"priority":11`), hinted(`"priority":"12"`),
				inParts(hinted(`"priority":10`), 7), inParts(hinted(`"priority":10`), 1),
			},
			"usual": {hinted(`"priority":9`), hinted(`"priority":0`), hinted(`"priority":-2`), hinted(`"priority":-2.5,"x":1`)},
			"bulk":  {hinted(`"priority":-9`), inParts(hinted(`"priority":-3`), 7)},
		})
	}},
	{name: "a header over the priority in the body", endpoints: 1, run: func(t *run) {
		prioritize(t)
		with := func(r Request, header, value string) Request {
			r.Headers = append(r.Headers, [2]string{header, value})
			return r
		}
		t.wantClasses(map[string][]Request{
			"urgent": {
				with(hinted(`"priority":-9`), "x-dynamo-request-priority", "10"),
				with(hinted(`"priority":10`), "x-class", "none of them"),
			},
			"bulk": {
				with(hinted(`"priority":10`), "x-dynamo-request-priority", "-9"),
				with(hinted(`"priority":10`), "x-class", "bulk"),
				with(with(hinted(""), "x-dynamo-request-priority", "10"), "x-class", "bulk"),
			},
			"usual": {with(hinted(`"priority":10`), "x-dynamo-request-priority", "high")}, // is none
		})
	}},
	{name: "no priority that can be read", endpoints: 1, run: func(t *run) {
		prioritize(t)
		t.wantClasses(map[string][]Request{"usual": {
			{Frames: []string{`{"nvext":{"agent_hints":{"priority":10`}},
			{Frames: []string{`priority 10`}},
			{Frames: []string{`{"nvext":10}`}},
			hinted(`"priority":1e1`), hinted(`"priority":true`), hinted(""),
		}})
	}},
	{name: "tokens that a request expects", endpoints: 1, policy: leastRequest, config: guessed, run: func(t *run) {
		t.apply(guessed + `,"output_tokens_from":["header:x-osl","body:nvext.agent_hints.osl"]`)
		for _, c := range []struct {
			hints, header string
			limit         int
			want          int64
		}{
			{``, "", 0, 1100},
			{`"osl":30`, "", 0, 1030},
			{`"osl":1`, "7", 0, 1007},
			{`"osl":180`, "", 0, 1180},
			{`"osl":5000`, "", 0, 1200}, // twice the usual
			{`"osl":180`, "", 40, 1040}, // max_tokens
			{`"osl":0`, "", 0, 1100},
			{`"osl":-5`, "", 0, 1100},
			{`"osl":2.5`, "", 0, 1100},
		} {
			body := completion(4000, c.limit)
			r := Request{Frames: []string{`{"nvext":{"agent_hints":{` + c.hints + `}},` + body[1:]}}
			if c.header != "" {
				r.Headers = [][2]string{{"x-osl", c.header}}
			}
			for _, r := range []Request{r, inParts(r, 1000)} {
				s := t.Open(r)
				s.wantSent()
				t.wantTokens(c.want)
				t.finish(s)
			}
		}
		t.wantDrained()
	}},
}

// onlyCached: a request that prefers so is answered where its prompt is cached, else with 412, twice alike.
func onlyCached(t *run) {
	r, preferring := t.conversation(1), t.conversation(1)
	preferring.Headers = append(preferring.Headers, [2]string{"prefer", "wait=10, If-Available;q=1"})
	for range 2 {
		s := t.Open(preferring)
		if a := s.Result(); a.Status != 412 || !strings.Contains(a.Body, `"code":"not_cached"`) {
			t.Errorf("at endpoint %d, answered %d, %q", s.Upstream(), a.Status, a.Body)
		}
		s.wantReason("not_cached")
	}
	warm := t.play(r)
	if s := t.play(preferring); s.Upstream() != warm.Upstream() {
		t.Errorf("cached at endpoint %d, sent to %d", warm.Upstream(), s.Upstream())
	}
	t.wantDrained()
}

// prioritize puts a configuration into force under which priorities decide the class, unless a header names it.
func prioritize(t *run) {
	t.Helper()
	queue(t, `"max_wait":"10m","class_header":"x-class","default_class":"usual",`+
		`"classes":{"urgent":{"weight":8,"from_priority":10},"usual":{"weight":4,"from_priority":-2},`+
		`"bulk":{"weight":1,"from_priority":-9}},`+
		`"priority_from":["header:x-dynamo-request-priority","body:nvext.agent_hints.priority"]`)
}

// hinted returns a request whose body has hints for agents.
func hinted(hints string) Request {
	return Request{Frames: []string{
		`{"model":"m","nvext":{"agent_hints":{` + hints + `}},"messages":[{"role":"user","content":"hi"}]}`,
	}}
}

// inParts returns the request with a body in frames of that many bytes.
func inParts(r Request, size int) Request {
	var frames []string
	for _, f := range r.Frames {
		for ; len(f) > size; f = f[size:] {
			frames = append(frames, f[:size])
		}
		frames = append(frames, f)
	}
	r.Frames = frames
	return r
}

// wantClasses fails the test unless each request is of its class, over all workers.
func (t *run) wantClasses(want map[string][]Request) {
	t.Helper()
	n := 0
	for class, requests := range want {
		for i, r := range requests {
			busy := t.chats(1)
			r.Worker = n % t.Workers()
			n++
			s := t.Open(r)
			s.wantHeld()
			t.finish(busy...)
			s.wantServed()
			t.finish(s)
			if got := s.Result().Headers["x-warmgate-class"]; got != class {
				t.Errorf("request %d of class %s is of class %q: %.200s", i, class, got, r.Frames)
			}
		}
	}
	t.wantDrained()
}
