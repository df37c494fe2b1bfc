package streamtest

import (
	"slices"
	"time"
)

// healthScenarios are about endpoints that fail, are new, or return.
var healthScenarios = []scenario{
	{name: "an unhealthy endpoint gets nothing", list: []Endpoint{{}, {State: Unhealthy}, {}}, run: func(t *run) {
		wantOnly(t, t.serve(30), 0, 2)
	}},
	{
		name: "a draining endpoint gets nothing", needs: []Ability{HostDraining},
		list: []Endpoint{{State: Draining}, {}, {}, {State: Draining}}, run: func(t *run) {
			wantOnly(t, t.serve(30), 1, 2)
		},
	},
	{
		name: "an ejected endpoint gets nothing", needs: []Ability{HostEjection},
		list: []Endpoint{{}, {State: Ejected}, {}}, run: func(t *run) { wantOnly(t, t.serve(30), 0, 2) },
	},
	{name: "a change of health holds at once", endpoints: 3, run: func(t *run) {
		streams := t.chats(6)
		t.SetEndpoints([]Endpoint{{}, {State: Unhealthy}, {}})
		wantOnly(t, t.serve(20), 0, 2)
		t.SetEndpoints([]Endpoint{{}, {}, {}})
		back := false
		for i := 0; i < 30 && !back; i++ {
			s := t.chats(1)[0]
			back = s.Upstream() == 1
			streams = append(streams, s)
			t.Advance(50 * time.Millisecond)
		}
		if !back {
			t.Error("endpoint 1 is healthy again but gets nothing, though the others are busy")
		}
		t.finish(streams...)
		t.wantDrained()
	}},
	{name: "endpoints come and go", endpoints: 2, run: func(t *run) {
		old := t.chats(4)
		t.SetEndpoints([]Endpoint{{}, {}, {}, {}})
		t.size = 4
		t.warm()
		streams := t.chats(4)
		t.wantLoads(2, 2, 2, 2)
		t.SetEndpoints([]Endpoint{{}})
		last := t.chats(2)
		for _, s := range last {
			if s.Upstream() != 0 {
				t.Errorf("a request went to endpoint %d, which has left", s.Upstream())
			}
		}
		t.finish(old...)
		t.finish(streams...)
		t.finish(last...)
		t.size = 1
		t.wantDrained()
	}},
	{name: "failing fast attracts nothing", endpoints: 3, config: ejectingLong, run: func(t *run) {
		t.attractsNothing(60, func(n int) int { return failing(t, n, 0, -1) })
	}},
	{name: "the other workers learn of it", endpoints: 3, config: ejecting, needs: []Ability{
		PickWorker,
	}, run: func(t *run) {
		busy := t.busy()
		if n := failing(t, 20, 0, 0); n != 3 {
			t.Errorf("worker 0 sent %d requests to the failing endpoint, want 3", n)
		}
		t.Advance(300 * time.Millisecond)
		if n := failing(t, 20, 0, 1); n != 0 {
			t.Errorf("worker 1 sent %d requests to an endpoint that worker 0 has ejected", n)
		}
		t.finish(busy...)
		t.wantDrained()
	}},
	{name: "an ejected endpoint returns", endpoints: 3, config: ejecting, run: func(t *run) {
		busy := t.busy()
		failing(t, 30, 0, -1)
		t.Advance(1500 * time.Millisecond)
		if !t.Await(func() bool { // a slow gateway has ejected it twice, and for longer
			streams := t.chats(6)
			t.finish(streams...)
			return slices.ContainsFunc(streams, func(s *stream) bool { return s.Upstream() == 0 })
		}) {
			t.Error("after its ejection the endpoint gets nothing, though it is idle and the others are busy")
		}
		t.finish(busy...)
		t.wantDrained()
	}},
	{
		name: "an ejected endpoint that still fails is out for longer", endpoints: 3, config: ejecting,
		needs: []Ability{SimulatedTime, PickWorker},
		run: func(t *run) {
			busy := t.busy()
			failing(t, 20, 0, 0)
			for _, out := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second} {
				t.Advance(out - 100*time.Millisecond)
				if n := failing(t, 20, 0, 0); n != 0 {
					t.Errorf("%v before the end of its ejection the endpoint got %d requests", 100*time.Millisecond, n)
				}
				t.Advance(200 * time.Millisecond)
				if n := failing(t, 20, 0, 0); n != 1 {
					t.Errorf("after %v out it was tried with %d requests, want 1", out, n)
				}
			}
			t.finish(busy...)
		},
	},
	{name: "a failure is forgotten", endpoints: 2, config: `"health":{"slow_start":0}`, needs: []Ability{SimulatedTime}, run: func(t *run) {
		if n := failing(t, 20, 0, -1); n == 0 || n > t.Workers() {
			t.Errorf("an idle endpoint that failed once got %d requests of 20, want at most one from each worker", n)
		}
		t.Advance(time.Minute)
		wantOnly(t, t.serve(30), 0, 1)
	}},
	{name: "the client's leaving is no failure", endpoints: 2, config: ejecting, run: func(t *run) {
		t.settleEjections()
		for range 10 {
			for _, s := range t.chats(2) {
				s.ResetByClient()
			}
		}
		if counts := t.serve(30); counts[0] == 0 || counts[1] == 0 {
			t.Errorf("requests per endpoint: %v", counts)
		}
		t.wantNoEjections()
	}},
	{name: "an endpoint that keeps clients waiting until they leave", endpoints: 2, config: `"health":{"slow_start":0}`, run: func(t *run) {
		streams := t.chats(24) // enough for every worker to see it
		t.Advance(5500 * time.Millisecond)
		for _, s := range streams {
			if s.Upstream() == 0 {
				s.ResetByClient()
				continue
			}
			t.finish(s)
		}
		if counts := t.serve(20); counts[0] > 2 {
			t.Errorf("requests per endpoint: %v, the first has answered none before", counts)
		}
		t.wantDrained()
	}},
	{
		name: "never more than half are ejected", endpoints: 2, config: ejecting, run: func(t *run) {
			for range 10 {
				for _, s := range t.chats(2) {
					s.Head(500)
					s.Finish()
				}
			}
			s := t.Open(chat())
			if s.Upstream() < 0 {
				t.Error("all endpoints are ejected")
			}
			t.finish(s)
		},
	},
	{name: "a new endpoint starts slowly", endpoints: 2, config: `"health":{"slow_start":"10s"}`, needs: []Ability{SimulatedTime, PickWorker}, run: startsSlowly},
}

// wantOnly fails the test unless each of the given endpoints has got requests and no other has.
func wantOnly(t *run, counts []int, endpoints ...int) {
	t.Helper()
	may := map[int]bool{}
	for _, i := range endpoints {
		may[i] = true
	}
	for i, n := range counts {
		if may[i] != (n > 0) {
			t.Errorf("requests per endpoint: %v, want some for %v and none for the others", counts, endpoints)
			return
		}
	}
}

// failing sends n requests one after the other on a worker (-1 for all in turn). The endpoint bad answers 500 at once,
// and failing returns how many of them it got.
func failing(t *run, n, bad, worker int) int {
	t.Helper()
	got := 0
	for i := range n {
		r := chat()
		if r.Worker = worker; worker < 0 {
			r.Worker = i % t.Workers()
		}
		s := t.Open(r)
		status := 200
		if s.Upstream() == bad {
			got++
			status = 500
		}
		s.reply(status, "")
	}
	return got
}

// startsSlowly adds a third endpoint to two that have ten requests each. It gets a twentieth of its share at once, half
// of it after half the time, and then, because it is idle, all requests.
func startsSlowly(t *run) {
	streams := t.chats(20)
	t.wantLoads(10, 10)
	t.SetEndpoints([]Endpoint{{}, {}, {}})
	t.size = 3
	for _, c := range []struct{ least, most int }{{1, 15}, {30, 85}, {300, 300}} {
		n := 0
		for range 300 {
			s := t.Open(chat())
			if s.Upstream() == 2 {
				n++
			}
			t.finish(s)
		}
		if n < c.least || n > c.most {
			t.Errorf("the new endpoint got %d of 300 requests, want %d to %d", n, c.least, c.most)
		}
		t.Advance(5*time.Second + 100*time.Millisecond) // the plugin's clock is up to a tick behind
	}
	t.finish(streams...)
	t.wantDrained()
}
