package core

import (
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/host"
)

// fakeEpoch is when fake processes start, since the Unix epoch.
const fakeEpoch = 20_000 * 24 * time.Hour

func (g fakeGateway) Wall() time.Duration { g.call("Wall"); return fakeEpoch + g.now + g.ahead }

// Probe implements Gateway: one worker after the other of the peer's process answers.
func (g fakeGateway) Probe(cluster string, p host.ProbeCall, answered func(text string)) error {
	g.call("Probe")
	g.probes++
	vm := g.inside
	g.asking[vm] = true
	run := vm.Newest().Answer("another region")
	vm.Newest().CallSent()
	answer := func(text string) {
		g.in(vm, func() { run(func() { answered(text) }) })
	}
	peer := g.peers[cluster]
	if peer == nil {
		g.after(p.Timeout, func() { answer("") })
		return nil
	}
	w := peer.workers[g.probes%len(peer.workers)]
	peer.inside = w.vm
	c := w.open(streamtest.Request{Method: "GET", Path: p.Path, Headers: p.Headers}.Filled())
	peer.settle()
	if !c.Ended && !c.Held() { // it was taken for a client's
		c.Finish()
	}
	var look func()
	began := g.now
	look = func() {
		switch {
		case c.Ended:
			answer(c.Result().Headers[p.Answer])
		case g.now-began < p.Timeout: // the peer's Redis has not answered
			g.after(time.Millisecond, look)
		default:
			c.ResetByClient()
			answer("")
		}
	}
	g.after(g.rtt, look)
	return nil
}
