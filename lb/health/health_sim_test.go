package health_test

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/health/healthtest"
)

// One client whose requests fail at any endpoint must neither eject nor weaken an endpoint for the others.
func TestOneClientEjectsNoEndpoint(t *testing.T) {
	for name, v := range map[string]lb.Verdict{"500": lb.Failure, "400": lb.Rejected, "429": lb.Overload} {
		f := newFleet(t, 8)
		honest := func(r simulated) bool { return r.client != 9 }
		f.play(600, 200*time.Millisecond, func(int) simulated { return poison(v) }, anyOf)
		counts := f.play(37, 120*time.Second, func(i int) simulated {
			if i%3 == 0 {
				return poison(v)
			}
			return f.honest(well)
		}, honest)
		uneven := unevenShare(counts)
		t.Logf("%s: %d ejections, %.2f of 8 out on average, %.3f of "+
			"the others uneven", name, f.health.Ejections(), f.out,
			uneven)
		if f.health.Ejections() > 0 {
			t.Errorf("%s: %d ejections, %.1f of 8 endpoints out on average", name, f.health.Ejections(), f.out)
		}
		if uneven > 0.03 {
			t.Errorf("%s: %.3f of the others' requests uneven: %v", name, uneven, counts)
		}
	}
}

// An endpoint that fails for everyone is ejected soon, for any number of clients, and whether or not one of them also
// sends bad requests.
func TestFailingEndpointIsEjected(t *testing.T) {
	const dead = 3
	always := func(v lb.Verdict) func(int) lb.Verdict {
		return func(e int) lb.Verdict {
			if e == dead {
				return v
			}
			return lb.Success
		}
	}
	for _, c := range []struct {
		name    string
		servers int
		failing func(f *fleet, i int) simulated
		most    int    // requests that the endpoint gets in 10 s
		out     uint64 // ejections
	}{
		{"500", 8, func(f *fleet, _ int) simulated { return f.honest(always(lb.Failure)) }, 12, 1},
		{"404 at once", 4, func(f *fleet, _ int) simulated { return f.honest(always(lb.Rejected)) }, 36, 1},
		{"500, one client", 8, func(f *fleet, _ int) simulated {
			r := f.honest(always(lb.Failure))
			r.client = 100
			return r
		}, 12, 1},
		{"404 at once, one client", 4, func(f *fleet, _ int) simulated {
			r := f.honest(always(lb.Rejected))
			r.client = 100
			return r
		}, 36, 1},
		// Others were served until a moment ago, so it may be the prompt.
		{"500, one client and one prompt", 8, func(f *fleet, _ int) simulated {
			r := f.honest(always(lb.Failure))
			r.client, r.source = 100, 5
			return r
		}, 25, 0},
		{"500, nothing known of clients", 8, func(f *fleet, _ int) simulated {
			r := f.honest(always(lb.Failure))
			r.client, r.source, r.model = 0, 0, 0
			return r
		}, 12, 1},
		{"500 beside a client whose requests all fail", 8, func(f *fleet, i int) simulated {
			if i%3 == 0 {
				return poison(lb.Failure)
			}
			return f.honest(always(lb.Failure))
		}, 25, 1},
	} {
		f := newFleet(t, c.servers)
		f.play(37, 20*time.Second, func(int) simulated { return f.honest(well) }, anyOf)
		got := f.play(37, 10*time.Second, func(i int) simulated { return c.failing(f, i) }, anyOf)
		t.Logf("%s: %v, %d ejections", c.name, got, f.health.Ejections())
		if got[dead] > c.most || f.health.Ejections() != c.out {
			t.Errorf("%s: the failing endpoint got %d requests in 10 s, want at most %d; %d ejections, want %d",
				c.name, got[dead], c.most, f.health.Ejections(), c.out)
		}
	}
}

// Three of eight endpoints that die at the same time are all ejected, the healthy ones are not.
func TestManyFailingEndpointsAreEjected(t *testing.T) {
	f := newFleet(t, 8)
	f.play(37, 20*time.Second, func(int) simulated { return f.honest(well) }, anyOf)
	got := f.play(37, 10*time.Second, func(int) simulated {
		return f.honest(func(e int) lb.Verdict {
			if e < 3 {
				return lb.Failure
			}
			return lb.Success
		})
	}, anyOf)
	if n := got[0] + got[1] + got[2]; n > 36 || f.health.Ejections() != 3 {
		t.Errorf("%d requests went to three that fail, %d ejections: %v", n, f.health.Ejections(), got)
	}
}

// Failures everywhere are not the fault of an endpoint: none is ejected, and none loses weight relative to the others.
func TestFailuresEverywhereEjectNone(t *testing.T) {
	for name, v := range map[string]lb.Verdict{"500": lb.Failure, "404": lb.Rejected} {
		f := newFleet(t, 8)
		f.play(37, 20*time.Second, func(int) simulated { return f.honest(well) }, anyOf)
		got := f.play(37, 60*time.Second, func(int) simulated {
			return f.honest(func(int) lb.Verdict { return v })
		}, anyOf)
		t.Logf("%s: %v", name, got)
		if f.health.Ejections() > 0 {
			t.Errorf("%s everywhere: %d ejections", name, f.health.Ejections())
		}
	}
}

// A model that is not served, requested by several clients, and a prompt with a common beginning, which a policy sends
// to one endpoint.
func TestBadRequestsToOneEndpoint(t *testing.T) {
	for _, c := range []struct {
		name string
		bad  func(f *fleet) simulated
	}{
		{"an unknown model", func(f *fleet) simulated {
			r := poison(lb.Rejected)
			r.client, r.model = 200+f.rand.Uint64N(7), 5
			return r
		}},
		{"one prompt at one endpoint", func(*fleet) simulated {
			r := poison(lb.Failure)
			r.pinned = 2
			return r
		}},
		{"one prompt at one endpoint, refused", func(*fleet) simulated {
			r := poison(lb.Rejected)
			r.pinned = 2
			return r
		}},
	} {
		f := newFleet(t, 8)
		f.play(37, 20*time.Second, func(int) simulated { return f.honest(well) }, anyOf)
		const share = 1.0 / 17 // of all requests
		got := f.play(53, 200*time.Second, func(i int) simulated {
			if i%17 == 0 {
				return c.bad(f)
			}
			return f.honest(well)
		}, func(r simulated) bool { return r.client >= 100 && r.client < 200 })
		t.Logf("%s: %v", c.name, got)
		if f.health.Ejections() > 0 {
			t.Errorf("%s: %d ejections", c.name, f.health.Ejections())
		}
		if uneven := unevenShare(got); uneven > 2*share {
			t.Errorf("%s: %.3f of the others' requests uneven, want %.3f at most: %v", c.name, uneven, 2*share, got)
		}
	}
}

// An endpoint that fails half of its requests is ejected too, although it hardly ever fails five in a row.
func TestOftenFailingEndpointIsEjected(t *testing.T) {
	f := newFleet(t, 8)
	f.play(37, 60*time.Second, func(int) simulated {
		return f.honest(func(e int) lb.Verdict {
			if e == 1 && f.rand.IntN(2) == 0 {
				return lb.Failure
			}
			return lb.Success
		})
	}, anyOf)
	if f.health.Ejections() == 0 {
		t.Error("never ejected")
	}
}

// A timeout counts against an endpoint only if it serves no other request in that time.
func TestTimeouts(t *testing.T) {
	v := healthtest.View(4)
	for _, c := range []struct {
		name   string
		waited time.Duration
		served bool // another request in that time
		out    bool
	}{
		{"hangs", 15 * time.Second, false, true},
		{"takes long", 15 * time.Second, true, false},
		{"the client allows a millisecond", time.Millisecond, false, false},
	} {
		h := healthtest.New(v)
		addr, now := v.Endpoints[0].Addr, time.Minute
		for i := range 5 {
			now += c.waited
			if c.served {
				h.Observe(now-c.waited/2, lb.Outcome{Addr: addr, Verdict: lb.Success, Client: 1}, healthtest.Cluster)
			}
			h.Observe(now, lb.Outcome{Addr: addr, Verdict: lb.TimedOut, WaitedFor: c.waited, Client: uint64(i)},
				healthtest.Cluster)
		}
		if w, in := weights(t, h, now, v)[addr]; in == c.out || !c.out && w != 1 {
			t.Errorf("%s: in %v with weight %v", c.name, in, w)
		}
	}
}

// An endpoint whose requests are all served elsewhere by retries, and that serves none for half a minute, is ejected;
// one at its limit is not.
func TestRetriedRequests(t *testing.T) {
	for _, c := range []struct{ serves, busy, out bool }{
		{false, false, true},
		{true, false, false},
		{false, true, false},
	} {
		v := healthtest.View(4)
		h := healthtest.New(v)
		addr := v.Endpoints[0].Addr
		for i := range 60 {
			now := time.Minute + time.Duration(i)*time.Second
			h.Observe(now, lb.Outcome{Addr: addr, Verdict: lb.Retried, Client: uint64(1 + i%5), Busy: c.busy},
				healthtest.Cluster)
			if h.Ejections() > 0 && i < 30 {
				t.Fatalf("ejected after %d s", i)
			}
			if c.serves && i%20 == 10 {
				h.Observe(now, lb.Outcome{Addr: addr, Verdict: lb.Success, Client: 1}, healthtest.Cluster)
			}
		}
		if ejected := h.Ejections() > 0; ejected != c.out {
			t.Errorf("serves now and then %v, is busy %v: ejected %v", c.serves, c.busy, ejected)
		}
	}
}

// One client's bad requests eject no endpoint, in small clusters, for all shares of bad requests, and also if the
// gateway cannot identify clients.
func TestBadRequestsInSmallFleets(t *testing.T) {
	for _, servers := range []int{2, 3, 4} {
		for _, bad := range []int{1, 2, 4, 9, 19} { // beside each honest request
			for _, v := range []lb.Verdict{lb.Failure, lb.Rejected} {
				for _, proxy := range []bool{false, true} {
					f := newFleet(t, servers)
					f.play(20*float64(1+bad), 60*time.Second, func(i int) simulated {
						r := f.honest(well)
						if i%(bad+1) != 0 {
							r = poison(v)
						}
						if proxy {
							r.client = 1
						}
						return r
					}, anyOf)
					if n := f.health.Ejections(); n > 0 {
						t.Errorf("%d endpoints, %d bad of %d, verdict %d, behind one address %v: %d "+
							"ejections, %.2f out",
							servers, bad, bad+1, v, proxy, n, f.out)
					}
				}
			}
		}
	}
}

// A client's bad requests do not hide an endpoint that fails all requests, although they are for the same model.
func TestBadRequestsDoNotHideAFailingEndpoint(t *testing.T) {
	const dead = 3
	for _, bad := range []int{3, 9, 19} {
		f := newFleet(t, 4)
		one := func(i int) simulated {
			if i%(bad+1) != 0 {
				r := poison(lb.Rejected)
				r.end = func(e int) (lb.Verdict, time.Duration) {
					if e == dead {
						return lb.Failure, time.Millisecond
					}
					return lb.Rejected, 2 * time.Millisecond
				}
				return r
			}
			return f.honest(func(e int) lb.Verdict {
				if e == dead {
					return lb.Failure
				}
				return lb.Success
			})
		}
		got := f.play(20*float64(1+bad), 20*time.Second, one, func(r simulated) bool { return r.client != 9 })
		t.Logf("%d bad of %d: %v, %d ejections", bad, bad+1, got, f.health.Ejections())
		if got[dead] > 25 {
			t.Errorf("%d bad of %d: the failing endpoint got %d requests of the others: %v", bad, bad+1, got[dead], got)
		}
	}
}
