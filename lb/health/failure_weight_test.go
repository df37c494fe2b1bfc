package health_test

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/health/healthtest"
)

// Clients and models come from outside: the memory for them is bounded.
func TestGroupsAreBounded(t *testing.T) {
	v := healthtest.View(50)
	h := healthtest.New(v)
	for i := range 20_000 {
		h.Observe(time.Duration(i)*time.Millisecond, lb.Outcome{
			Addr: v.Endpoints[i%50].Addr, Verdict: []lb.Verdict{lb.Success, lb.Rejected}[i%2],
			Client: uint64(1 + i/100), Model: uint64(1_000_000 + i%7), Source: uint64(i),
		}, healthtest.Cluster)
	}
	groups, endpoints := health.GroupSizes(h)
	if groups > 256 || endpoints > 16 {
		t.Errorf("%d clients and models with up to %d endpoints each", groups, endpoints)
	}
}

// Clients are determined only after a failure.
func TestNeedsClient(t *testing.T) {
	v := healthtest.View(2)
	h := healthtest.New(v)
	for _, c := range []struct {
		at      time.Duration
		verdict lb.Verdict
		want    bool
	}{
		{time.Second, lb.Success, false},
		{2 * time.Second, lb.Neutral, false},
		{3 * time.Second, lb.Overload, true},
		{50 * time.Second, lb.Success, true},
		{63 * time.Second, lb.Success, false},
		{64 * time.Second, lb.Rejected, true},
	} {
		h.Observe(c.at, lb.Outcome{Addr: v.Endpoints[0].Addr, Verdict: c.verdict}, healthtest.Cluster)
		if got := h.NeedsClient(c.at); got != c.want {
			t.Errorf("at %v after verdict %d: needs client %v, want %v", c.at, c.verdict, got, c.want)
		}
	}
}

// At an endpoint that serves others, failures of one prompt count in full only now and then, whichever client sends it;
// once several clients fail there and none is served, all count.
func TestSourcesThatRepeat(t *testing.T) {
	type end struct {
		client, source uint64
		verdict        lb.Verdict
	}
	ends := func(n int, list ...end) (out []end) {
		for range n {
			out = append(out, list...)
		}
		return out
	}
	served := end{1, 1, lb.Success}
	bad := func(client, source uint64) end { return end{client, source, lb.Failure} }
	const soon = time.Millisecond
	for _, c := range []struct {
		name  string
		ends  []end
		apart time.Duration
		out   bool
	}{
		{"one prompt, others were served", append(ends(1, served), ends(9, bad(9, 9))...), soon, false},
		{"none was served", ends(5, bad(9, 9)), soon, true},
		{"it was served itself", append(ends(1, end{9, 9, lb.Success}), ends(5, bad(9, 9))...), soon, true},
		{"two clients", append(ends(1, served), ends(3, bad(8, 8), bad(9, 9))...), soon, true},
		{"three prompts of one client", append(ends(1, served),
			ends(3, bad(9, 7), bad(9, 8), bad(9, 9))...), soon, false},
		{"one prompt, served now and then", ends(9, served, bad(9, 9)), 6 * time.Second, false},
		{"nothing known of prompts", append(ends(1, end{1, 0, lb.Success}), ends(9, bad(9, 0))...), soon, false},
		{"nothing known", append(ends(1, end{0, 0, lb.Success}), ends(5, bad(0, 0))...), soon, true},
	} {
		v := healthtest.View(4)
		h := healthtest.New(v)
		now := time.Minute
		for _, e := range c.ends {
			now += c.apart
			h.Observe(now, lb.Outcome{
				Addr: v.Endpoints[0].Addr, Verdict: e.verdict, Client: e.client, Source: e.source,
			}, healthtest.Cluster)
		}
		if out := h.Ejections() > 0; out != c.out {
			t.Errorf("%s: ejected %v, want %v", c.name, out, c.out)
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	v := healthtest.View(64)
	for name, verdicts := range map[string][]lb.Verdict{
		"well": {lb.Success}, "one in five fails": {lb.Failure, lb.Success, lb.Success, lb.Success, lb.Success},
	} {
		b.Run(name, func(b *testing.B) {
			h := health.New()
			h.Candidates(0, v, healthtest.Cluster, 0)
			b.ReportAllocs()
			for i := range b.N {
				h.Observe(time.Duration(i)*time.Millisecond, lb.Outcome{
					Addr: v.Endpoints[i%64].Addr, Verdict: verdicts[i%len(verdicts)],
					Client: uint64(1 + i%300), Model: 1,
				}, healthtest.Cluster)
			}
		})
	}
}
