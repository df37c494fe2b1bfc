package streamtest

import (
	"slices"
	"strings"
)

// endScenarios are the ways in which a request ends. After each of them nothing may stay counted.
var endScenarios = []scenario{
	{name: "completed", endpoints: 2, run: endsBy("ok", chat(), func(_ *run, s *stream) {
		s.Head(200)
		s.Data(Answer[:9])
		s.Data(Answer[9:])
		s.Finish()
	})},
	{name: "without a body", endpoints: 2, run: endsBy("ok", Request{}, func(_ *run, s *stream) { s.Finish() })},
	{name: "client leaves before the response", endpoints: 2, run: endsBy(
		"client_left", chat(), func(_ *run, s *stream) {
			s.ResetByClient()
		})},
	{name: "client leaves after the response's headers", endpoints: 2, run: endsBy(
		"client_left", chat(), func(_ *run, s *stream) {
			s.Head(200)
			s.ResetByClient()
		})},
	{name: "client leaves in the middle of the response", endpoints: 2, run: endsBy(
		"client_left", chat(), func(_ *run, s *stream) {
			s.Head(200)
			s.Data("a")
			s.ResetByClient()
		})},
	{name: "client leaves before its body ends", endpoints: 2, run: endsBy(
		"client_left", Request{Frames: []string{`{"model":`}, Unended: true}, func(_ *run, s *stream) { s.ResetByClient() },
	)},
	{name: "upstream resets before the response", endpoints: 2, run: endsBy(
		"server_failed", Request{Frames: []string{"{}"}, NoRetry: true}, func(t *run, s *stream) {
			s.ResetByUpstream()
			if r := s.Result(); r.Status != 503 {
				t.Errorf("the client got %d, want 503", r.Status)
			}
		},
	)},
	{name: "upstream resets in the middle of the response", endpoints: 2, run: endsBy(
		"server_failed", chat(), func(t *run, s *stream) {
			s.Head(200)
			s.Data("a")
			s.ResetByUpstream()
			if r := s.Result(); r.Status != 200 || !r.Cut {
				t.Errorf("the client got %d, cut %v", r.Status, r.Cut)
			}
		})},
	{name: "upstream answers 500", endpoints: 2, run: endsBy("server_failed", chat(), func(t *run, s *stream) {
		s.Head(500)
		s.Finish()
		if r := s.Result(); r.Status != 500 {
			t.Errorf("the client got %d, want 500", r.Status)
		}
	})},
	{name: "client leaves while its body is held", endpoints: 2, config: `"unit":"tokens","body_timeout":"60s"`, run: func(t *run) {
		t.mark(decisions("body_late"))
		s := t.Open(Request{Frames: []string{`{"model":`}, Unended: true})
		if !s.Held() {
			t.Error("the request is not held")
		}
		s.ResetByClient()
		t.wantGrown(decisions("body_late"), 1)
		t.wantDrained()
	}},
	{name: "a later filter answers", endpoints: 2, needs: []Ability{LocalReply}, run: func(t *run) {
		t.mark(decisions("chosen"))
		r := chat()
		r.Local = 403
		s := t.Open(r)
		if at := s.Upstream(); at >= 0 || s.Result().Status != 403 {
			t.Errorf("endpoint %d, status %d; want none, 403", at, s.Result().Status)
		}
		t.wantGrown(decisions("chosen"), 1)
		t.wantDrained()
	}},
	{name: "upstream is never reached", needs: []Ability{NoUpstream}, list: []Endpoint{
		{State: Refusing},
	}, run: func(t *run) {
		t.mark(decisions("chosen"))
		r := chat()
		r.NoRetry = true
		s := t.Open(r)
		if at := s.Upstream(); at >= 0 || s.Result().Status != 503 {
			t.Errorf("endpoint %d, status %d; want none, 503", at, s.Result().Status)
		}
		t.wantGrown(decisions("chosen"), 1)
		t.wantDrained()
	}},
	{name: "a retry counts where it is served", endpoints: 3, run: func(t *run) {
		t.mark("warmgate_lease_moves_total", decisions("chosen"))
		s := t.Open(chat())
		first := s.Upstream()
		s.wantCounted()
		second := s.Retry()
		s.Head(200)
		s.wantCounted()
		if second != first {
			t.wantGrown("warmgate_lease_moves_total", 1)
		}
		t.finish(s)
		t.wantDrained()
		t.wantGrown(decisions("chosen"), 1)
	}},
	{name: "a retry goes to another endpoint", needs: []Ability{SecondHop}, endpoints: 3, run: func(t *run) {
		for range 5 {
			s := t.Open(chat())
			first, second := s.Upstream(), s.Retry()
			t.finish(s)
			if headers := s.Result().Headers; first == second {
				t.Errorf("the retry went to endpoint %d again; chosen was %q (%s)", first, headers["x-warmgate-host"],
					headers["x-warmgate-reason"])
			}
		}
		t.wantDrained()
	}},
}

// endsBy opens the request, checks that it is counted, ends it and checks that it no longer is, and is known to have
// ended so at the endpoint that served it.
func endsBy(outcome string, r Request, end func(*run, *stream)) func(*run) {
	return func(t *run) {
		t.mark(decisions("chosen"))
		s := t.begin(r)
		s.wantCounted()
		at := "host=" + t.Addr(s.Upstream()) + " "
		end(t, s)
		t.wantDrained()
		t.wantGrown(decisions("chosen"), 1)
		isIt := func(line string) bool {
			return strings.HasPrefix(line, at) && strings.Contains(line+" ", " outcome="+outcome+" ")
		}
		if !t.Await(func() bool { return slices.ContainsFunc(t.AccessLog(), isIt) }) {
			t.Errorf("access log %q, want %q and outcome=%s in it", t.AccessLog(), at, outcome)
		}
	}
}
