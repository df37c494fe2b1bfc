package streamtest

import (
	"slices"
	"time"
)

const (
	// ejecting ejects after three failures, at first for a second.
	ejecting = `"health":{"slow_start":0,"consecutive_failures":3,"ejection_time":"1s","max_ejection_time":"4s"}`
	// ejectingLong ejects for an hour: an ejection does not end while requests are sent one by one on a busy machine.
	ejectingLong = `"health":{"slow_start":0,"consecutive_failures":3,"ejection_time":"1h","max_ejection_time":"1h"}`
)

// ejections is the counter of ejections.
func (t *run) ejections() string { return t.ofCluster("warmgate_ejections_total") }

// settleEjections waits until what an earlier scenario has ejected is counted.
func (t *run) settleEjections() {
	t.Advance(1200 * time.Millisecond)
	t.mark(t.ejections())
}

// wantNoEjections fails the test if an endpoint was ejected since then.
func (t *run) wantNoEjections() {
	t.Helper()
	t.Advance(1200 * time.Millisecond)
	t.wantGrown(t.ejections(), 0)
}

// wantEjections fails the test unless an endpoint was ejected since then.
func (t *run) wantEjections() {
	t.Helper()
	t.Advance(1200 * time.Millisecond)
	if !t.Await(func() bool { return t.grown(t.ejections()) > 0 }) {
		t.Error("no ejection was counted")
	}
}

// busy opens requests until every endpoint but the first has eight, and ends those of the first.
func (t *run) busy() []*stream {
	t.Helper()
	var out []*stream
	for _, s := range t.chats(8 * t.size) {
		if s.Upstream() == 0 {
			t.finish(s)
			continue
		}
		out = append(out, s)
	}
	return out
}

// attractsNothing checks that the first endpoint, which fails at once and so is always idle, gets its part of the
// requests at most, and none once it is ejected. send sends so many, one after the other, and returns how many of them
// the endpoint has got.
func (t *run) attractsNothing(requests int, send func(n int) int) {
	t.Helper()
	t.mark(t.ejections())
	busy := t.busy()
	first := send(requests)
	if most := requests / t.size; first == 0 || first > most {
		t.Errorf("the failing endpoint got %d of %d requests, want some and at most %d", first, requests, most)
	}
	t.Advance(300 * time.Millisecond)
	if n := send(20); n != 0 {
		t.Errorf("once ejected it still got %d of 20 requests", n)
	}
	t.finish(busy...)
	t.wantEjections()
	t.wantDrained()
}

// wantEven opens eight requests for each endpoint and wants each endpoint to get at least half of that.
func (t *run) wantEven() {
	t.Helper()
	counts := make([]int, t.size)
	streams := t.chats(8 * t.size)
	for _, s := range streams {
		counts[s.Upstream()]++
	}
	if slices.Min(counts) < 4 {
		t.Errorf("requests per endpoint: %v, want about 8 each", counts)
	}
	t.finish(streams...)
}
