package core

import (
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
)

// fakeEpoch is when fake processes start, since the Unix epoch.
const fakeEpoch = 20_000 * 24 * time.Hour

func (g fakeGateway) Wall() time.Duration { g.call("Wall"); return fakeEpoch + g.now + g.ahead }

// Probe implements Gateway: the first worker of the peer's process answers.
func (g fakeGateway) Probe(cluster string, p ProbeCall, answered func(text string)) error {
	g.call("Probe")
	g.probes++
	vm, text := g.inside, ""
	run := vm.Newest().Answer("another region")
	vm.Newest().CallSent()
	delay := p.Timeout
	if peer := g.peers[cluster]; peer != nil {
		peer.inside = peer.workers[0].vm
		c := peer.workers[0].open(streamtest.Request{
			Method: "GET", Path: p.Path, Headers: [][2]string{{p.Header, p.Text}},
		}.Filled())
		peer.settle()
		if !c.ended { // it was taken for a client's
			(&fakeClient{c}).Finish()
		}
		text, delay = c.result.Headers[p.Answer], g.rtt
	}
	g.fakeProcess.events = append(g.fakeProcess.events, fakeEvent{g.now + delay, func() {
		g.fakeProcess.inside = vm
		run(func() { answered(text) })
		g.back()
		g.settle()
	}})
	return nil
}

func (s *fakeStream) RemoveRequestHeader(name string) {
	s.called("RemoveRequestHeader")
	delete(s.headers, name)
}
