package core

import (
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
)

// promptOf returns a request with a prompt of its own, which has several blocks.
func promptOf(about string) streamtest.Request {
	return streamtest.Request{Frames: []string{`{"prompt":"` + strings.Repeat(about+" ", 400) + `"}`}}
}

// A request whose prompt is cached here waits for that as long as it has patience, while others are forwarded.
func TestWaitsForItsPrompt(t *testing.T) {
	us, eu := startRegions(t, 1, 1, "")
	long := streamtest.Request{Frames: []string{`{"prompt":"` + strings.Repeat("cached ", 8000) + `"}`}}
	us.client(0, long).Finish()
	busy := us.client(0, promptOf("other"))
	waits, goes := us.client(1, long), us.client(1, promptOf("new"))
	if !waits.Held() || goes.cluster != "to-eu" {
		t.Fatalf("the one with a cached prompt is sent to %q, the other to %q", waits.cluster, goes.cluster)
	}
	pass(1500*time.Millisecond, us, eu)
	if !waits.Held() {
		t.Errorf("before its patience is over it is sent to %q", waits.cluster)
	}
	pass(time.Second, us, eu)
	if waits.cluster != "to-eu" {
		t.Errorf("when its patience is over it is sent to %q", waits.cluster)
	}
	for _, c := range []*fakeStream{busy, waits, goes} {
		c.Finish()
	}
	us.drained()
	eu.drained()
}

// A request waits for no longer than it takes to compute what of its prompt is cached here, and for the way to the
// other region: with a short prompt it goes there before its patience is over.
func TestWaitsForNoMoreThanItsPromptSaves(t *testing.T) {
	us, eu := startRegions(t, 1, 1, "")
	short := streamtest.Request{Frames: []string{`{"prompt":"` + strings.Repeat("You are kind. ", 80) + `"}`}}
	us.client(0, short).Finish()
	busy := us.client(0, short)
	waits := us.client(1, short)
	us.wantWaiting(waits)
	pass(200*time.Millisecond, us, eu)
	us.wantWaiting(waits)
	pass(200*time.Millisecond, us, eu)
	if waits.cluster != "to-eu" {
		t.Errorf("after 0.4 s a request of 280 tokens is sent to %q", waits.cluster)
	}
	waits.Finish()
	busy.Finish()
	us.drained()
	eu.drained()
}

// With cached_first what was forwarded before goes there again while an endpoint here is open, unless that has the
// prompt too, or there is no room.
func TestCachedFirst(t *testing.T) {
	for _, c := range []struct {
		members string
		want    string
	}{{"", "llm"}, {`,"cached_first":true`, "to-eu"}} {
		us, eu := startRegions(t, 1, 1, c.members)
		busy := us.client(0, promptOf("other"))
		us.client(0, promptOf("away")).Finish()
		busy.Finish()
		pass(time.Second, us, eu)
		again := us.client(0, promptOf("away"))
		if again.cluster != c.want {
			t.Errorf("%q: sent to %q, want %q", c.members, again.cluster, c.want)
		}
		again.Finish()
		for _, about := range []string{"new", "other"} {
			at := us.client(0, promptOf(about))
			if at.cluster != "llm" {
				t.Errorf("%q: the %s prompt is sent to %q", c.members, about, at.cluster)
			}
			at.Finish()
		}
		us.peers = nil
		pass(3*time.Second, us, eu)
		cut := us.client(0, promptOf("away"))
		if cut.cluster != "llm" {
			t.Errorf("%q: cut off, sent to %q", c.members, cut.cluster)
		}
		cut.Finish()
		us.drained()
		eu.drained()
	}
}
