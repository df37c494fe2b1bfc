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

// TestLimit plays traffic at twice and ten times the capacity in simulated time. The servers work there as fast as the
// capacity says; no critical call is lost, and with lengths more is answered than without.
func TestLimit(t *testing.T) {
	const warm, span = 2 * time.Second, 10 * time.Second
	limit, err := capacity()
	if err != nil {
		t.Fatal(err)
	}
	for _, load := range []float64{0.8, 2, 10} {
		calls, err := Calls(1, load, fleet(), warm+span, false)
		if err != nil {
			t.Fatal(err)
		}
		with, without := foreseen(calls, true), foreseen(calls, false)
		a, b := resultOf(with, warm, span), resultOf(without, warm, span)
		t.Logf("%v ×: with lengths %.1f/s %v, without lengths %.1f/s %v", load, a.Goodput, a.Good, b.Goodput, b.Good)
		var worked time.Duration // of the servers with full batches
		for i, o := range without {
			if o.attempts[0].Status == http.StatusOK && o.end >= warm && o.end < warm+span {
				worked += compare.Work(fleet()[0], calls[i].Prompt, calls[i].MaxTokens)
			}
		}
		busy := worked.Seconds() / (servers * span.Seconds())
		switch {
		case a.lost+b.lost > 0:
			t.Errorf("%v ×: %d and %d critical calls are lost", load, a.lost, b.lost)
		case load < 1 && a.Good["batch"]+b.Good["batch"] < 2:
			t.Errorf("%v ×: not all is in time: %v, %v", load, a.Good, b.Good)
		case load > 1 && (a.Goodput < b.Goodput || b.Goodput < 0.9*limit || busy < 0.9 || busy > 1.05):
			t.Errorf("%v ×: %.1f/s, without lengths %.1f/s, capacity %.1f/s, servers busy %.2f", load, a.Goodput,
				b.Goodput, limit, busy)
		}
	}
}

// TestScenesKeepTheirPromises holds what the scenes show by counts, which a busy machine hardly changes. If a backlog
// went first, hundreds would pass; likewise beside a flood that is not held to its turn. Servers without a limit have
// several times their slots. Names that are kept are tenants once they are answered, and take turns: no bound.
//
// One turn is as many as are served at once. As many again may pass while a request is on its way: it counts from where
// its client sends it to where a server sees it, since gateways with the shipped file tell nobody how long it waited.
//
// What a killed gateway had at the servers is kept for it for seconds. What others leave is not granted to those who
// waited in it: each of their places is taken again, several times even.
func TestScenesKeepTheirPromises(t *testing.T) {
	f := playedQuick(t)
	const most = 2 * servers * slots
	count := func(name string) int { return f[name].(int) }
	for what, name := range map[string]string{
		"batch jobs passed an interactive request":                         "interactive_passed_max",
		"batch jobs passed an interactive request, with Redis,":            "interactive_redis_passed_max",
		"batch jobs passed an interactive request, with Redis and strict,": "interactive_redis_strict_passed_max",
		"requests of the flood passed one of the other tenant":             "flood_other_tenant_passed_max",
		"requests with made-up names passed one of the other tenant":       "flood_names_other_tenant_passed_max",
	} {
		if got := count(name); got > most {
			t.Errorf("%d %s, want at most %d", got, what, most)
		}
	}
	for _, name := range []string{
		"interactive_refused", "interactive_redis_refused", "interactive_redis_strict_refused",
		"flood_other_tenant_refused", "flood_names_other_tenant_refused",
	} {
		if n := count(name); n > 0 {
			t.Errorf("%s: %d requests refused of those that must not be", name, n)
		}
	}
	if count("kill_placed") < count("kill_held") {
		t.Errorf("after a gateway was killed, the other one had %d requests at servers, placed %d", count("kill_held"),
			count("kill_placed"))
	}
	if overflow, stale := f.Value("stall_overflow_max"), f.Value("stall_overflow_stale_max"); overflow > 1.5 ||
		stale > 1.25 {
		t.Errorf("%v of the slots in flight after the metrics stalled, %v once they were stale, %v before", overflow,
			stale, f["stall_before_max"])
	}
}
