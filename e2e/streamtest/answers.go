package streamtest

import "strings"

// answerScenarios are about what an answer contains: its first token, and errors under a good status.
var answerScenarios = []scenario{
	{name: "what announces a response is no first token", endpoints: 2, config: guessed, run: announces(
		"/v1/responses", "input",
		"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\","+
			"\"status\":\"in_progress\",\"output\":[]}}\n\n",
		"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n",
	)},
	{name: "a comment is no first token", endpoints: 2, config: guessed, run: announces(
		"/v1/completions", "prompt", ": keep-alive\n\n", "data: {\"choices\":[{\"text\":\"a\"}]}\n\n",
	)},
	{name: "what keeps a response alive is no first token", endpoints: 2, config: guessed, run: announces(
		"/v1/responses", "input",
		"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"output\":[]}}\n\n"+
			"event: keepalive\ndata: {\"type\":\"keepalive\",\"sequence_number\":2}\n\n",
		"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n",
	)},
	{name: "what announces a message is no first token", endpoints: 2, config: guessed, run: announces(
		"/v1/messages", "prompt", "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\","+
			"\"role\":\"assistant\",\"content\":[]}}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n",
		"data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n",
	)},
	{name: "a role is no first token", endpoints: 2, config: guessed, run: announces(
		"/v1/chat/completions", "prompt",
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"+
			"\"finish_reason\":null}]}\n\n",
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n",
	)},
	{name: "an answer streams by its own word", endpoints: 2, config: guessed, run: streamsByItself},
	{name: "of four, one that sends an error event gets a tenth at most", endpoints: 4, run: failsOfFour(
		eventStream, "data: "+notReady+"\n\n"+doneEvent,
	)},
	{name: "of four, one that answers with an error gets a tenth at most", endpoints: 4, run: failsOfFour(
		"application/json", notReady,
	)},
	{name: "an error event under 200 attracts nothing", endpoints: 3, config: ejectingLong, run: failsFastWith(
		eventStream, "data: "+notReady+"\n\n"+doneEvent,
	)},
	{name: "a named error event under 200 attracts nothing", endpoints: 3, config: ejectingLong, run: failsFastWith(
		eventStream, "event: error\ndata: "+notReady+"\n\n",
	)},
	{name: "an error under 200 attracts nothing", endpoints: 3, config: ejectingLong, run: failsFastWith(
		"application/json", notReady,
	)},
	{name: "aborting under 200 attracts nothing", endpoints: 3, config: ejectingLong, run: failsFastWith(
		eventStream, "data: {\"choices\": [{\"index\": 0, \"delta\": {\"content\": \"\"}, "+
			"\"finish_reason\": \"abort\"}]}\n\n"+doneEvent,
	)},
	{name: "no choices under 200 attract nothing", endpoints: 3, config: ejectingLong, run: failsFastWith(
		"application/json", "{\"id\":\"c\",\"choices\":[],\"usage\":null}",
	)},
	{name: "nothing but braces under 200 attracts nothing", endpoints: 3, config: ejectingLong, run: failsFastWith(
		"application/json", "{}",
	)},
	{name: "a page under 200 attracts nothing", endpoints: 3, config: ejectingLong, run: failsFastWith(
		"text/html", "<html><body>Down for maintenance</body></html>",
	)},
	{name: "streams without an end attract nothing", endpoints: 3, config: ejectingLong, run: endlessStreams},
	{name: "a client's mistake under 200 ejects nobody", endpoints: 4, config: ejecting, run: mistakesUnder200},
	{name: "a refusal says in its body when to try again", endpoints: 1, run: refusesInBody},
}

const notReady = `{"error": {"message": "worker is not ready", "code": 500}}`

// announces has an endpoint announce the answer to a long prompt at once. Until output comes, cut in two, the prompt is
// in flight there, and other requests go to the other endpoint.
func announces(path, field, announcement, output string) func(*run) {
	return func(t *run) {
		body := `{"model":"m","stream":true,"` + field + `":"` + strings.Repeat("x", 40_000) + `"}`
		long := t.Open(Request{Path: path, Frames: []string{body}})
		long.wantTokens(10_100)
		long.Head(200, [2]string{"content-type", eventStream})
		long.Data(announcement)
		streams := []*stream{long}
		for range 24 {
			s := t.Open(Request{Frames: []string{completion(400, 0)}})
			if s.Upstream() == long.Upstream() {
				t.Errorf("request %d went to the endpoint that computes the long prompt", len(streams))
			}
			streams = append(streams, s)
		}
		want := []int64{24 * 200, 24 * 200}
		want[long.Upstream()] = 10_100
		t.wantTokens(want...)
		long.Data(output[:len(output)-9])
		t.wantTokens(want...)
		long.Data(output[len(output)-9:])
		want[long.Upstream()] = 100
		t.wantTokens(want...)
		t.finish(streams...)
		t.wantDrained()
	}
}

// streamsByItself has answers stream that were not requested so, and an answer that was come in one piece.
func streamsByItself(t *run) {
	s := t.Open(Request{Frames: []string{completion(4000, 0)}})
	s.wantTokens(1100)
	s.Head(200, [2]string{"content-type", eventStream})
	s.Data(wordEvent)
	s.wantTokens(100)
	t.finish(s)
	s = t.Open(Request{Frames: []string{`{"stream":true,` + completion(4000, 0)[1:]}})
	s.wantTokens(1100)
	s.Head(200, [2]string{"content-type", "application/json"})
	s.Data(`{"choices":[{"text":"a`)
	s.wantTokens(1100)
	t.finish(s)
	t.wantDrained()
}

// answered sends n requests one after the other. The endpoint bad answers at once, as it is told; answered returns how
// many of them it got.
func answered(t *run, n, bad int, answer func(*stream)) int {
	t.Helper()
	got := 0
	for i := range n {
		s := t.Open(t.from(i))
		if s.Upstream() == bad {
			got++
			answer(s)
		} else {
			streamsWell(s)
		}
	}
	return got
}

// streamsWell ends the request with a usual stream.
func streamsWell(s *stream) {
	s.Head(200, [2]string{"content-type", eventStream})
	s.Data(wordEvent)
	s.Data(wordEvent + stopEvent)
	s.Data(doneEvent)
	s.Finish()
	s.Result()
}

// failsFastWith has an endpoint answer 200 at once, with a body that is no answer.
func failsFastWith(contentType, body string) func(*run) {
	fail := atOnce(contentType, body)
	return func(t *run) { t.attractsNothing(120, func(n int) int { return answered(t, n, 0, fail) }) }
}

// atOnce answers 200 with the body.
func atOnce(contentType, body string) func(*stream) {
	return func(s *stream) { s.reply(200, body, [2]string{"content-type", contentType}) }
}

// failsOfFour keeps twelve requests open. Three endpoints stream, the first one answers 200 at once, with an error in
// the body. It gets a tenth of all requests at most, with the usual settings of health.
func failsOfFour(contentType, body string) func(*run) {
	fail := atOnce(contentType, body)
	return func(t *run) {
		const requests = 400
		failed := 0
		var open []*stream
		for i := range requests {
			s := t.Open(t.from(i))
			if s.Upstream() == 0 {
				failed++
				fail(s)
				continue
			}
			if open = append(open, s); len(open) == 12 {
				streamsWell(open[0])
				open = open[1:]
			}
		}
		if t.Logf("it got %d of %d", failed, requests); failed == 0 || failed > requests/10 {
			t.Errorf("the failing endpoint got %d of %d requests, want some and a tenth at most", failed, requests)
		}
		t.finish(open...)
		t.wantDrained()
	}
}

// endlessStreams: streams of an endpoint begin well, and are closed without what ends those of the others.
func endlessStreams(t *run) {
	answered(t, 20*t.Workers(), -1, nil) // every worker sees how streams end, even if it is picked by chance
	failsFastWith(eventStream, wordEvent)(t)
}

// mistakesUnder200 has one client send requests that are answered with an error of its own wherever they go.
func mistakesUnder200(t *run) {
	t.settleEjections()
	busy := t.chats(8 * t.size)
	for i := range 60 {
		r := t.from(i)
		r.Client = t.client(9)
		t.Open(r).reply(200, `{"error":{"message":"temperature is too high","type":"invalid_request_error",`+
			`"code":"invalid_value"}}`, [2]string{"content-type", "application/json"})
		if i%3 == 0 {
			t.Open(t.from(i)).reply(200, "")
		}
	}
	t.wantNoEjections()
	t.finish(busy...)
	t.wantEven()
	t.wantDrained()
}

// refusesInBody has a server refuse with Google's RetryInfo, cut in two.
func refusesInBody(r *run) {
	t := r.budgets("", `"weight":1`)
	s := t.budgeted(0, "")
	restricted := t.restrictions(0, "retry_after")
	t.mark(restricted)
	s.Head(429, [2]string{"content-type", "application/json"})
	s.Data(`{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":`)
	s.Data(`"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"40s"}]}}`)
	s.Finish()
	s.Result()
	t.wantDrained()
	t.wantGrown(restricted, 1)
	t.refused("", "over_budget").wantRetryAfter(32, 46)
	t.wantDrained()
}
