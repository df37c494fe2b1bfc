package response

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/plugin/host"
)

// passingGateway is a gateway in which a part of a response passes.
type passingGateway struct {
	host.Gateway
	host.GatewayStream
	now  time.Duration
	part []byte
}

func (g *passingGateway) Now() time.Duration { return g.now }

func (g *passingGateway) ResponseBody(from, most int) []byte {
	from = min(from, len(g.part))
	return g.part[from:min(len(g.part), from+most)]
}

// newPassing returns a stream whose parts are counted, and of which nothing is learned.
func newPassing() (*Reading, *passingGateway) {
	g := &passingGateway{now: time.Hour}
	r := &Reading{Use: Use{Counts: true}, From: g, Env: &host.Env{GW: g}}
	r.Status = 200
	r.Begin([][2]string{{"content-type", "text/event-stream"}}, false)
	return r, g
}

const (
	word   = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word\"},\"finish_reason\":null}]}\n\n"
	quoted = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\\"\"},\"finish_reason\":null}]}\n\n"
)

// A token allocates nothing, whether it is like the one before or not, and alone in its part or not.
func TestTokensAllocateNothing(t *testing.T) {
	r, g := newPassing()
	parts := [][]byte{[]byte(word), []byte(quoted), []byte(word + quoted + word), []byte(word[:40]), []byte(word[40:])}
	pass := func() {
		for _, p := range parts {
			g.now += time.Millisecond
			g.part = p
			if r.Passed(len(p), false) {
				r.GoOn(len(p), false)
			}
		}
	}
	pass()
	if n := testing.AllocsPerRun(100, pass); n != 0 {
		t.Errorf("%g allocations for each round", n)
	}
	if want := r.Answer.Tally().Events; want != 102*6 || r.Outputs != 102*4 {
		t.Errorf("%d events, %d parts with output", want, r.Outputs)
	}
}

// A stream that has begun by something else than output shows its first output later.
func TestFirstOutputBehindTheBegin(t *testing.T) {
	r, g := newPassing()
	const finished = `data: {"choices":[{"index":1,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	var at time.Duration
	for i, part := range []string{finished, word, word} {
		if g.now += time.Second; i == 1 {
			at = g.now
		}
		g.part = []byte(part)
		r.GoOn(len(g.part), false)
	}
	if !r.Begun || r.FirstAt != at || r.Outputs != 2 || r.LatestAt != g.now {
		t.Errorf("begun %v, first output at %s, want %s; %d parts with output", r.Begun, r.FirstAt, at, r.Outputs)
	}
}

// A clock that stands still, or goes back, makes no time negative.
func TestClockThatGoesBack(t *testing.T) {
	r, g := newPassing()
	for _, d := range []time.Duration{0, time.Second, -time.Minute, 0, time.Millisecond} {
		g.now += d
		g.part = []byte(word)
		r.GoOn(len(g.part), false)
	}
	if r.LatestAt < r.FirstAt || r.Gaps.Quantile(0.5) < 0 || r.Gaps.Quantile(1) != time.Second {
		t.Errorf("first %s, latest %s, gaps %s", r.FirstAt, r.LatestAt, r.Gaps.Quantile(1))
	}
}

// BenchmarkToken measures what a token of a stream costs, without the gateway's part of it.
func BenchmarkToken(b *testing.B) {
	r, g := newPassing()
	g.part = []byte(`data: {"id":"chatcmpl-4f1c2d7e9b0a4c55","object":"chat.completion.chunk","created":1760000000,` +
		`"model":"sim","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}]}` + "\n\n")
	b.ReportAllocs()
	for b.Loop() {
		g.now += time.Millisecond
		if r.Passed(len(g.part), false) {
			r.GoOn(len(g.part), false)
		}
	}
}
