package streamtest

// protocolScenarios send what is not a small chat request.
var protocolScenarios = []scenario{
	{name: "no body, tokens", endpoints: 2, config: guessed, run: func(t *run) {
		s := t.Open(Request{})
		s.wantTokens(100)
		t.finish(s)
		t.wantDrained()
	}},
	{name: "a body larger than any buffer", endpoints: 2, run: (*run).sendLarge},
	{name: "a body larger than any buffer, tokens", endpoints: 2, config: `"unit":"tokens","body_timeout":"60s"`, run: (*run).sendLarge},
	{name: "a body of just what is inspected", endpoints: 2, config: `"unit":"tokens","max_inspect_bytes":1024,"body_timeout":"60s"`, run: func(t *run) {
		for _, n := range []int{1023, 1024, 1025} {
			body := completion(n-len(completion(0, 0)), 0)
			s := t.Open(Request{Frames: []string{body[:500], body[500:]}})
			s.wantReceived(body)
			t.finish(s)
		}
		t.wantDrained()
	}},
	{name: "WebSocket", endpoints: 2, run: upgrade},
	{name: "WebSocket, tokens", endpoints: 2, config: `"unit":"tokens","body_timeout":"60s"`, run: upgrade},
	{name: "gRPC, tokens", endpoints: 2, config: `"unit":"tokens","body_timeout":"60s"`, run: func(t *run) {
		s := t.Open(Request{
			Path: "/inference.GRPCInferenceService/ModelInfer", Frames: []string{"\x00\x00\x00\x00\x01a"},
			Unended: true,
			Headers: [][2]string{{"content-type", "application/grpc"}, {"te", "trailers"}},
		})
		s.wantSent()
		s.wantCounted()
		s.Send("\x00\x00\x00\x00\x01b", true)
		s.wantReceived("\x00\x00\x00\x00\x01a\x00\x00\x00\x00\x01b")
		t.finish(s)
		t.wantDrained()
	}},
	{name: "other methods", endpoints: 2, config: `"unit":"tokens"`, run: func(t *run) {
		t.mark(decisions("chosen"))
		for _, method := range []string{"GET", "HEAD", "DELETE", "OPTIONS"} {
			s := t.begin(Request{Method: method, Path: "/v1/models"})
			t.finish(s)
		}
		t.wantDrained()
		t.wantGrown(decisions("chosen"), 4)
	}},
}

// upgrade opens a WebSocket: it has no end of its body while it lives.
func upgrade(t *run) {
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
	s.wantSent()
	s.wantCounted()
	s.Head(101)
	s.Data("ping")
	s.wantCounted()
	s.ResetByClient()
	t.wantDrained()
}
