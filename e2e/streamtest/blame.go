package streamtest

import "strings"

// blameScenarios are about failures that may be the request's fault, or the endpoint's.
var blameScenarios = []scenario{
	{name: "one client with only failures ejects no endpoint", endpoints: 4, config: ejecting, run: badClient(500)},
	{
		name: "one client with only refusals ejects no endpoint", endpoints: 4, config: ejecting,
		run: badClient(400),
	},
	{
		name: "one client that requests what no endpoint has ejects no endpoint", endpoints: 4, config: ejecting,
		run: badClient(501),
	},
	{name: "answering 404 at once attracts nothing", endpoints: 4, config: ejectingLong, run: refusesFast},
	{name: "what is refused everywhere ejects no endpoint", endpoints: 4, config: ejecting, run: func(t *run) {
		t.settleEjections()
		for i := range 60 {
			t.Open(t.from(i)).reply(404, "")
		}
		t.wantNoEjections()
		t.wantEven()
	}},
	{
		// Enough comes to decide by: after a 404 the gateway wants to know the model.
		name: "a reset of an incomplete request ejects no endpoint", endpoints: 4,
		config: ejecting + `,"max_inspect_bytes":1024`, run: resetsIncomplete,
	},
}

func resetsIncomplete(t *run) {
	t.settleEjections()
	for range 40 {
		begin := "{" + strings.Repeat(" ", 2048)
		s := t.Open(Request{Client: t.client(9), Frames: []string{begin}, Unended: true, NoRetry: true})
		s.Upstream()
		s.ResetByUpstream()
		s.Result()
	}
	t.wantNoEjections()
	t.wantEven()
	t.wantDrained()
}

// badClient has one client send requests that end with the status wherever they go, while requests of other clients
// succeed.
func badClient(status int) func(*run) {
	return func(t *run) {
		t.settleEjections()
		busy := t.chats(8 * t.size)
		for i := range 60 {
			r := t.from(i)
			r.Client = t.client(9)
			t.Open(r).reply(status, "")
			if i%3 == 0 {
				t.Open(t.from(i)).reply(200, "")
			}
		}
		t.wantNoEjections()
		t.finish(busy...)
		t.wantEven()
		t.wantDrained()
	}
}

// refusesFast: an endpoint that answers 404 at once is always idle. It must not get more requests for that.
func refusesFast(t *run) {
	t.settleEjections()
	busy := t.busy()
	const requests = 120
	got := 0
	for i := range requests {
		r := t.from(i)
		s := t.Open(r)
		if s.Upstream() == 0 {
			got++
			s.reply(404, "")
			continue
		}
		t.finish(s)
	}
	if most := requests / t.size; got == 0 || got > most {
		t.Errorf("the endpoint that answers 404 got %d of %d requests, want some and at most %d", got, requests, most)
	}
	t.finish(busy...)
	t.wantEjections()
	t.wantDrained()
}
