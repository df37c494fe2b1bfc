package main

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/harness"
)

// TestChaosRedis plays one scene of each kind, in small: `make chaos-redis` makes the long run.
func TestChaosRedis(t *testing.T) {
	if testing.Short() {
		t.Skip("starts two gateways and a Redis; -short leaves that out")
	}
	s := settings{
		inRedis: true,
		only: []string{
			"killed", "garbage", "data lost", "herd", "clients leave", "clients leave the queue",
			"gateway killed while requests wait", "killed while requests wait", "cluster",
		},
		span: 1500 * time.Millisecond, servers: 4, workers: 2, herd: 200, crowd: 50, streams: 8, rate: 60,
		queueLeavers: 200,
		seed:         audit.Seed(),
		progress:     harness.LogWriter(t),
	}
	t.Logf("SEED=%d repeats this run", s.seed)
	f, err := run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Scenes) != len(s.only) || f.Failed > 0 || f.Requests == 0 {
		t.Errorf("%d scenes, %d requests, %d failed", len(f.Scenes), f.Requests, f.Failed)
	}
	if f.judgement == nil || f.Outages != 2 {
		t.Errorf("judged %v, want the two outages", f.judgement)
	}
	for _, r := range f.Scenes {
		if (r.Scene == "killed" || r.Scene == "garbage") && len(r.Fallbacks) == 0 {
			t.Errorf("%s: nothing fell back: the fault did not reach the plugin", r.Scene)
		}
	}
}

func TestQuantileOfPulses(t *testing.T) {
	start := time.Now()
	var p pulses
	for i := range 100 {
		p.samples = append(p.samples,
			sample{start.Add(time.Duration(i) * time.Millisecond), time.Duration(i+1) * time.Millisecond})
	}
	if got := p.p99(start, start.Add(50*time.Millisecond)); got < 49 || got > 50 {
		t.Errorf("p99 of 1..50 ms is %v ms", got)
	}
	if got := p.p99(start.Add(time.Hour), start.Add(2*time.Hour)); got != 0 {
		t.Errorf("p99 of nothing is %v", got)
	}
}

func TestMinus(t *testing.T) {
	got := minus(map[string]int{"a": 3, "b": 1, "c": 2}, map[string]int{"a": 1, "b": 1})
	if len(got) != 2 || got["a"] != 2 || got["c"] != 2 {
		t.Errorf("%v", got)
	}
}
