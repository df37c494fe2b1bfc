package region

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb/storetest"
)

// A peer that fails everything gets three requests, and then one after each pause: a second, twice as long each time,
// and half a minute at most. The first one that it serves ends that.
func TestOutcomes(t *testing.T) {
	const second = time.Second
	var o outcomes
	now := time.Hour
	fail := func(pause time.Duration) { // which follows
		t.Helper()
		if o.pauses(now) {
			t.Fatal("paused already")
		}
		sent := now
		o.send(sent)
		if trial := o.until > 0; trial != o.pauses(now) {
			t.Errorf("during a trial, if it is one (%v), it pauses: %v", trial, !trial)
		}
		now += 10 * time.Millisecond
		if !o.end(now, sent, false) {
			t.Error("nothing has changed")
		}
		if pause > 0 && (!o.pauses(now+pause-1) || o.pauses(now+pause)) {
			t.Errorf("nothing is sent for %v, want %v", o.until-now, pause)
		}
		now += pause
	}
	for range 2 {
		for i, pause := range []time.Duration{0, 0, second, 2 * second, 4 * second, 8 * second, 16 * second} {
			if fail(pause); i < 2 && o.pauses(now) {
				t.Errorf("pauses after %d failures", i+1)
			}
		}
		for range 300 {
			fail(30 * second)
		}
		if !o.end(now, now, true) || o != (outcomes{}) {
			t.Errorf("after a success: %+v", o)
		}
		if o.end(now, now, true) {
			t.Error("a second success changes something")
		}
	}
}

// What was under way when a pause began does not lengthen it; a trial of which nothing is heard is followed by another
// one after one more pause, and then counts for nothing.
func TestOutcomesLate(t *testing.T) {
	const ms = time.Millisecond
	var o outcomes
	for i := range time.Duration(9) {
		if changed := o.end(time.Hour+i*ms, time.Hour-ms, false); changed != (i < mostFailed) {
			t.Errorf("failure %d changes something: %v", i+1, changed)
		}
	}
	first := time.Hour + 2*ms + firstPause
	if o.until != first {
		t.Errorf("nothing is sent before %v, want %v", o.until, first)
	}
	o.send(first)
	second := first + 2*firstPause
	if o.pauses(second) || !o.pauses(second-1) {
		t.Errorf("a second trial after %v, want %v", o.until-first, 2*firstPause)
	}
	o.send(second)
	if o.end(second, first, false) {
		t.Error("the first trial still counts")
	}
	if !o.end(second+ms, second, false) || o.until != second+ms+4*firstPause {
		t.Errorf("after the second one nothing is sent for %v", o.until-second)
	}
}

// All workers heed what one of them has heard, and one of them sends the trial.
func TestOutcomesAreShared(t *testing.T) {
	now := time.Hour
	kv := storetest.NewMemory()
	b := boardOf(t, kv, now, status{State: State{Open: 9}})
	other := NewBoard(kv, "board", b.config)
	for range mostFailed {
		if peer, _ := b.Forward(now, &Request{Session: 1}); peer != 0 {
			t.Fatalf("to %d", peer)
		}
		if err := b.End(now, 0, now, false); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range []*Board{b, other} {
		peer, _ := w.Forward(now, &Request{Session: 1})
		if all, err := w.Peers(now); peer != None || w.HasRoom(now, nil) || err != nil || all[0].Available {
			t.Errorf("to %d: %+v %v", peer, all, err)
		}
	}
	b.config.Interval, other.config.Interval = time.Minute, time.Minute // its answer is not too old
	now += firstPause
	if !b.HasRoom(now, nil) || !other.HasRoom(now, nil) {
		t.Error("no trial")
	}
	if peer, _ := b.Forward(now, &Request{Session: 1}); peer != 0 {
		t.Errorf("the trial: to %d", peer)
	}
	if peer, _ := other.Forward(now, &Request{Session: 1}); peer != None {
		t.Errorf("a second one: to %d", peer)
	}
	if err := other.End(now, 0, now, true); err != nil {
		t.Fatal(err)
	}
	for _, w := range []*Board{b, other} {
		if peer, _ := w.Forward(now, &Request{Session: 1}); peer != 0 {
			t.Errorf("after it was served: to %d", peer)
		}
	}
}

// A request waits at home for where its prompt is, but not for a region that fails what it gets.
func TestWaitsForNoFailingRegion(t *testing.T) {
	const now = time.Hour
	b := boardOf(t, storetest.NewMemory(), now, status{State: State{Open: 9}}, status{State: State{Open: 9}})
	for range mostFailed {
		if err := b.End(now, 0, now-1, false); err != nil {
			t.Fatal(err)
		}
	}
	if peer, why := b.Forward(now, &Request{Matched: []int{5, 0}, Session: 1}); peer != 1 || why != ByTime {
		t.Errorf("to %d, %v", peer, why)
	}
}

// What is sent to the servers of an adopted peer is no trial of its gateways.
func TestAdoptedHasNoTrial(t *testing.T) {
	const now = time.Hour
	b := boardOf(t, storetest.NewMemory(), now, status{
		State: State{Open: 9}, adopted: true, servers: State{Open: 9}, seen: now,
		outcomes: outcomes{failed: mostFailed, until: now},
	})
	if peer, _ := b.Forward(now, &Request{Session: 1}); peer != 0 || b.peers[0].outcomes.until != now {
		t.Errorf("to %d: %+v", peer, b.peers[0].outcomes)
	}
}
