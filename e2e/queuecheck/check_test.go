package queuecheck_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/queuecheck"
)

const ms = time.Millisecond

// draw returns a request of any kind.
func draw(rng *rand.Rand, endpoints []string) queuecheck.Request {
	r := queuecheck.Request{
		Class: []string{"high", "low"}[rng.IntN(2)], Tenant: []string{"a", "b", "c"}[rng.IntN(3)],
		Cost: float64(1 + rng.IntN(10)), Endpoints: endpoints, Skip: 4, Aging: 2000 * ms, MaxWait: 4000 * ms,
		Patience: 50 * ms,
	}
	if rng.IntN(4) == 0 {
		r.Endpoints = endpoints[:1+rng.IntN(2)]
	}
	if rng.IntN(3) == 0 {
		r.Warm = r.Endpoints[:1]
	}
	return r
}

// rules are those that all histories of the model keep.
func rules(strict bool) queuecheck.Rules {
	return queuecheck.Rules{Weights: weights, Strict: strict, Share: 0.05, MinGrants: 4000, Idle: ms, Tenants: 20}
}

func history(seed uint64, n int, strict bool) (queuecheck.History, queuecheck.Rules) {
	r := rules(strict)
	m := newModel(seed, r)
	return m.run(n, 0.5+m.rng.Float64(), draw), r
}

func TestGoodHistoriesPass(t *testing.T) {
	for seed := range uint64(100) {
		h, r := history(seed, 400, seed%2 == 0)
		if found := queuecheck.Check(h, r); len(found) > 0 {
			t.Fatalf("history %d: %v of %d", seed, found[0], len(found))
		}
	}
}

// TestSwappedPlaces swaps the grants of two requests of one tenant that waited at the same time, in many histories.
func TestSwappedPlaces(t *testing.T) {
	swaps := 0
	for seed := range uint64(500) {
		h, r := history(seed, 150, seed%2 == 0)
		rng := rand.New(rand.NewPCG(seed, 2))
		for range 5 {
			mutant := slices.Clone(h)
			if !swap(rng, mutant) {
				continue
			}
			swaps++
			if len(queuecheck.Check(mutant, r)) == 0 {
				t.Fatalf("history %d with two places swapped passes", seed)
			}
		}
	}
	if swaps < 1000 {
		t.Fatalf("only %d pairs were swapped", swaps)
	}
}

// swap exchanges who was granted what, of two requests that both waited and have no warm prefix.
func swap(rng *rand.Rand, h queuecheck.History) bool {
	entered := map[uint64]queuecheck.Event{}
	var grants []int
	for i, e := range h {
		switch {
		case e.Kind == queuecheck.Entered:
			entered[e.ID] = e
		case e.Kind == queuecheck.Granted && e.At > entered[e.ID].At && len(entered[e.ID].Request.Warm) == 0:
			grants = append(grants, i)
		}
	}
	for range 100 {
		if len(grants) < 2 {
			return false
		}
		i, j := grants[rng.IntN(len(grants))], grants[rng.IntN(len(grants))]
		a, b := entered[h[i].ID], entered[h[j].ID]
		if a.Request.Class == b.Request.Class && a.Request.Tenant == b.Request.Tenant && h[i].At < h[j].At &&
			a.At < b.At && b.At < h[i].At {
			h[i].ID, h[j].ID = h[j].ID, h[i].ID
			for k := range h { // each keeps its time of service
				switch {
				case h[k].Kind == queuecheck.Released && h[k].ID == a.ID:
					h[k].ID = b.ID
				case h[k].Kind == queuecheck.Released && h[k].ID == b.ID:
					h[k].ID = a.ID
				}
			}
			return true
		}
	}
	return false
}

func TestSharesFollowTheWeights(t *testing.T) {
	saturated := func(rng *rand.Rand, endpoints []string) queuecheck.Request {
		class := "high"
		if rng.IntN(9) < 3 {
			class = "low"
		}
		return queuecheck.Request{Class: class, Cost: float64(1 + rng.IntN(10)), Endpoints: endpoints}
	}
	r := rules(false)
	h := newModel(1, r).run(8000, 3, saturated)
	if found := queuecheck.Check(h, r); len(found) > 0 {
		t.Fatal(found[0])
	}
	r.Weights = map[string]float64{"high": 7, "low": 1}
	if found := queuecheck.Check(h, r); len(found) == 0 || found[0].Rule != queuecheck.RuleShare {
		t.Fatalf("by other weights: %v", found)
	}
}
