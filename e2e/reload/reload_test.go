package main

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/plugin/config"
)

// A short run; `make e2e-reload` makes the long one.
func TestReload(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	f, err := run(ctx, &settings{
		Settings: lab.Settings{Rate: 40, Streams: 8, Servers: 4, Workers: 2, Seed: 1, Progress: harness.LogWriter(t)},
		pushes:   21, modules: 1, perRound: 21, burst: 100, pause: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	if f.Pushes != 21 || f.Failed != 0 || f.Cut != 0 || f.Audits != 1 || f.Modules != 1 || f.Refused == 0 ||
		f.Native == 0 || f.Endpoints == 0 || f.Waited == 0 {
		t.Errorf("the run did not do what it should: %+v", f)
	}
}

func TestPlan(t *testing.T) {
	for _, n := range []int{1, 10, 100} {
		p := plan(rand.New(rand.NewPCG(1, 2)), n, min(n-1, 2))
		if len(p) != n || p[0] == module {
			t.Errorf("plan of %d pushes: %v", n, p)
		}
		if n == 100 {
			for k := range kinds {
				if !slices.Contains(p, k) {
					t.Errorf("no push of kind %d among 100", k)
				}
			}
		}
	}
}

// What the run uses as good and as bad configurations must be so for the parser as well.
func TestConfigs(t *testing.T) {
	for _, c := range configs([]string{"127.0.0.1:1", "127.0.0.1:2"}, 4) {
		set, err := config.Parse([]byte(c.text), config.Envoy)
		if set == nil || len(set.Refusals()) != c.refused {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, text := range badConfigs {
		if set, err := config.Parse([]byte(text), config.Envoy); set != nil || err == nil {
			t.Errorf("taken: %.100q", text)
		}
	}
}

func TestVariant(t *testing.T) {
	dir := t.TempDir()
	const magic = "\x00asm\x01\x00\x00\x00"
	source := dir + "/source.wasm"
	if err := os.WriteFile(source, []byte(magic), 0o600); err != nil {
		t.Fatal(err)
	}
	path, err := variant(source, dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if want := magic + "\x00\x08\x07variant"; err != nil || string(got) != want {
		t.Errorf("variant: %q, %v, want %q", got, err, want)
	}
}
