package main

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
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
	f, err := run(ctx, settings{
		only: only, span: 1500 * time.Millisecond, servers: 4, workers: 2, herd: 200, leavers: 240,
		queueLeavers: 300, crowd: 60, waiting: 100, forged: 240,
		streams: 16, rate: 60,
		oneSite: true, seed: 1, progress: harness.LogWriter(t),
	})
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

// Scenes are chosen by their names, or by what several have in their names.
func TestChosen(t *testing.T) {
	for only, want := range map[string]int{"clients leave": 1, "clients": 2, "clients leave,clients": 2, "nothing": 0} {
		if got := (settings{only: strings.Split(only, ",")}).chosen(shipped); len(got) != want {
			t.Errorf("%s: %d scenes, want %d", only, len(got), want)
		}
	}
	if _, err := run(t.Context(), settings{only: []string{"nothing"}, progress: io.Discard}); err == nil {
		t.Error("a run without a scene succeeds")
	}
}

// mostExcused is how many failures a scene may excuse, 0 for any number. Others may excuse none.
var mostExcused = map[string]int{
	"VM lost: fatal": 0, "VM lost while requests wait": 0, "cluster dies": 0, "region killed and adopted": 0,
	// Connections break twice, each time between two regions that may serve each other with all their servers.
	"region partitioned": 2 * 2 * regionServers * regionTakes,
}

// Clients of waiting requests leave, or stay, at a point of their own.
func TestQueueLeaver(t *testing.T) {
	seen := map[loadgen.LeavePoint]int{}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		seen[queueLeaver(r, i).Leave.At]++
	}
	if seen[loadgen.Stay] < 10 || seen[loadgen.MidUpload] < 10 || seen[loadgen.BeforeFirstByte] < 200 {
		t.Errorf("300 clients leave at %v", seen)
	}
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

// Every way to leave, and staying, must be among a few hundred clients, and the same seed must give the same ones.
func TestLeaver(t *testing.T) {
	seen := map[loadgen.LeavePoint]int{}
	a, b := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		q, again := leaver(a, i), leaver(b, i)
		if !bytes.Equal(q.Body, again.Body) || q.Leave != again.Leave || q.Upload != again.Upload {
			t.Fatalf("request %d differs between two runs of one seed", i)
		}
		seen[q.Leave.At]++
	}
	for _, at := range append(leavePoints, loadgen.Stay) {
		if seen[at] < 10 {
			t.Errorf("%d of 300 clients leave at %q", seen[at], at)
		}
	}
}

func TestExcuses(t *testing.T) {
	tally := audit.Tally{Sent: 10, OK: 4, Left: 1, Errors: map[string]int{"truncated": 2, "reset": 1, "status_500": 2}}
	for _, tt := range []struct {
		excused func(audit.Tally) int
		want    int
	}{
		{none, 0},
		{of("truncated", "reset"), 3},
		{of("status_500"), 2},
		{of("timeout"), 0},
	} {
		if got := tt.excused(tally); got != tt.want {
			t.Errorf("%d failures excused, want %d", got, tt.want)
		}
	}
	if n := tally.Failed(); n != 5 {
		t.Errorf("Failed() = %d, want 5", n)
	}
}
