package policy

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/cache"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/health"
	"pgregory.net/rapid"
)

// clusterBench is a cluster_metrics with what it is made of, and the clusters' requests in flight.
type clusterBench struct {
	t      interface{ Fatalf(string, ...any) }
	now    time.Duration
	config Config
	policy lb.Policy
	shares *RequestShares
	view   *lb.View
	loads  []lb.Load
	random uint64
}

func newClusterBench(t interface{ Fatalf(string, ...any) }, mode ClusterMode, n int,
	change func(*ClusterMetricsConfig),
) *clusterBench {
	cfg := &ClusterMetricsConfig{
		Mode: mode, RateLimit: 1, QueueSize: 100, HistoryPart: 0.5, Choices: 2, TTFTWeight: 0.7, TotalWeight: 0.3,
		ErrorPenalty: 3, CooldownMs: 30000,
	}
	if change != nil {
		change(cfg)
	}
	b := &clusterBench{
		t: t, now: time.Hour, shares: NewRequestShares(), view: &lb.View{Cluster: "clusters/r"},
		loads: make([]lb.Load, n),
	}
	for i := range n {
		b.view.Endpoints = append(b.view.Endpoints, lb.Endpoint{Addr: clusterName(i)})
	}
	b.config = Config{
		Settings: cfg, Health: health.New(), Caches: cache.NewTracker(), Engines: engines.New(), Shares: b.shares,
		Latencies: NewLatencies(),
	}
	b.setCap(0)
	return b
}

// setCap has the clusters take so many requests at once; 0: any number.
func (b *clusterBench) setCap(requests int64) {
	b.config.Cluster.MaxInflight = requests
	p, err := New("cluster_metrics", b.config)
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	b.policy = p
}

func clusterName(i int) string { return string(rune('a' + i)) }

// plan plans a request, and returns the plan with the loads of its candidates.
func (b *clusterBench) plan() (lb.Plan, []lb.Load) {
	b.random = shuffled(b.random)
	p, why := b.policy.Plan(b.now, &lb.Request{Random: b.random}, b.view)
	if why != lb.ReasonChosen {
		b.t.Fatalf("no plan: %v", why)
	}
	loads := make([]lb.Load, len(p.Candidates))
	for i := range p.Candidates {
		loads[i] = b.loads[p.Candidates[i].Addr[0]-'a']
	}
	return p, loads
}

// place plans a request and counts it where it costs least.
func (b *clusterBench) place() int {
	p, loads := b.plan()
	i := lb.Choose(&p, loads, nil)
	addr := p.Candidates[i].Addr
	b.shares.Count(b.now, addr)
	b.loads[addr[0]-'a'].Requests++
	return int(addr[0] - 'a')
}

// end ends a request at a cluster.
func (b *clusterBench) end(i int, v lb.Verdict, first, whole time.Duration) {
	inflight := b.loads[i].Requests
	b.loads[i].Requests--
	b.policy.Observe(b.now, lb.Outcome{
		Addr: clusterName(i), Verdict: v, FirstPart: first, Whole: whole, Inflight: inflight,
	})
}

// serve lets one request after the other take as long as its cluster takes, and returns how many each has served.
func (b *clusterBench) serve(n int, every time.Duration, takes func(i int) (lb.Verdict, time.Duration)) []int {
	type running struct {
		at, took time.Duration
		cluster  int
		verdict  lb.Verdict
	}
	counts, open := make([]int, len(b.loads)), []running{}
	for range n {
		b.now += every
		open = slices.DeleteFunc(open, func(r running) bool {
			if r.at+r.took > b.now {
				return false
			}
			b.end(r.cluster, r.verdict, r.took/4, r.took)
			return true
		})
		i := b.place()
		counts[i]++
		v, took := takes(i)
		open = append(open, running{b.now, took, i, v})
	}
	for _, r := range open {
		b.end(r.cluster, r.verdict, r.took/4, r.took)
	}
	return counts
}

var allModes = []ClusterMode{LeastBusy, LeastTotalLatency, LeastFirstTokenLatency, AdaptiveScore}

// Without samples, whatever the mode, the cluster with the fewest requests in flight gets the next one.
func TestClustersWithoutSamples(t *testing.T) {
	for _, mode := range allModes {
		b := newClusterBench(t, mode, 3, func(c *ClusterMetricsConfig) { c.Choices = 3 })
		for n := range 30 {
			b.place()
			low, high := b.loads[0].Requests, b.loads[0].Requests
			for _, l := range b.loads {
				low, high = min(low, l.Requests), max(high, l.Requests)
			}
			if high-low > 1 {
				t.Fatalf("%v: after %d requests %v", mode, n+1, b.loads)
			}
		}
	}
}

// The score is Higress's: square roots of the latencies, times requests in flight where these are more than the cluster
// serves at once, times failures.
func TestAdaptiveScoreIsTheFormula(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newClusterBench(rt, AdaptiveScore, 2, nil)
		ms := func(name string) time.Duration {
			return time.Duration(rapid.IntRange(1, 1e5).Draw(rt, name)) * time.Millisecond
		}
		first, whole := [2]time.Duration{}, [2]time.Duration{}
		for i := range first {
			first[i] = ms("first")
			whole[i] = first[i] + ms("rest")
			b.loads[i].Requests++
			b.end(i, lb.Success, first[i], whole[i])
			b.loads[i].Requests = int64(rapid.IntRange(0, 50).Draw(rt, "inflight"))
			b.shares.Count(b.now, clusterName(i))
		}
		p, loads := b.plan()
		for at := range p.Candidates {
			i := int(p.Candidates[at].Addr[0] - 'a')
			root := func(d time.Duration) float64 { return math.Sqrt(float64(d.Milliseconds()) + 1) }
			requests := float64(loads[at].Requests+1) / (1 + spareRoom) // of one answer no more is known
			want := (0.7*root(first[i]) + 0.3*root(whole[i])) * (max(1, requests) + leaning*requests)
			got := costOf(&p.Candidates[at], loads[at])
			if math.Abs(got-want) > want/60 { // costs are rounded, so that few lists differ
				rt.Fatalf("%s costs %v, want %v", p.Candidates[at].Addr, got, want)
			}
		}
	})
}

// The order of AdaptiveScore: those within their share, of these those that do not cool down, of these a sample.
func TestAdaptiveScoreOrder(t *testing.T) {
	names := func(b *clusterBench) (list []string) {
		seen := map[string]bool{}
		for range 200 {
			p, _ := b.plan()
			for _, c := range p.Candidates {
				seen[c.Addr] = true
			}
		}
		for name := range seen {
			list = append(list, name)
		}
		slices.Sort(list)
		return list
	}
	fail := func(b *clusterBench, i int) {
		b.loads[i].Requests++
		b.end(i, lb.Failure, 0, time.Millisecond)
	}
	for name, c := range map[string]struct {
		limit float64
		picks []int
		fails []int
		want  []string
	}{
		"all":                     {1, []int{9, 9, 9, 9}, nil, []string{"a", "b", "c", "d"}},
		"one above its share":     {0.4, []int{9, 3, 3, 3}, nil, []string{"b", "c", "d"}},
		"one cools down":          {1, []int{9, 9, 9, 9}, []int{1}, []string{"a", "c", "d"}},
		"both":                    {0.4, []int{9, 3, 3, 3}, []int{1}, []string{"c", "d"}},
		"all within it cool down": {0.4, []int{9, 9, 2, 0}, []int{2, 3}, []string{"c", "d"}},
		"all fail, so that it is no fault of the last": {1, []int{9, 9, 9, 9}, []int{0, 1, 2, 3}, []string{"c", "d"}},
		"all above it":                 {0.1, []int{9, 9, 9, 9}, nil, []string{"a", "b", "c", "d"}},
		"all above it, one has failed": {0.1, []int{9, 9, 9, 9}, []int{0}, []string{"b", "c", "d"}},
	} {
		b := newClusterBench(t, AdaptiveScore, 4, func(cfg *ClusterMetricsConfig) { cfg.RateLimit = c.limit })
		b.plan()
		for i, n := range c.picks {
			for range n {
				b.shares.Count(b.now, clusterName(i))
			}
		}
		for _, i := range c.fails {
			fail(b, i)
		}
		if got := names(b); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if p, _ := b.plan(); len(p.Candidates) > 2 && name == "all" {
			t.Errorf("%d are compared", len(p.Candidates))
		}
	}
}

// A cluster cools down for as long as is configured, or until a check has ended it, and then gets requests again.
func TestCooldownEnds(t *testing.T) {
	good := func(int) (lb.Verdict, time.Duration) { return lb.Success, 200 * time.Millisecond }
	for _, c := range []struct{ cooldown, before, after int }{{900, 44, 50}, {30000, 49, 200}} {
		b := newClusterBench(t, AdaptiveScore, 2, func(cfg *ClusterMetricsConfig) { cfg.CooldownMs = c.cooldown })
		b.serve(50, 20*time.Millisecond, good)
		b.loads[0].Requests++
		b.end(0, lb.Failure, 0, time.Millisecond)
		if n := b.serve(c.before, 20*time.Millisecond, good); n[0] > 0 {
			t.Errorf("%d requests within a cooldown of %d ms", n[0], c.cooldown)
		}
		b.serve(c.after, 20*time.Millisecond, good)
		if n := b.serve(1000, 20*time.Millisecond, good); n[0] < 150 {
			t.Errorf("%d of 1000 requests after a cooldown of %d ms", n[0], c.cooldown)
		}
	}
}

// In every mode a cluster that fails at once gets less than the others, and one that was slow is used again within ten
// seconds after it has recovered.
func TestClustersThatFailOrRecover(t *testing.T) {
	for _, mode := range allModes {
		b := newClusterBench(t, mode, 3, nil)
		n := b.serve(2000, 10*time.Millisecond, func(i int) (lb.Verdict, time.Duration) {
			if i == 2 {
				return lb.Failure, time.Millisecond
			}
			return lb.Success, 100 * time.Millisecond
		})
		if n[2] > 200 {
			t.Errorf("%v: the failing one has %v", mode, n)
		}
		b = newClusterBench(t, mode, 2, nil)
		slow := func(i int) (lb.Verdict, time.Duration) {
			return lb.Success, time.Duration(100+1900*i) * time.Millisecond
		}
		b.serve(1500, 20*time.Millisecond, slow)
		fast := func(i int) (lb.Verdict, time.Duration) {
			return lb.Success, time.Duration(100-90*i) * time.Millisecond
		}
		b.serve(500, 20*time.Millisecond, fast)
		if n := b.serve(250, 20*time.Millisecond, fast); n[1] < 100 {
			t.Errorf("%v: ten seconds after it has recovered it has %d of 250", mode, n[1])
		}
	}
}

// What a client has ended, and what is wrong with a request, cost a cluster nothing.
func TestClientsCostClustersNothing(t *testing.T) {
	for _, mode := range allModes {
		for _, v := range []lb.Verdict{lb.Neutral, lb.Rejected} {
			b := newClusterBench(t, mode, 2, func(c *ClusterMetricsConfig) { c.Choices = 2 })
			b.serve(40, 100*time.Millisecond, func(int) (lb.Verdict, time.Duration) {
				return lb.Success, 50 * time.Millisecond
			})
			latencies := b.policy.(*clusterMetrics).latencies
			before := *latencies.of("a")
			b.loads[0].Requests++
			b.end(0, v, 0, time.Minute)
			if after := *latencies.of("a"); after != before {
				t.Errorf("%v: a request that ends %d changes %+v to %+v", mode, v, before, after)
			}
			if b.loads[0].Requests != 0 {
				t.Errorf("%v: %d requests left", mode, b.loads[0].Requests)
			}
		}
	}
}

// Requests do not go to slow clusters only to look whether they are still slow: one in ten at most, however many
// clusters are slow and however few requests there are. Each of them is asked.
func TestNeglectedClustersCostLittle(t *testing.T) {
	for _, mode := range allModes[1:] {
		for _, slow := range []int{1, 4, 20} {
			for _, every := range []time.Duration{
				20 * time.Millisecond, 200 * time.Millisecond, 830 * time.Millisecond,
				3 * time.Second, 90 * time.Second,
			} {
				b := newClusterBench(t, mode, slow+1, func(c *ClusterMetricsConfig) { c.Choices = slow + 1 })
				took := func(i int) (lb.Verdict, time.Duration) {
					return lb.Success, time.Duration(10+5000*min(i, 1)) * time.Millisecond
				}
				b.serve(50+int(5*time.Second/every), every, took)
				n := b.serve(1000, every, took)
				if away := 1000 - n[0]; away > 101 {
					t.Errorf("%v, every %v: %d slow ones have %d of 1000", mode, every, slow, away)
				}
				if asked := slices.Min(n[1:]); asked == 0 && every >= 200*time.Millisecond {
					t.Errorf("%v, every %v: some of %v are never asked", mode, every, n)
				}
			}
		}
	}
}

// costOf returns what one more request costs at a cluster: see [lb.Choose].
func costOf(c *lb.Candidate, l lb.Load) float64 {
	requests := float64(l.Requests + 1)
	return c.Base + (c.Slope*requests+c.OverSlope*max(0, requests-c.Capacity))/c.Weight
}
