package overload

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

// TestWaits reduces what became of the requests of two, of whom one is passed by others.
func TestWaits(t *testing.T) {
	second := time.Second
	b := &board{arrivals: []arrival{
		{"b", "b 0", 2 * second}, {"b", "b 1", 3 * second}, {"a", "a 0", 4 * second}, {"b", "b 2", 5 * second},
	}}
	request := func(name string) loadgen.Request {
		return loadgen.Request{Header: http.Header{nameHeader: {name}}}
	}
	reqs := []loadgen.Request{request("a 0"), request("b 0"), request("a 1"), request("a 2"), request("a 3")}
	samples := []loadgen.Sample{
		{Sent: second, Status: http.StatusOK},
		{Sent: second},
		{Sent: second, Status: http.StatusTooManyRequests},
		{Sent: 4 * second, Total: 7 * second, Error: loadgen.ErrTimeout},
		{Error: loadgen.ErrNotSent},
	}
	if w := b.waitsOf("a", reqs, samples); w != (waits{sent: 3, refused: 1, p99: 7 * second, passed: 2}) {
		t.Errorf("%+v", w)
	}
	if gap := b.gap(second, 10*second); gap != 5 {
		t.Errorf("a gap of %v s", gap)
	}
}

// TestScenes plays the short form of every scene.
func TestScenes(t *testing.T) {
	f := playedQuick(t)
	for _, name := range []string{
		"refusals_false_share", "interactive_passed_max", "flood_kept_names_other_tenant_p99_ms", "stall_before_max",
		"interactive_redis_strict_wait_p99_ms", "kill_placed",
	} {
		if f[name] == nil {
			t.Errorf("no %s in %+v", name, f)
		}
	}
}

// quick plays the short form of all scenes, for all tests of a run.
var quick = sync.OnceValues(func() (f bench.Line, err error) {
	ctx := context.Background()
	s := settings{quick: true, Settings: bench.Settings{Workers: 1, Seed: 1}}
	b, err := newBoard(ctx, compare.Options{Workers: s.Workers})
	if err != nil {
		return f, err
	}
	f, err = playScenes(ctx, b, s, scenes())
	return f, errors.Join(err, b.Close())
})

// playedQuick returns what the short form of all scenes has measured.
func playedQuick(t *testing.T) bench.Line {
	t.Helper()
	if testing.Short() {
		t.Skip("starts Envoys")
	}
	f, err := quick()
	if err != nil {
		t.Fatal(err)
	}
	return f
}
