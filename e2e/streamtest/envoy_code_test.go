package streamtest_test

import (
	"context"
	"os"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/streamtest"
)

// New code comes with new VMs. What the old ones have counted stays counted, and requests that began in them end
// normally.
func TestEnvoyNewCode(t *testing.T) {
	harness.LongT(t)
	for _, version := range []string{"", harness.OldestVersion} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			d := newEnvoy(t,
				harness.StartT(t, harness.Options{Version: version, Edit: forScenarios, Config: envoyBase}))
			d.SetEndpoints(make([]streamtest.Endpoint, 3))
			old := d.open(t, 3)
			d.wantLoads(t, 1)
			if err := d.gw.PushModule(context.Background(), otherCode(t), envoyBase); err != nil {
				t.Fatal(err)
			}
			d.awaitPlugin(make([]streamtest.Endpoint, 3)) // a new VM has to learn them
			recent := d.open(t, 3)
			d.wantLoads(t, 2)
			for _, s := range old {
				s.Finish()
			}
			d.wantLoads(t, 1)
			for _, s := range recent {
				s.Finish()
			}
			d.wantLoads(t, 0)
			for i, s := range append(old, recent...) {
				if r := s.Result(); r.Status != 200 || r.Cut || r.Headers["x-warmgate-reason"] != "chosen" {
					t.Errorf("request %d: %+v", i, r)
				}
			}
		})
	}
}

// otherCode returns the artifact with one more section, which has no effect: Envoy treats it as different code that
// behaves the same.
func otherCode(t *testing.T) string {
	t.Helper()
	path := artifactCopy(t)
	code, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	code = append(code, "\x00\x06\x04test\x01"...) // custom section: length, name with its length, a byte of content
	if err := os.WriteFile(path, code, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// open sends n requests and expects each to reach an endpoint.
func (d *envoy) open(t *testing.T, n int) []streamtest.Stream {
	t.Helper()
	var out []streamtest.Stream
	for range n {
		s := d.Open(streamtest.Request{Frames: []string{"{}"}})
		if s.Upstream() < 0 {
			t.Fatalf("a request reached no endpoint: %+v", s.Result())
		}
		out = append(out, s)
	}
	return out
}

// wantLoads fails the test unless each of three endpoints comes to have n requests in flight.
func (d *envoy) wantLoads(t *testing.T, n int64) {
	t.Helper()
	var got [3]int64
	if !d.Await(func() bool {
		for i := range got {
			got[i] = d.Load(i).Requests
		}
		return got == [3]int64{n, n, n}
	}) {
		t.Errorf("requests in flight: %v, want %d each", got, n)
	}
}
