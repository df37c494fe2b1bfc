package vllmsim

import (
	"testing"
	"time"
)

func TestFleet(t *testing.T) {
	start := time.Now()
	second := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	var (
		idle   = fleetState{idle: true, free: true}
		active = fleetState{free: true}
		full   = fleetState{}
		queues = fleetState{queueing: true}
	)
	f := newFleet(start)
	a, b := f.join(start), f.join(start)
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
		f.report(r.id, r.state, second(r.at))
	}
	want := FleetState{Seconds: 15, Queueing: 10, QueueingWhileIdle: 3, LongestWhileIdle: 2, QueueingWhileFree: 4}
	if got := f.state(second(15)); got != want {
		t.Errorf("state %+v, want %+v", got, want)
	}
}

func TestFleetSeesServers(t *testing.T) {
	f := NewFleet()
	cfg := DefaultConfig()
	cfg.Fleet, cfg.MaxNumSeqs = f, 1
	one, other := newEngine(cfg), newEngine(cfg)
	for range 2 {
		if err := one.submit(newSequence([]byte("x"), 0, 0, 1, finishLength)); err != nil {
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
