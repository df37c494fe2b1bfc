package simulate

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/plugin/config"
)

// TestConservationInPools holds for regions that forward to each other, and for pools that compute prompts for others,
// that every request is served or refused once, that nothing remains, and that the same seed gives the same result.
func TestConservationInPools(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := &Sessions{
			Users: rapid.IntRange(1, 40).Draw(rt, "users"), Requests: rapid.IntRange(1, 200).Draw(rt, "requests"),
			Prompts: rapid.IntRange(0, 3).Draw(rt, "prompts"), System: rapid.IntRange(0, 500).Draw(rt, "system"),
			Turns: rapid.IntRange(1, 4).Draw(rt, "turns"), Question: rapid.IntRange(1, 100).Draw(rt, "question"),
			Answer: rapid.IntRange(1, 60).Draw(rt, "answer"),
			Think:  time.Duration(rapid.IntRange(0, 2000).Draw(rt, "think")) * time.Millisecond,
		}
		l := drawLayout(rt)
		for i := range l.Pools {
			s.Places = append(s.Places, Place{Share: float64(1 + i)})
		}
		raw := rapid.SampledFrom([]string{
			`{"lb_policy":"global_least_request","lb_config":{"max_inflight":2}}`,
			`{"lb_policy":"prefix_cache","lb_config":{"max_inflight":2,"queue":{"max_wait":"2s"}}}`,
			`{"lb_policy":"prefix_cache","lb_config":{"push":"pending","queue":{"max_wait":"10s","max_length":3}}}`,
		}).Draw(rt, "config")
		c, err := ParseContender("it", []byte(raw), config.Higress)
		if err != nil {
			rt.Fatal(err)
		}
		c.Shared = rapid.Bool().Draw(rt, "shared")
		if l.RTT != nil {
			c, _ = l.Forwarding(c)
			c.Config.Regions.CachedFirst = rapid.Bool().Draw(rt, "cached first")
		}
		seed := rapid.Uint64().Draw(rt, "seed")
		r, err := newRun(s.New(seed), l, c, seed)
		if err != nil {
			rt.Fatal(err)
		}
		r.load.Begin(r.sendAt)
		for r.busy() && r.err == nil {
			r.happens(r.events.next())
		}
		if r.err != nil {
			rt.Fatal(r.err)
		}
		checkWhole(rt, r, s.Requests)
		again, err := l.Run(s.New(seed), c, seed, nil)
		if got := r.result(c.Name); err != nil || !reflect.DeepEqual(got, again) {
			rt.Fatalf("twice the same run: %+v and %+v, %v", figures(got), figures(again), err)
		}
	})
}

// drawLayout draws pools that are regions, or of which one computes prompts for the other.
func drawLayout(rt *rapid.T) *Layout {
	l := &Layout{
		Split: rapid.Bool().Draw(rt, "split"), Gateways: rapid.SampledFrom([]int{0, 1, 3}).Draw(rt, "gateways"),
	}
	for i := range rapid.IntRange(2, 4).Draw(rt, "pools") {
		l.Pools = append(l.Pools, Pool{
			Name: string(rune('a' + i)),
			Engines: Alike(rapid.IntRange(1, 3).Draw(rt, "fleet"), Engine{Config: enginesim.Config{
				NumBlocks: rapid.IntRange(100, 2000).Draw(rt, "blocks"),
				MaxQueued: rapid.SampledFrom([]int{-1, 3}).Draw(rt, "queued"),
			}}),
		})
	}
	if l.Split {
		l.Pools, l.Transfer = l.Pools[:2], time.Millisecond/100
		return l
	}
	for i := range l.Pools {
		l.RTT = append(l.RTT, make([]time.Duration, len(l.Pools)))
		for k := range i {
			rtt := time.Duration(rapid.IntRange(0, 1200).Draw(rt, "rtt")) * time.Millisecond
			l.RTT[i][k], l.RTT[k][i] = rtt, rtt
		}
	}
	return l
}

// checkWhole checks that a run that has ended has served or refused each of its requests once, and that nothing
// remains.
func checkWhole(rt *rapid.T, r *run, requests int) {
	sum := 0
	for _, t := range append(r.tallies[:len(r.tallies):len(r.tallies)], r.all) {
		sum += t.served
		for _, n := range t.refusals {
			sum += n
		}
	}
	if sum != 2*requests || r.all.requests != requests {
		rt.Fatalf("%d served or refused of %d sent, want %d", sum-requests, r.all.requests, requests)
	}
	for _, p := range r.fronts {
		p.product.store.Flush(r.now)
		for _, e := range p.product.view.Endpoints {
			loads, err := p.product.store.Loads(clusterName, []string{e.Addr}, nil)
			if err != nil || loads[0].Requests != 0 || loads[0].Tokens != 0 || p.product.waiting != 0 {
				rt.Fatalf("%v and %d waiting at the end, %v", loads, p.product.waiting, err)
			}
		}
	}
}
