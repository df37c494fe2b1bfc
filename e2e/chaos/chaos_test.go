package main

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/chaos/regions"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/lab"
)

// A short run of the scenes that take no long waiting; `make chaos` makes the long one.
func TestChaos(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	only := []string{
		"herd", "clients leave", "slow bodies", "clients leave the queue", "queue removed", "many wait",
		"VM lost: fatal", "VM lost while requests wait", "cluster dies", "region partitioned",
		"region killed and adopted", "hops forged",
	}
	f, err := run(ctx, "chaos", &lab.Settings{
		Only: only, Span: 1500 * time.Millisecond, Servers: 4, Workers: 2, Herd: 200, Leavers: 240,
		QueueLeavers: 300, Crowd: 60, Waiting: 100, Forged: 240,
		Streams: 16, Rate: 60,
		Seed: 1, Progress: harness.LogWriter(t),
	}, true)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Scenes) != len(only) || f.Violations != 0 || f.Failed != 0 || f.Requests < 400 {
		t.Errorf("the run did not do what it should: %+v", f)
	}
	for i, name := range only {
		if f.Scenes[i].Scene != name || f.Scenes[i].Requests == 0 {
			t.Errorf("scene %d: %+v, want %q with requests", i, f.Scenes[i], name)
		}
		if most, may := mostExcused[name]; f.Scenes[i].Excused > most && (most > 0 || !may) {
			t.Errorf("%s: %d failures were excused, want %d at most", name, f.Scenes[i].Excused, most)
		}
	}
}

// mostExcused is how many failures a scene may excuse, 0 for any number. Others may excuse none.
var mostExcused = map[string]int{
	"VM lost: fatal": 0, "VM lost while requests wait": 0, "cluster dies": 0, "region killed and adopted": 0,
	// Connections break or are silent five times, each time between two regions that may serve each other with both of
	// their servers, each of which takes six requests.
	"region partitioned": 5 * 2 * regions.Servers * regions.Takes,
}

// The door through which a test loses a VM must not be in what is shipped.
func TestNoTrapIsShipped(t *testing.T) {
	for host, has := range map[harness.Host]bool{
		harness.HostEnvoy: false, harness.HostHigress: false,
		harness.HostEnvoyChaos: true,
	} {
		path, err := harness.Wasm(t.Context(), host)
		if err != nil {
			t.Fatal(err)
		}
		code, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(code, []byte("x-warmgate-chaos")) != has {
			t.Errorf("%s: the trap is in it: %t, want %t", path, !has, has)
		}
	}
}

// TestChaosRedis plays one scene of each kind, in small: `make chaos-redis` makes the long run.
func TestChaosRedis(t *testing.T) {
	if testing.Short() {
		t.Skip("starts two gateways and a Redis; -short leaves that out")
	}
	s := lab.Settings{
		Only: []string{
			"killed", "garbage", "data lost", "herd", "clients leave", "clients leave the queue",
			"gateway killed while requests wait", "killed while requests wait", "cluster",
		},
		Span: 1500 * time.Millisecond, Servers: 4, Workers: 2, Herd: 200, Crowd: 50, Streams: 8, Rate: 60,
		QueueLeavers: 200,
		Seed:         audit.Seed(),
		Progress:     harness.LogWriter(t),
	}
	t.Logf("SEED=%d repeats this run", s.Seed)
	f, err := run(t.Context(), "chaos-redis", &s, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Scenes) != len(s.Only) || f.Failed > 0 || f.Requests == 0 {
		t.Errorf("%d scenes, %d requests, %d failed", len(f.Scenes), f.Requests, f.Failed)
	}
	if f.Judgement == nil || f.Outages != 2 {
		t.Errorf("judged %v, want the two outages", f.Judgement)
	}
	for _, r := range f.Scenes {
		if (r.Scene == "killed" || r.Scene == "garbage") && len(r.Fallbacks) == 0 {
			t.Errorf("%s: nothing fell back: the fault did not reach the plugin", r.Scene)
		}
	}
}
