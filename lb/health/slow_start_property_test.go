package health

import (
	"math"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"pgregory.net/rapid"
)

// The share of an endpoint grows from minStartShare to 1 within its slow start, and never falls while it works.
func TestStartShareGrows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := drawHealthConfig(rt)
		e := &endpointHealth{firstSeen: time.Hour, startsSlowly: rapid.Bool().Draw(rt, "new")}
		if rapid.Bool().Draw(rt, "was ejected") {
			e.ejection = ejection{from: time.Hour, until: time.Hour + time.Second, times: 1, failures: 9}
		}
		since := e.firstSeen
		if until := e.ejectedUntil(&cfg); until > since {
			since = until
		}
		last := 0.0
		for now := since; now < since+2*cfg.SlowStart+time.Second; now += max(cfg.SlowStart/37, time.Second) {
			share, began := e.startShare(now, &cfg)
			if share < last || share < minStartShare || share > 1 || began != since {
				rt.Fatalf("%v after %v: share %v after %v, since %v", now-since, cfg.SlowStart, share, last, began)
			}
			if now-since >= cfg.SlowStart && share != 1 {
				rt.Fatalf("%v after the start of %v: share %v", now-since, cfg.SlowStart, share)
			}
			last = share
		}
	})
}

// startingFleet is endpoints of which some were added later, one after another.
func startingFleet(rt *rapid.T) (h *Health, v *lb.View, cfg *ClusterConfig, now time.Duration) {
	cfg = &ClusterConfig{Health: Config{SlowStart: 30 * time.Second, MaxEjectionPercent: 50}}
	h, now = New(), time.Hour
	endpoints := []lb.Endpoint{{Addr: addrOf(0)}, {Addr: addrOf(1)}}
	for range rapid.IntRange(1, 6).Draw(rt, "added") {
		v = &lb.View{Endpoints: endpoints[:len(endpoints):len(endpoints)]}
		h.Candidates(now, v, cfg, 0)
		endpoints = append(endpoints, lb.Endpoint{
			Addr: addrOf(len(endpoints)), Weight: rapid.Float64Range(0.2, 5).Draw(rt, "weight"),
			State: rapid.SampledFrom([]lb.State{lb.Healthy, lb.Healthy, lb.Degraded}).Draw(rt, "state"),
		})
		now += time.Duration(rapid.IntRange(0, 12_000).Draw(rt, "ms")) * time.Millisecond
	}
	v = &lb.View{Endpoints: endpoints}
	h.Candidates(now, v, cfg, 0)
	return h, v, cfg, now
}

// drawnLists returns the lists that a share of all draws gives to requests of a tier, in the order of the draws, each
// once for each time that it follows another one.
func drawnLists(h *Health, now time.Duration, v *lb.View, cfg *ClusterConfig, tierDraw uint64) (lists []lb.List) {
	const draws = 500
	for i := range uint64(draws) {
		draw := i*(1<<16)/draws<<48 | tierDraw<<32
		list, _ := h.Candidates(now, v, cfg, draw)
		if len(lists) == 0 || lists[len(lists)-1].Digest() != list.Digest() {
			lists = append(lists, list)
		}
	}
	return lists
}

// Draws are divided into ranges: one for each group of new endpoints, which are preferred there, and the rest, in which
// they count as loaded. All lists have the same endpoints and differ in the cost of the new ones only.
func TestDrawsOfNewEndpoints(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h, v, cfg, now := startingFleet(rt)
		now += time.Duration(rapid.IntRange(0, 35).Draw(rt, "later")) * time.Second
		lists := drawnLists(h, now, v, cfg, uint64(rapid.IntRange(0, 1<<16-1).Draw(rt, "tier")))
		seen := map[uint64]bool{}
		for n, list := range lists {
			if seen[list.Digest()] {
				rt.Fatalf("range %d of the draws gives the list of an earlier one", n)
			}
			seen[list.Digest()] = true
			for i, c := range list.Candidates {
				first := lists[0].Candidates[i]
				e := h.endpoints[c.Addr]
				if share, _ := e.startShare(now, &cfg.Health); share == 1 && c != first {
					rt.Fatalf("%+v differs from %+v in another range, and is not new", c, first)
				}
				c.Base = first.Base
				if c != first {
					rt.Fatalf("%+v differs from %+v", c, first)
				}
			}
		}
		if now-time.Hour > 2*time.Minute && len(lists) > 1 {
			rt.Fatalf("%d lists after two minutes", len(lists))
		}
	})
}

// In each range but the last one an endpoint is preferred that is not in the range before, and in the last one none.
func TestEachRangePrefersOthers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h, v, cfg, now := startingFleet(rt)
		lists := drawnLists(h, now, v, cfg, 0)
		rest := lists[len(lists)-1].Candidates
		for n := range lists[:len(lists)-1] {
			list, preferred := lists[n].Candidates, 0
			for i := range list {
				if list[i].Base < rest[i].Base {
					preferred++
					if n > 0 && lists[n-1].Candidates[i].Base < rest[i].Base {
						rt.Fatalf("%s is preferred in the ranges %d and %d", list[i].Addr, n-1, n)
					}
				}
			}
			if preferred == 0 {
				rt.Fatalf("no endpoint is preferred in range %d of %d", n, len(lists))
			}
		}
	})
}

// The typical load follows the loads at which requests are placed: it stays within what was seen, and two requests
// above twice the mean at most count of a single peak.
func TestTypicalLoadIsBounded(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h, v, cfg, _ := startingFleet(rt)
		highest, before := 0.0, 0.0
		plan := &lb.Plan{List: lb.NewList([]lb.Candidate{{Addr: v.Endpoints[0].Addr, Slope: 1, Weight: 1}})}
		for range rapid.IntRange(1, 60).Draw(rt, "grants") {
			n := int64(rapid.IntRange(1, 200).Draw(rt, "requests"))
			highest = max(highest, float64(n))
			h.ObserveGrant(plan, 0, lb.Load{Requests: n})
			mean := h.meanLoad[lb.Requests]
			if mean < 0 || mean > highest || mean > before+(before+2)*risingGain+1e-9 {
				rt.Fatalf("mean load %v after %v, with loads up to %v", mean, before, highest)
			}
			before = mean
			load, request := h.typicalLoad(cfg.Unit)
			if request != 1 || load < mean || load > 1.25*mean+request {
				rt.Fatalf("typical load %v of a mean of %v", load, mean)
			}
		}
	})
}

// Weights are normalized within each tier: they keep their ratios, and the expected weight at the endpoint of a request
// is 1.
func TestWeightsAreNormalized(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		weight := rapid.Float64Range(0.001, 1000)
		cs := make([]lb.Candidate, rapid.IntRange(1, 12).Draw(rt, "candidates"))
		was := make([]float64, len(cs))
		for i := range cs {
			was[i] = weight.Draw(rt, "weight")
			cs[i] = lb.Candidate{Weight: was[i], Tier: uint8(rapid.IntRange(0, 1).Draw(rt, "tier"))}
		}
		normalizeWeights(cs, 2)
		var sum, squares [2]float64
		for i, c := range cs {
			sum[c.Tier] += c.Weight
			squares[c.Tier] += c.Weight * c.Weight
			for k, other := range cs {
				ratio := c.Weight / other.Weight * was[k] / was[i]
				if c.Tier == other.Tier && math.Abs(ratio-1) > 1e-5 || was[i] == was[k] && c.Tier == other.Tier &&
					c.Weight != other.Weight {
					rt.Fatalf("weights %v and %v were %v and %v", c.Weight, other.Weight, was[i], was[k])
				}
			}
		}
		for tier := range sum {
			if sum[tier] > 0 && math.Abs(squares[tier]/sum[tier]-1) > 1e-5 {
				rt.Fatalf("the expected weight in tier %d is %v", tier, squares[tier]/sum[tier])
			}
		}
	})
}

// The tier of a request follows its draw: each tier gets exactly its percentage of all draws.
func TestDrawTierIsExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var tiers []tier
		left := 100
		for left > 0 {
			load := rapid.IntRange(1, left).Draw(rt, "load")
			tiers = append(tiers, tier{load: load})
			left -= load
		}
		count := make([]int, len(tiers))
		other := rapid.Uint64().Draw(rt, "other bits")
		for bits := range uint64(1 << 16) {
			if bits%7 == other%7 { // a seventh of the draws
				count[drawTier(tiers, other&^(0xffff<<32)|bits<<32)]++
			}
		}
		for i, n := range count {
			if share := float64(n) / (1 << 16) * 7; math.Abs(share-float64(tiers[i].load)/100) > 0.001 {
				rt.Fatalf("tier %d of %+v gets %v of the draws", i, tiers, share)
			}
		}
	})
}
