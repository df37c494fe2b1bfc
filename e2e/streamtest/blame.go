package streamtest

import (
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"
)

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
			t.replied(t.from(i), 404)
		}
		t.wantEjections(0)
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
	t.wantEjections(0)
	t.wantEven()
	t.wantDrained()
}

// settleEjections waits until what an earlier scenario has ejected is counted.
func (t *run) settleEjections() {
	t.Advance(1200 * time.Millisecond)
	t.mark(t.ejections())
}

func (t *run) wantEjections(n uint64) {
	t.Helper()
	t.Advance(1200 * time.Millisecond)
	t.wantGrown(t.ejections(), n)
}

// wantEven opens eight requests for each endpoint and wants each endpoint to get at least half of that.
func (t *run) wantEven() {
	t.Helper()
	counts := make([]int, t.size)
	streams := t.open(8 * t.size)
	for _, s := range streams {
		counts[s.Upstream()]++
	}
	if slices.Min(counts) < 4 {
		t.Errorf("requests per endpoint: %s, want about 8 each", each(counts))
	}
	t.finish(streams...)
}

// client returns an address of this scenario alone: a gateway remembers for a minute whom every endpoint has refused,
// and may play the next scenario by then.
func (t *run) client(i int) string {
	return fmt.Sprintf("127.0.%d.%d", 1+crc32.ChecksumIEEE([]byte(t.Name()))%250, i)
}

// from returns a request of one of five clients.
func (t *run) from(i int) Request {
	r := chat()
	r.Client, r.Worker = t.client(20+i%5), i%t.Workers()
	return r
}

// replied plays a request that is answered at once, and returns the endpoint that it went to.
func (t *run) replied(r Request, status int) int {
	s := t.Open(r)
	at := s.Upstream()
	s.Head(status)
	s.Finish()
	s.Result()
	return at
}

// badClient has one client send requests that end with the status wherever they go, while requests of other clients
// succeed.
func badClient(status int) func(*run) {
	return func(t *run) {
		t.settleEjections()
		busy := t.open(8 * t.size)
		for i := range 60 {
			r := t.from(i)
			r.Client = t.client(9)
			t.replied(r, status)
			if i%3 == 0 {
				t.replied(t.from(i), 200)
			}
		}
		t.wantEjections(0)
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
			s.Head(404)
			s.Finish()
			s.Result()
			continue
		}
		t.finish(s)
	}
	if most := requests / t.size; got == 0 || got > most {
		t.Errorf("the endpoint that answers 404 got %d of %d requests, want some and at most %d", got, requests, most)
	}
	t.finish(busy...)
	t.Advance(1200 * time.Millisecond)
	if !t.Await(func() bool { return t.Counter(t.ejections()) > t.before[t.ejections()] }) {
		t.Error("no ejection was counted")
	}
	t.wantDrained()
}
