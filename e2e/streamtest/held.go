package streamtest

import (
	"fmt"
	"strings"
)

// heldScenarios send calls that refer to what one endpoint keeps.
var heldScenarios = []scenario{
	{name: "answers", endpoints: 4, run: func(t *run) { followAnswers(t, `{"id":%q,"object":"response"}`) }},
	{name: "answers, tokens", endpoints: 4, config: `"unit":"tokens"`, run: func(t *run) {
		followAnswers(t, `{"id":%q,"object":"response"}`)
	}},
	{name: "answers, cached prompts", policy: prefixCache, endpoints: 4, run: func(t *run) {
		followAnswers(t, `{"object":"response","id":%q}`)
	}},
	{name: "answers, sessions", policy: consistentHash, endpoints: 4, run: func(t *run) {
		followAnswers(t, `{"id":%q,"object":"response"}`)
	}},
	{name: "streams", endpoints: 4, run: func(t *run) {
		followAnswers(t, ": keep-alive\n\nevent: response.created\ndata: {\"type\":\"response.created\","+
			"\"sequence_number\":0,\"response\":{\"id\":%q,\"object\":\"response\"}}\n\n")
	}},
	{name: "conversations", endpoints: 4, run: func(t *run) {
		made := makeEach(t, Request{Path: "/v1/conversations", Frames: []string{`{}`}}, `{"id":%q}`, "conv_")
		for at, ids := range made {
			for _, id := range ids {
				follow(t, at, Request{Path: "/v1/conversations/" + id + "/items", Method: "GET"})
				follow(t, at, Request{Path: "/v1/responses", Frames: []string{`{"input":"a","conversation":"` + id + `"}`}})
				follow(t, at, Request{
					Path: "/v1/responses", Frames: []string{`{"conversation":{"id":"` + id + `"},"input":"a"}`},
				})
			}
		}
		t.wantDrained()
	}},
	{name: "files and batches", endpoints: 4, run: func(t *run) {
		made := makeEach(t, Request{
			Path: "/v1/files", Headers: [][2]string{{"content-type", "multipart/form-data; boundary=b"}},
			Frames: []string{"--b\r\n\r\nx\r\n--b--"},
		}, `{"id":%q,"object":"file"}`, "file-")
		for at, ids := range made {
			for _, id := range ids {
				batch := "batch_" + id
				follow(t, at, Request{Path: "/v1/batches", Frames: []string{`{"input_file_id":"` + id + `"}`}},
					`{"id":"`+batch+`"}`)
				follow(t, at, Request{Path: "/v1/batches/" + batch + "/cancel", Frames: []string{`{}`}})
				follow(t, at, Request{Path: "/v1/batches/" + batch},
					`{"id":"`+batch+`","output_file_id":"file-of-`+batch+`"}`)
				follow(t, at, Request{Path: "/v1/files/file-of-" + batch + "/content"})
			}
		}
		t.wantDrained()
	}},
	{name: "an endpoint that is gone", endpoints: 4, run: func(t *run) {
		made := makeEach(t, createResponse("m"), `{"id":%q}`, "resp_")
		var id string
		gone := 0
		for at, ids := range made {
			id, gone = ids[0], at
		}
		list := make([]Endpoint, 4)
		list[gone].State = Unhealthy
		t.SetEndpoints(list)
		var s *stream
		if !t.Await(func() bool { // where time is real, a worker learns of it a little later
			s = t.begin(Request{Path: "/v1/responses/" + id})
			s.reply(400, "")
			return s.header("x-warmgate-reason") == "state_lost"
		}) {
			t.Errorf("reason %q", s.header("x-warmgate-reason"))
		}
		t.SetEndpoints(make([]Endpoint, 4))
		back := Request{Path: "/v1/responses/" + id}
		if !t.Await(func() bool {
			s := t.begin(back)
			if s.Upstream() != gone {
				s.Head(400)
			}
			s.Finish()
			s.Result()
			return s.Upstream() == gone
		}) {
			t.Error("an endpoint that is back does not get the calls for what it keeps")
		}
		t.wantDrained()
	}},
	{name: "calls that fail change nothing", endpoints: 4, run: func(t *run) {
		made := makeEach(t, createResponse("m"), `{"id":%q}`, "resp_")
		for at, ids := range made {
			for _, status := range []int{400, 429, 500} {
				s := t.begin(referTo(ids[0]))
				s.Head(status)
				s.Finish()
				if s.Result(); s.Upstream() != at {
					t.Errorf("after failed calls one is sent to endpoint %d, not %d", s.Upstream(), at)
				}
			}
			break
		}
	}},
}

func createResponse(input string) Request {
	return Request{Path: "/v1/responses", Frames: []string{`{"model":"m","store":true,"input":"` + input + `"}`}}
}

func referTo(id string) Request {
	return Request{Path: "/v1/responses", Frames: []string{
		`{"model":"m","store":true,"previous_response_id":"` + id + `","input":"b"}`,
	}}
}

// makeEach has every endpoint make things of a kind, and returns their ids by endpoint.
func makeEach(t *run, r Request, form, prefix string) map[int][]string {
	t.Helper()
	made := map[int][]string{}
	for i := range 3 * t.size {
		r.Worker = i % t.Workers()
		s := t.begin(r)
		at := s.Upstream()
		id := fmt.Sprintf("%s%x%d", prefix, t.Name(), i)
		made[at] = append(made[at], id)
		s.Head(200, [2]string{"content-type", "application/json"})
		text := fmt.Sprintf(form, id)
		s.Data(text[:len(text)-3])
		s.Data(text[len(text)-3:])
		s.Finish()
		s.Result()
	}
	t.wantDrained()
	if len(made) < 2 {
		t.Fatal("one endpoint has made all")
	}
	return made
}

// follow sends a call through each worker: all are to come to the endpoint. It answers them.
func follow(t *run, at int, r Request, answer ...string) {
	t.Helper()
	for worker := range t.Workers() {
		r.Worker = worker
		s := t.begin(r)
		if s.Upstream() != at {
			t.Errorf("%s is sent to endpoint %d, not %d", r.Path, s.Upstream(), at)
		}
		s.reply(200, strings.Join(append(answer, "{}")[:1], ""))
		s.wantReason("chosen")
	}
}

// followAnswers makes answers of the Responses API, in the given form, and sends what refers to them.
func followAnswers(t *run, form string) {
	t.Helper()
	busy := t.begin(chat()) // its endpoint gets what it holds all the same
	for at, ids := range makeAnswers(t, form) {
		for _, id := range ids {
			follow(t, at, referTo(id))
			follow(t, at, Request{Path: "/v1/responses/" + id})
			follow(t, at, Request{Path: "/v1/responses/" + id + "/input_items?limit=1"})
			follow(t, at, Request{Path: "/v1/responses/" + id + "/cancel", Method: "POST"})
			follow(t, at, Request{Path: "/v1/responses/" + id, Method: "DELETE"})
		}
	}
	t.finish(busy)
	t.wantDrained()
}

// makeAnswers has the endpoints answer requests with different prompts, and returns the ids by endpoint.
func makeAnswers(t *run, form string) map[int][]string {
	t.Helper()
	made := map[int][]string{}
	for i := range 2 * t.size {
		r := createResponse(fmt.Sprint(i, strings.Repeat(" word", 300)))
		r.Worker = i % t.Workers()
		s := t.begin(r)
		id := fmt.Sprintf("resp_%x%d", t.Name(), i)
		made[s.Upstream()] = append(made[s.Upstream()], id)
		s.reply(200, fmt.Sprintf(form, id))
	}
	if len(made) < 2 {
		t.Fatal("one endpoint has made all")
	}
	return made
}
