package policy_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/health/healthtest"
	"github.com/warmgate/warmgate/lb/policy"
)

// newHash returns consistent_hash with the default load factor, for endpoints with these weights.
func newHash(t testing.TB, weights map[string]float64) lb.Policy {
	t.Helper()
	cfg := *healthtest.Cluster
	cfg.Weights = weights
	p, err := policy.New("consistent_hash", policy.Config{
		Cluster: cfg, Health: health.New(), Settings: &policy.HashConfig{LoadFactor: 1.25},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// homeOf returns the endpoint to which the session is sent while nothing is in flight.
func homeOf(t testing.TB, p lb.Policy, v *lb.View, session uint64) string {
	t.Helper()
	plan, reason := p.Plan(time.Hour, &lb.Request{Session: session, Random: rand.Uint64()}, v)
	if reason != lb.ReasonChosen {
		t.Fatal(reason)
	}
	return plan.Candidates[lb.Choose(&plan, make([]lb.Load, len(plan.Candidates)), nil)].Addr
}

// without returns the view with fewer endpoints.
func without(v *lb.View, gone ...int) *lb.View {
	out := *v
	out.Endpoints = nil
	for i, e := range v.Endpoints {
		if !slices.Contains(gone, i) {
			out.Endpoints = append(out.Endpoints, e)
		}
	}
	return &out
}

const homeKeys = 100_000

// Of 100,000 sessions, those of an endpoint that leaves move, and no others; they come home when it returns. Every
// endpoint has its part, by its weight.
func TestSessionsMoveLittle(t *testing.T) {
	for _, c := range []struct {
		endpoints int
		weighted  bool
	}{{3, false}, {7, false}, {19, true}, {64, false}, {100, true}} {
		keys := homeKeys
		if testing.Short() {
			keys /= 10
		}
		v, weights, sum := healthtest.View(c.endpoints), map[string]float64{}, 0.0
		for i, e := range v.Endpoints {
			weights[e.Addr] = 1
			if c.weighted {
				weights[e.Addr] = 1 + float64(i%3)/2
			}
			sum += weights[e.Addr]
		}
		all, fewer := newHash(t, weights), newHash(t, weights)
		left := without(v, 1)
		moved, strays, share := 0, 0, map[string]int{}
		for k := range uint64(keys) {
			session := k*0x9e3779b97f4a7c15 + 1
			home, then := homeOf(t, all, v, session), homeOf(t, fewer, left, session)
			share[home]++
			if home != then {
				moved++
				if home != v.Endpoints[1].Addr {
					strays++
				}
			}
		}
		gone := weights[v.Endpoints[1].Addr] / sum
		if float64(moved) > 1.3*gone*float64(keys) || moved == 0 || strays > 0 {
			t.Errorf("%d endpoints: %d of %d sessions moved, %d of them from others than the one that left",
				c.endpoints, moved, keys, strays)
		}
		for addr, w := range weights {
			want := w / sum * float64(keys)
			if got := float64(share[addr]); math.Abs(got-want) > 6*math.Sqrt(want) {
				t.Errorf("%d endpoints: %s has %.0f sessions of %.0f by its weight", c.endpoints, addr, got, want)
			}
		}
	}
}

// Gateways that list endpoints in another order, or scale weights otherwise, send a session to the same endpoint, and
// in the same order to others when it is full.
func TestHomesAreEqualEverywhere(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		v := healthtest.View(rapid.IntRange(1, 40).Draw(rt, "endpoints"))
		weighted, by := rapid.Bool().Draw(rt, "weighted"), rapid.SampledFrom([]float64{1, 0.1, 7}).Draw(rt, "scale")
		a, b := map[string]float64{}, map[string]float64{}
		for i, e := range v.Endpoints {
			w := 1.0
			if weighted {
				w = 1 + float64(i%4)
			}
			a[e.Addr], b[e.Addr] = w, w*by
		}
		other := *v
		other.Endpoints = rapid.Permutation(v.Endpoints).Draw(rt, "order")
		first, second := newHash(t, a), newHash(t, b)
		for range 20 {
			r := lb.Request{Session: rapid.Uint64Min(1).Draw(rt, "session"), Random: rapid.Uint64().Draw(rt, "random")}
			p, _ := first.Plan(0, &r, v)
			r.Random++
			q, _ := second.Plan(0, &r, &other)
			for i := range p.Home.Order {
				x, y := p.Candidates[p.Home.Order[i]].Addr, q.Candidates[q.Home.Order[i]].Addr
				if x != y {
					rt.Fatalf("place %d of the order: %s and %s", i, x, y)
				}
			}
		}
	})
}

// With sessions of very unequal size no endpoint ever carries more than its bound, and most requests are at home.
func TestLoadOfSessionsIsBounded(t *testing.T) {
	for _, endpoints := range []int{3, 8, 33, 100} {
		rng := rand.New(rand.NewPCG(uint64(endpoints), 1))
		zipf := rand.NewZipf(rng, 1.1, 1, homeKeys-1)
		v, policy := healthtest.View(endpoints), newHash(t, nil)
		loads, total, home, requests := make([]lb.Load, endpoints), 0, 0, 40_000
		var inflight []int
		homes := make([]float64, endpoints) // by endpoint, the share of the requests that belong there
		most, possible := 0.0, 0.0
		for range requests {
			plan, _ := policy.Plan(0, &lb.Request{Session: zipf.Uint64()*0x9e3779b97f4a7c15 + 1}, v)
			i := lb.Choose(&plan, loads, nil)
			homes[plan.Home.Order[0]] += 1 / float64(requests)
			if i == int(plan.Home.Order[0]) {
				home++
			}
			loads[i].Requests++
			total++
			if limit := math.Ceil(1.25 * float64(total) / float64(endpoints)); float64(loads[i].Requests) > limit {
				t.Fatalf("%d endpoints: one has %d of %d, bound %v", endpoints, loads[i].Requests, total, limit)
			}
			if inflight = append(inflight, i); total > 40*endpoints {
				most = max(most, float64(loads[i].Requests)/(float64(total)/float64(endpoints)))
				at := rng.IntN(len(inflight))
				loads[inflight[at]].Requests--
				inflight[at] = inflight[len(inflight)-1]
				inflight, total = inflight[:len(inflight)-1], total-1
			}
		}
		for _, share := range homes {
			possible += min(share, 1.25/float64(endpoints)) // no more fit, whoever chooses
		}
		share := float64(home) / float64(requests)
		t.Logf("%d endpoints: most carried is %.3f of the mean; %.3f of requests are at home, of %.3f possible",
			endpoints, most, share, possible)
		if most > 1.25*1.25 || share < 0.75*possible { // who is away from home takes the room of others
			t.Errorf("%d endpoints: one carries %.2f times the mean, %.3f are at home of %.3f",
				endpoints, most, share, possible)
		}
	}
}

// A request without a session is placed by load.
func TestNoSession(t *testing.T) {
	p, v := newHash(t, nil), healthtest.View(4)
	if plan, _ := p.Plan(0, &lb.Request{}, v); plan.Home.Order != nil || plan.Home.LoadFactor != 0 {
		t.Errorf("without a session: %+v", plan.Home)
	}
}

// An endpoint that answers at once that it is overloaded loses most of its sessions, though it is always idle, each to
// the session's second choice; no other session moves, and all come home when it has recovered.
func TestSessionsLeaveWhoFails(t *testing.T) {
	const keys = 3000
	p, v := newHash(t, nil), healthtest.View(5)
	homes := make([]string, keys)
	for k := range homes {
		homes[k] = homeOf(t, p, v, uint64(k)+1)
	}
	sick := v.Endpoints[2].Addr
	for i := range 400 { // the share of answers that are bad is compared with that of the others
		p.Observe(time.Hour+time.Duration(i)*10*time.Millisecond, lb.Outcome{Addr: sick, Verdict: lb.Overload})
		p.Observe(time.Hour, lb.Outcome{Addr: v.Endpoints[i%2].Addr, Verdict: lb.Success})
	}
	at := func(now time.Duration, session uint64) string {
		plan, _ := p.Plan(now, &lb.Request{Session: session, Random: rand.Uint64()}, v)
		return plan.Candidates[lb.Choose(&plan, make([]lb.Load, len(plan.Candidates)), nil)].Addr
	}
	const soon = time.Hour + 5*time.Second
	left, had, to := 0, 0, map[string]bool{}
	for k, home := range homes {
		now := at(soon, uint64(k)+1)
		if again := at(soon, uint64(k)+1); again != now {
			t.Fatalf("session %d is sent to %s, then to %s", k, now, again)
		}
		switch {
		case home != sick && now != home:
			t.Fatalf("session %d moves from %s to %s, though another endpoint fails", k, home, now)
		case home == sick:
			had++
			if now != sick {
				left++
				to[now] = true
			}
		}
	}
	if left < had*3/4 || len(to) != 4 {
		t.Errorf("of %d sessions of the endpoint that fails %d have left, to %d others", had, left, len(to))
	}
	for i := range 4000 {
		p.Observe(soon+time.Duration(i)*100*time.Millisecond, lb.Outcome{Addr: sick, Verdict: lb.Success})
	}
	for k, home := range homes {
		if now := at(soon+time.Hour, uint64(k)+1); now != home {
			t.Fatalf("session %d does not come home to %s, but is at %s", k, home, now)
		}
	}
}

// A new endpoint takes its part of the sessions at once, whatever its slow start, and gives back none of them.
func TestSessionsOfANewEndpoint(t *testing.T) {
	const keys = 4000
	p, v, more := newHash(t, nil), healthtest.View(4), healthtest.View(5)
	plan := func(now time.Duration, v *lb.View, session uint64) string {
		q, _ := p.Plan(now, &lb.Request{Session: session, Random: rand.Uint64()}, v)
		return q.Candidates[q.Home.Order[0]].Addr
	}
	homes := make([]string, keys)
	for k := range homes {
		homes[k] = plan(time.Hour, v, uint64(k)+1)
	}
	fresh, taken := more.Endpoints[4].Addr, 0
	first := make([]string, keys)
	for k, home := range homes {
		first[k] = plan(time.Hour+time.Second, more, uint64(k)+1)
		switch first[k] {
		case home:
		case fresh:
			taken++
		default:
			t.Fatalf("session %d moves from %s to %s, which is not the new one", k, home, first[k])
		}
	}
	if taken < keys/5*8/10 || taken > keys/5*13/10 {
		t.Errorf("the new endpoint takes %d of %d sessions", taken, keys)
	}
	for k := range homes {
		if now := plan(2*time.Hour, more, uint64(k)+1); now != first[k] {
			t.Fatalf("session %d is at %s, then at %s", k, first[k], now)
		}
		if back := plan(3*time.Hour, v, uint64(k)+1); back != homes[k] {
			t.Fatalf("when the new endpoint leaves, session %d is at %s and not at %s", k, back, homes[k])
		}
	}
}

// BenchmarkHomeOrder is what the order of a session costs.
func BenchmarkHomeOrder(b *testing.B) {
	for _, n := range []int{8, 64, 500} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			p, v := newHash(b, nil), healthtest.View(n)
			r := lb.Request{Session: 1}
			for b.Loop() {
				r.Session += 0x9e3779b97f4a7c15
				p.Plan(0, &r, v)
			}
		})
	}
}
