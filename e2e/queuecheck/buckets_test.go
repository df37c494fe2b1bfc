package queuecheck_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/queuecheck"
)

// perMinute is what the bucket of the model holds.
const perMinute = 6000

// bucketHistory returns a history of an endpoint that serves, of those that wait, the first one for which its bucket
// has enough.
func bucketHistory(seed uint64) (h queuecheck.History, rules queuecheck.Rules) {
	rng, left := rand.New(rand.NewPCG(seed, 3)), float64(perMinute)
	var waiting []queuecheck.Event
	id := uint64(0)
	for now := time.Duration(0); len(h) < 300 || len(waiting) > 0; now += 250 * ms {
		left = min(perMinute, left+25)
		if len(h) < 300 && rng.IntN(4) > 0 {
			id++
			size := float64([]int{50, 100, 200, 400, 7000}[rng.IntN(40)*4/39])
			e := queuecheck.Event{At: now, Kind: queuecheck.Entered, ID: id, Request: queuecheck.Request{
				Class: []string{"high", "low"}[rng.IntN(2)], Cost: size, Endpoints: []string{"e"},
			}}
			h, waiting = append(h, e), append(waiting, e)
		}
		for i := 0; i < len(waiting); i++ {
			e := waiting[i]
			if min(e.Request.Cost, perMinute) > left {
				continue
			}
			left -= e.Request.Cost
			waiting = slices.Delete(waiting, i, i+1)
			i = -1
			h = append(h, queuecheck.Event{
				At: now + ms, Kind: queuecheck.Granted, ID: e.ID, Endpoint: "e", Tokens: int64(e.Request.Cost),
			})
		}
	}
	return h, queuecheck.Rules{
		Weights: weights, Buckets: map[string]queuecheck.Bucket{"e": {PerMinute: perMinute}},
	}
}

func TestHistoriesWithBuckets(t *testing.T) {
	swaps := 0
	for seed := range uint64(100) {
		h, rules := bucketHistory(seed)
		if found := queuecheck.Check(h, rules); len(found) > 0 {
			t.Fatalf("history %d: %v of %d", seed, found[0], len(found))
		}
		rng := rand.New(rand.NewPCG(seed, 4))
		for range 5 {
			mutant := slices.Clone(h)
			if !swapSameSize(rng, mutant) {
				continue
			}
			swaps++
			if found := queuecheck.Check(mutant, rules); len(found) == 0 || found[0].Rule != queuecheck.RuleOrder {
				t.Fatalf("history %d with two places swapped: %v", seed, found)
			}
		}
	}
	if swaps < 200 {
		t.Fatalf("only %d pairs were swapped", swaps)
	}
}

// swapSameSize exchanges the grants of two requests of one class and size that waited at the same time.
func swapSameSize(rng *rand.Rand, h queuecheck.History) bool {
	entered := map[uint64]queuecheck.Event{}
	var grants []int
	for i, e := range h {
		if e.Kind == queuecheck.Entered {
			entered[e.ID] = e
		} else if e.At > entered[e.ID].At+ms {
			grants = append(grants, i)
		}
	}
	for range 100 {
		if len(grants) < 2 {
			return false
		}
		i, j := grants[rng.IntN(len(grants))], grants[rng.IntN(len(grants))]
		a, b := entered[h[i].ID], entered[h[j].ID]
		if a.Request.Class == b.Request.Class && a.Request.Cost == b.Request.Cost && h[i].At < h[j].At &&
			a.At < b.At && b.At < h[i].At {
			h[i].ID, h[j].ID = h[j].ID, h[i].ID
			return true
		}
	}
	return false
}

// No more is granted than a bucket has: a grant that comes too early, or takes more, is found.
func TestBucketsAreNotExceeded(t *testing.T) {
	at := func(times [3]int, tokens [3]int64) []queuecheck.Violation {
		s := &story{}
		for i, n := range tokens {
			s.enter(times[i], uint64(i+1), func(r *queuecheck.Request) { r.Cost = float64(n) })
			s.grantFor(times[i], uint64(i+1), n)
		}
		return queuecheck.Check(s.History, queuecheck.Rules{
			Buckets: map[string]queuecheck.Bucket{"e": {PerMinute: perMinute}}, Open: true,
		})
	}
	for name, c := range map[string]struct {
		times  [3]int
		tokens [3]int64
		bad    bool
	}{
		"as it refills":          {[3]int{0, 10_000, 20_000}, [3]int64{6000, 1000, 1000}, false},
		"too early":              {[3]int{0, 9_900, 20_000}, [3]int64{6000, 1000, 1000}, true},
		"too many":               {[3]int{0, 10_000, 20_000}, [3]int64{6000, 1000, 1001}, true},
		"no more than it holds":  {[3]int{0, 10_000, 900_000}, [3]int64{1, 6000, 6000}, false},
		"one that is larger":     {[3]int{0, 120_000, 180_000}, [3]int64{12_000, 6000, 6000}, false},
		"another one after it":   {[3]int{0, 119_000, 180_000}, [3]int64{12_000, 6000, 1}, true},
		"a larger one too early": {[3]int{0, 59_000, 180_000}, [3]int64{6000, 12_000, 1}, true},
	} {
		found := at(c.times, c.tokens)
		if (len(found) > 0) != c.bad || c.bad && found[0].Rule != queuecheck.RuleBucket {
			t.Errorf("%s: %v", name, found)
		}
	}
}
