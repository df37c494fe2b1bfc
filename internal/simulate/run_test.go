package simulate

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/plugin/config"
)

// play plays sessions with a policy by its name.
func play(t *testing.T, s *Sessions, fleet []Engine, policy string, seed uint64) *Result {
	t.Helper()
	c, err := OfPolicy(policy)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(s.New(seed), fleet, c, seed, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// figures are what a failure shows of a result.
func figures(r *Result) (shown Result) {
	if r != nil {
		shown = *r
	}
	shown.Points, shown.TTFTs = nil, nil
	return shown
}

// small is a load that a few engines can just serve.
func small() *Sessions {
	return &Sessions{
		Users: 60, Requests: 600, Prompts: 4, System: 1000, Turns: 5, Question: 100, Answer: 80, Think: 2 * time.Second,
	}
}

// TestPoliciesDiffer holds what is known of the policies: who looks for cached prompts finds more of them than who only
// keeps sessions together, and the others find least; who counts all requests spreads them evenly.
func TestPoliciesDiffer(t *testing.T) {
	fleet, results := Alike(4, Engine{Config: enginesim.Config{NumBlocks: 4096}}), map[string]*Result{}
	for _, policy := range []string{
		"round_robin", "random", "least_request", "ring_hash", "global_least_request", "prefix_cache",
		"endpoint_metrics",
	} {
		results[policy] = play(t, small(), fleet, policy, 1)
	}
	prefix, ring := results["prefix_cache"], results["ring_hash"]
	if prefix.Cached <= ring.Cached || prefix.TTFT.P50 >= ring.TTFT.P50 {
		t.Errorf("prefix_cache: %+v, ring_hash: %+v", figures(prefix), figures(ring))
	}
	for _, policy := range []string{"round_robin", "random", "least_request", "global_least_request"} {
		if r := results[policy]; r.Cached >= ring.Cached || r.TTFT.P50 <= ring.TTFT.P50 {
			t.Errorf("%s: %+v, ring_hash: %+v", policy, figures(r), figures(ring))
		}
	}
	if r := results["global_least_request"]; r.Uneven > results["least_request"].Uneven || r.Unplaced > 0 {
		t.Errorf("global_least_request: %+v", figures(r))
	}
	if r := results["endpoint_metrics"]; r.Unplaced > 0 {
		t.Errorf("endpoint_metrics: %d requests without a plan, although metrics are read", r.Unplaced)
	}
}

// TestNamedEngine holds that a configuration for another engine reads the metrics of the simulated ones all the same.
func TestNamedEngine(t *testing.T) {
	fleet := Alike(4, Engine{Config: enginesim.Config{NumBlocks: 4096}})
	want := play(t, small(), fleet, "endpoint_metrics", 1)
	c := parsed(t, `{"lb_policy":"endpoint_metrics","lb_config":{"engine":"sglang"}}`)
	got, err := Run(small().New(1), fleet, c, 1, nil)
	if err != nil || got.TTFT != want.TTFT || got.Unplaced > 0 {
		t.Errorf("%+v, %v, want %+v", figures(got), err, figures(want))
	}
}

// TestQueueHoldsBack holds that requests wait in the gateway instead of in engines where endpoints have caps, and are
// refused when they have waited too long.
func TestQueueHoldsBack(t *testing.T) {
	s, fleet := small(), Alike(2, Engine{Config: enginesim.Config{NumBlocks: 4096}})
	s.Think = 100 * time.Millisecond
	run := func(raw string) *Result {
		c, err := ParseContender("it", []byte(raw), config.Higress)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(s.New(1), fleet, c, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	open := run(`{"lb_policy":"global_least_request"}`)
	held := run(`{"lb_policy":"global_least_request","lb_config":{"max_inflight":8,"queue":{"max_wait":"60s"}}}`)
	if open.Waited != 0 || open.Queued < 0.1 || held.Waited < 0.1 || held.Queued > 0.1 || held.Served != s.Requests {
		t.Errorf("at once: %+v\nheld: %+v", figures(open), figures(held))
	}
	late := run(`{"lb_policy":"global_least_request","lb_config":{"max_inflight":8,"queue":{"max_wait":"100ms"}}}`)
	if late.Refused["queue_timeout"]+late.Refused["deadline_unreachable"] == 0 {
		t.Errorf("a short wait: refused %v", late.Refused)
	}
}

// TestRefusalsOfEngines holds that prompts that never fit into memory are told from full queues, and that the gateway
// chooses where the store has no room, as the plugin leaves it to do.
func TestRefusalsOfEngines(t *testing.T) {
	s := small()
	s.Think = 0
	for _, policy := range []string{"random", "prefix_cache"} {
		tiny := play(t, s, Alike(2, Engine{Config: enginesim.Config{NumBlocks: 60, MaxQueued: -1}}), policy, 1)
		if tiny.Served != 0 || tiny.Refused[tooLong] != s.Requests {
			t.Errorf("%s, no memory: %d served, refused %v", policy, tiny.Served, tiny.Refused)
		}
		full := Alike(2, Engine{Config: enginesim.Config{NumBlocks: 8192, MaxNumSeqs: 2, MaxQueued: 1}})
		if busy := play(t, s, full, policy, 1); busy.Refused[engineBusy] == 0 || len(busy.Refused) != 1 {
			t.Errorf("%s, short queues: refused %v", policy, busy.Refused)
		}
	}
	s.Requests = 100
	many := play(t, s, Alike(5000, Engine{}), "global_least_request", 1)
	if many.Unplaced != s.Requests || many.Served != s.Requests {
		t.Errorf("too many endpoints for the store: %d unplaced, %d served", many.Unplaced, many.Served)
	}
}

// TestConservation holds that every request that is sent is served or refused once, that nothing remains, and that the
// same seed gives the same result.
func TestConservation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := &Sessions{
			Users: rapid.IntRange(1, 40).Draw(rt, "users"), Requests: rapid.IntRange(1, 200).Draw(rt, "requests"),
			Prompts: rapid.IntRange(0, 3).Draw(rt, "prompts"), System: rapid.IntRange(0, 500).Draw(rt, "system"),
			Turns: rapid.IntRange(1, 4).Draw(rt, "turns"), Question: rapid.IntRange(1, 100).Draw(rt, "question"),
			Answer: rapid.IntRange(1, 60).Draw(rt, "answer"),
			Think:  time.Duration(rapid.IntRange(0, 2000).Draw(rt, "think")) * time.Millisecond,
		}
		fleet := Alike(rapid.IntRange(1, 5).Draw(rt, "fleet"), Engine{Config: enginesim.Config{
			NumBlocks: rapid.IntRange(100, 2000).Draw(rt, "blocks"),
			MaxQueued: rapid.SampledFrom([]int{-1, 3}).Draw(rt, "queued"),
		}})
		raw := rapid.SampledFrom([]string{
			`{"lb_policy":"prefix_cache"}`, `{"lb_policy":"global_least_request"}`, `{"lb_policy":"endpoint_metrics"}`,
			`{"lb_policy":"global_least_request","lb_config":{"max_inflight":2}}`,
			`{"lb_policy":"prefix_cache","lb_config":{"max_inflight":2,"queue":{"max_wait":"2s"}}}`,
			`{"lb_policy":"prefix_cache","lb_config":{"push":"pending","queue":{"max_wait":"10s"}}}`,
		}).Draw(rt, "config")
		c, err := ParseContender("it", []byte(raw), config.Higress)
		if err != nil {
			rt.Fatal(err)
		}
		seed := rapid.Uint64().Draw(rt, "seed")
		r, err := newRun(s.New(seed), Alone(fleet), c, seed)
		if err != nil {
			rt.Fatal(err)
		}
		r.load.Begin(r.sendAt)
		for last := time.Duration(0); r.busy(); last = r.now {
			if r.happens(r.events.next()); r.now < last || r.err != nil {
				rt.Fatalf("%v after %v, %v", r.now, last, r.err)
			}
		}
		refused := 0
		for _, n := range r.all.refusals {
			refused += n
		}
		if sum := r.all.served + refused; sum != s.Requests || r.all.requests != s.Requests {
			rt.Fatalf("%d served and %d refused of %d sent, want %d", r.all.served, refused, r.all.requests,
				s.Requests)
		}
		p := r.fronts[0].product
		p.store.Flush(r.now)
		loads, err := p.store.Loads(clusterName, []string{p.view.Endpoints[0].Addr}, nil)
		if err != nil || loads[0].Requests != 0 || loads[0].Tokens != 0 || p.waiting != 0 {
			rt.Fatalf("%v and %d waiting at the end, %v", loads, p.waiting, err)
		}
		again, err := Run(s.New(seed), fleet, c, seed, nil)
		if got := r.result("it"); err != nil || !reflect.DeepEqual(got, again) {
			rt.Fatalf("twice the same run: %+v and %+v, %v", figures(got), figures(again), err)
		}
	})
}
