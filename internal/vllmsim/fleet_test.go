package vllmsim

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
)

func TestFleet(t *testing.T) {
	now := time.Now()
	start := now
	var (
		idle   = fleetState{idle: true, free: true}
		active = fleetState{free: true}
		full   = fleetState{}
		queues = fleetState{queueing: true}
	)
	f := newFleet(func() time.Time { return now })
	a, b := f.join(), f.join()
	for _, r := range []struct {
		at    int
		id    int
		state fleetState
	}{
		{1, a, queues}, {3, b, active}, // 2 s at an idle peer
		{4, b, full},                // 1 s at a peer with a free slot
		{9, a, full}, {10, b, idle}, // 5 s without alternative
		{11, a, queues}, {12, a, full}, // 1 s at an idle peer
		{13, b, fleetState{}}, {14, a, queues}, // b has gone
	} {
		now = start.Add(time.Duration(r.at) * time.Second)
		f.report(r.id, r.state)
	}
	want := FleetState{Seconds: 15, QueueingWhileIdle: 3, QueueingWhileFree: 4}
	now = start.Add(15 * time.Second)
	if got := f.State(); got != want {
		t.Errorf("state %+v, want %+v", got, want)
	}
}

func TestFleetSeesServers(t *testing.T) {
	f := NewFleet()
	cfg := enginesim.Config{MaxNumSeqs: 1}
	one, other := newRunner(cfg, enginesim.Times{}, f), newRunner(cfg, enginesim.Times{}, f)
	for range 2 {
		if err := one.submit(&delivery{Request: enginesim.Request{Prompt: []byte("x"), Tokens: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	if f.queueing != 1 || f.idle != 1 || f.free != 1 {
		t.Errorf("%d queueing, %d idle, %d free; want 1 each", f.queueing, f.idle, f.free)
	}
	other.leave()
	if f.idle != 0 || f.free != 0 {
		t.Errorf("%d idle, %d free after the idle one has left", f.idle, f.free)
	}
}
