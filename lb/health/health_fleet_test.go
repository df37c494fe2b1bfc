package health_test

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/health/healthtest"
)

// simulated is a simulated request: who sends it, and how it ends at its endpoint.
type simulated struct {
	client, model, source uint64
	pinned                int // the endpoint that it goes to if that is a candidate, -1 for the cheapest one
	end                   func(endpoint int) (lb.Verdict, time.Duration)
}

// finish is the end of a simulated request.
type finish struct {
	at       time.Duration
	endpoint int
	verdict  lb.Verdict
	request  simulated
}

type finishes []finish

func (f finishes) Len() int           { return len(f) }
func (f finishes) Less(i, j int) bool { return f[i].at < f[j].at }
func (f finishes) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *finishes) Push(x any)        { *f = append(*f, x.(finish)) }
func (f *finishes) Pop() any {
	old := *f
	last := old[len(old)-1]
	*f = old[:len(old)-1]
	return last
}

// fleet simulates requests to endpoints whose health one worker judges.
type fleet struct {
	*testing.T
	rand    *rand.Rand
	health  *health.Health
	view    *lb.View
	loads   map[string]lb.Load
	pending finishes
	now     time.Duration
	out     float64 // mean number of endpoints that were ejected
	samples int
}

func newFleet(t *testing.T, n int) *fleet {
	v := healthtest.View(n)
	return &fleet{
		T: t, rand: rand.New(rand.NewPCG(7, uint64(n))), health: healthtest.New(v), view: v,
		loads: map[string]lb.Load{},
	}
}

// play sends requests at the given rate for the given time, and returns how many of those that match each endpoint got.
func (f *fleet) play(rate float64, span time.Duration, next func(i int) simulated, match func(simulated) bool) []int {
	counts := make([]int, len(f.view.Endpoints))
	end := f.now + span
	for i := 0; f.now < end; i++ {
		f.now += time.Duration(f.rand.ExpFloat64() / rate * float64(time.Second))
		for len(f.pending) > 0 && f.pending[0].at <= f.now {
			f.finish(heap.Pop(&f.pending).(finish))
		}
		r := next(i)
		at := f.place(r)
		if match(r) {
			counts[at]++
		}
		verdict, took := r.end(at)
		heap.Push(&f.pending, finish{f.now + took, at, verdict, r})
	}
	return counts
}

func (f *fleet) finish(e finish) {
	addr := f.view.Endpoints[e.endpoint].Addr
	l := f.loads[addr]
	l.Requests--
	f.loads[addr] = l
	f.health.Observe(e.at, lb.Outcome{
		Addr: addr, Verdict: e.verdict, Client: e.request.client, Model: e.request.model, Source: e.request.source,
	}, healthtest.Cluster)
}

// place chooses as a store does and counts the request.
func (f *fleet) place(r simulated) int {
	list, reason := f.health.Candidates(f.now, f.view, healthtest.Cluster, 0)
	cs := list.Candidates
	if reason != lb.ReasonChosen {
		f.Fatal(reason)
	}
	f.samples++
	f.out += (float64(len(f.view.Endpoints)-len(cs)) - f.out) / float64(f.samples)
	loads := make([]lb.Load, len(cs))
	at := -1
	for i := range cs {
		loads[i] = f.loads[cs[i].Addr]
		if r.pinned >= 0 && cs[i].Addr == f.view.Endpoints[r.pinned].Addr {
			at = i
		}
	}
	if at < 0 {
		at = lb.Choose(&lb.Plan{List: list, Random: f.rand.Uint64()}, loads, nil)
	}
	l := f.loads[cs[at].Addr]
	l.Requests++
	f.loads[cs[at].Addr] = l
	for i, e := range f.view.Endpoints {
		if e.Addr == cs[at].Addr {
			return i
		}
	}
	return -1
}

// unevenShare returns which share of the requests exceeds an even distribution.
func unevenShare(counts []int) (uneven float64) {
	total := 0
	for _, n := range counts {
		total += n
	}
	for _, n := range counts {
		uneven += max(0, float64(n)/float64(total)-1/float64(len(counts)))
	}
	return uneven
}

func anyOf(simulated) bool { return true }

// honest returns a request of one of 23 clients that takes about two seconds, unless the endpoint fails.
func (f *fleet) honest(fails func(endpoint int) lb.Verdict) simulated {
	r := simulated{client: 100 + f.rand.Uint64N(23), model: 1, source: 1 + f.rand.Uint64N(40), pinned: -1}
	r.end = func(e int) (lb.Verdict, time.Duration) {
		if v := fails(e); v != lb.Success {
			return v, 3 * time.Millisecond
		}
		return lb.Success, time.Duration((1.1 + 1.9*f.rand.Float64()) * float64(time.Second))
	}
	return r
}

func well(int) lb.Verdict { return lb.Success }

// poison returns a request of one client that fails at once at any endpoint.
func poison(v lb.Verdict) simulated {
	end := func(int) (lb.Verdict, time.Duration) { return v, 2 * time.Millisecond }
	return simulated{client: 9, model: 1, source: 77, pinned: -1, end: end}
}
