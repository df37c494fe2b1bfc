package streamtest

import "strings"

// protocolScenarios send what is not a small chat request.
var protocolScenarios = []scenario{
	{name: "no body, tokens", endpoints: 2, config: `"unit":"tokens","output_tokens":100`, run: func(t *run) {
		s := t.Open(Request{})
		t.wantTokens(tokensAt(t, s, 100)...)
		t.finish(s)
		t.wantDrained()
	}},
	{name: "a body larger than any buffer", endpoints: 2, run: func(t *run) { t.sendLarge() }},
	{name: "a body larger than any buffer, tokens", endpoints: 2, config: `"unit":"tokens","body_timeout":"60s"`, run: func(t *run) { t.sendLarge() }},
	{name: "a body of just what is inspected", endpoints: 2, config: `"unit":"tokens","max_inspect_bytes":1024,"body_timeout":"60s"`, run: func(t *run) {
		for _, n := range []int{1023, 1024, 1025} {
			body := completion(n-len(completion(0, 0)), 0)
			s := t.Open(Request{Frames: []string{body[:500], body[500:]}})
			t.wantReceived(s, body)
			t.finish(s)
		}
		t.wantDrained()
	}},
	{name: "WebSocket", endpoints: 2, run: func(t *run) { t.upgrade() }},
	{name: "WebSocket, tokens", endpoints: 2, config: `"unit":"tokens","body_timeout":"60s"`, run: func(t *run) { t.upgrade() }},
	{name: "gRPC, tokens", endpoints: 2, config: `"unit":"tokens","body_timeout":"60s"`, run: func(t *run) {
		s := t.Open(Request{
			Path: "/inference.GRPCInferenceService/ModelInfer", Frames: []string{"\x00\x00\x00\x00\x01a"},
			Unended: true,
			Headers: [][2]string{{"content-type", "application/grpc"}, {"te", "trailers"}},
		})
		if s.Upstream() < 0 {
			t.Fatal("the call is held")
		}
		t.wantLoads(t.at(s.Upstream())...)
		s.Send("\x00\x00\x00\x00\x01b", true)
		t.wantReceived(s, "\x00\x00\x00\x00\x01a\x00\x00\x00\x00\x01b")
		t.finish(s)
		t.wantDrained()
	}},
	{name: "other methods", endpoints: 2, config: `"unit":"tokens"`, run: func(t *run) {
		t.mark(decisions("chosen"))
		for _, method := range []string{"GET", "HEAD", "DELETE", "OPTIONS"} {
			s := t.Open(Request{Method: method, Path: "/v1/models"})
			if s.Upstream() < 0 {
				t.Fatalf("%s reached no endpoint", method)
			}
			t.finish(s)
		}
		t.wantDrained()
		t.wantGrown(decisions("chosen"), 4)
	}},
}

// sendLarge sends 10 MB.
func (t *run) sendLarge() {
	t.Helper()
	frame := strings.Repeat("abcdefgh", 8<<10)
	frames := []string{`{"model":"m","prompt":"`}
	for range 160 {
		frames = append(frames, frame)
	}
	frames = append(frames, `"}`)
	chosen := decisionsOf(t.policy, "chosen")
	t.mark(chosen)
	s := t.Open(Request{Frames: frames})
	t.wantReceived(s, strings.Join(frames, ""))
	t.wantLoads(t.at(s.Upstream())...)
	t.finish(s)
	t.wantDrained()
	t.wantGrown(chosen, 1)
}

// upgrade opens a WebSocket: it has no end of its body while it lives.
func (t *run) upgrade() {
	t.Helper()
	s := t.Open(Request{
		Method: "GET", Path: "/v1/realtime", Unended: true,
		Headers: [][2]string{
			{"upgrade", "websocket"},
			{"connection", "Upgrade"},
			{"sec-websocket-version", "13"},
			{"sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="},
		},
	})
	if s.Upstream() < 0 {
		t.Fatalf("the upgrade is held: %+v", s.Result())
	}
	t.wantLoads(t.at(s.Upstream())...)
	s.Head(101)
	s.Data("ping")
	t.wantLoads(t.at(s.Upstream())...)
	s.ResetByClient()
	t.wantDrained()
}
