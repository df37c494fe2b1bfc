package policy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/cache"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/health/healthtest"
	"github.com/warmgate/warmgate/lb/models"
	"github.com/warmgate/warmgate/lb/policy"
)

// slotted are endpoints that have room for some models each, and put the one that was used longest ago out for another.
type slotted struct {
	rng     *rand.Rand
	view    *lb.View
	facts   *models.Facts
	policy  lb.Policy
	slots   int
	held    [][]uint64 // by endpoint, the latest last
	loads   []lb.Load
	ends    []ending
	loaded  int     // models that were loaded in place of others
	excess  float64 // sum of how many times the mean the busiest endpoint has
	samples int
}

type ending struct {
	at       time.Duration
	endpoint int
}

func newSlots(t *testing.T, name string, endpoints, slots int, weight float64) *slotted {
	t.Helper()
	h := &slotted{
		rng: rand.New(rand.NewPCG(7, 11)), view: healthtest.View(endpoints), facts: models.NewFacts(), slots: slots,
		held: make([][]uint64, endpoints), loads: make([]lb.Load, endpoints),
	}
	c := policy.Config{
		Cluster: *healthtest.Cluster, Health: health.New(), Facts: h.facts, Caches: cache.NewTracker(),
		Engines: engines.New(), Affinity: weight,
	}
	if name == "prefix_cache" {
		c.Settings = &policy.CacheConfig{Credit: 2, TTL: time.Hour, IndexMemory: lb.IndexMemory{Local: 1 << 20}}
	}
	var err error
	if h.policy, err = policy.New(name, c); err != nil {
		t.Fatal(err)
	}
	return h
}

// play sends so many requests a second for five minutes, each for the model that pick draws, and counts in the last
// four. An answer takes a second.
func (h *slotted) play(t *testing.T, rate float64, pick func() int) {
	t.Helper()
	for now := time.Hour; now < time.Hour+5*time.Minute; {
		now += time.Duration(h.rng.ExpFloat64() / rate * float64(time.Second))
		h.ends = slices.DeleteFunc(h.ends, func(e ending) bool {
			if e.at <= now {
				h.loads[e.endpoint].Requests--
				h.loads[e.endpoint].Tokens -= 100
			}
			return e.at <= now
		})
		model := models.Name(fmt.Sprint("model ", pick()))
		r := &lb.Request{ModelID: model, ModelName: model, PromptTokens: 90, OutputTokens: 10, Random: h.rng.Uint64()}
		plan, why := h.policy.Plan(now, r, h.view)
		if why != lb.ReasonChosen {
			t.Fatal(why)
		}
		at := lb.Choose(&plan, h.loads, nil)
		h.facts.Placed(now, model)
		h.loads[at].Requests++
		h.loads[at].Tokens += 100
		h.ends = append(h.ends, ending{now + time.Second, at})
		h.use(at, model, now > time.Hour+time.Minute)
	}
}

func (h *slotted) use(at int, model uint64, counts bool) {
	held := h.held[at]
	i := slices.Index(held, model)
	if i >= 0 {
		held = slices.Delete(held, i, i+1)
	} else if len(held) == h.slots {
		held = slices.Delete(held, 0, 1)
	}
	h.held[at] = append(held, model)
	if !counts {
		return
	}
	if i < 0 {
		h.loaded++
	}
	most, sum := int64(0), int64(0)
	for _, l := range h.loads {
		most, sum = max(most, l.Requests), sum+l.Requests
	}
	h.excess += float64(most) * float64(len(h.loads)) / float64(sum)
	h.samples++
}

// With more adapters than fit, requests keep to the endpoints that have theirs, and the load stays as even as a few
// requests; a base model, or one adapter that all ask for, is spread as without.
func TestModelsStayTogether(t *testing.T) {
	const rate = 80 // requests a second, of which 10 are at each endpoint
	for _, c := range []struct {
		name   string
		policy string
		pick   func(h *slotted) int
		loads  float64 // in place of others, at most, relative to without
		excess float64 // of the busiest over the mean, at most
	}{
		{"32 adapters, equal", "global_least_request", func(h *slotted) int { return h.rng.IntN(32) }, 0.25, 1.6},
		{"32 adapters, equal", "prefix_cache", func(h *slotted) int { return h.rng.IntN(32) }, 0.25, 1.6},
		{"32 adapters, few asked for much", "global_least_request", func(h *slotted) int {
			return min(int(h.rng.ExpFloat64()*5), 31)
		}, 0.3, 1.6},
		{"a base model and 31 adapters", "global_least_request", func(h *slotted) int {
			return h.rng.IntN(2) * h.rng.IntN(32)
		}, 0.3, 1.6},
		{"one model", "global_least_request", func(*slotted) int { return 0 }, 1, 1.3},
	} {
		t.Run(c.name+", "+c.policy, func(t *testing.T) {
			var with, without *slotted
			for _, weight := range []float64{0, 16} {
				h := newSlots(t, c.policy, 8, 6, weight)
				h.play(t, rate, func() int { return c.pick(h) })
				if with, without = h, with; weight == 0 {
					without = nil
				}
			}
			excess := with.excess / float64(with.samples)
			t.Logf("%d of %d requests had a model loaded, %d without affinity; the busiest has %.2f of the mean, %.2f",
				with.loaded, with.samples, without.loaded, excess, without.excess/float64(without.samples))
			if float64(with.loaded) > c.loads*float64(without.loaded) || excess > c.excess {
				t.Error("that is too much")
			}
		})
	}
}

// However many names there are, few lists of candidates are made, and with more endpoints than homes have in an order,
// those behind that are as any others behind the first.
func TestAffinityIsBounded(t *testing.T) {
	h, lists := newSlots(t, "global_least_request", 8, 1, 16), map[uint64]bool{}
	for i := range uint64(1000) {
		plan, _ := h.policy.Plan(time.Hour, &lb.Request{ModelID: 1, ModelName: lb.Mix(i + 1), Random: i}, h.view)
		lists[plan.Digest()] = true
	}
	if len(lists) > models.Groups {
		t.Errorf("%d lists", len(lists))
	}
	h = newSlots(t, "global_least_request", lb.MaxOrder+44, 1, 16)
	for i := range 5000 {
		h.facts.Placed(time.Hour, uint64(1+i%20/19))
	}
	plan, _ := h.policy.Plan(time.Hour, &lb.Request{ModelID: 1, ModelName: 1}, h.view)
	for _, c := range plan.Candidates {
		if c.Base > 0 {
			t.Fatal("of a model that needs nearly all endpoints one costs more")
		}
	}
}

// A request whose model is not known and one that computes nothing are planned as without.
func TestAffinityIsForModels(t *testing.T) {
	h := newSlots(t, "global_least_request", 4, 1, 16)
	bases := func(r lb.Request) (n int) {
		plan, why := h.policy.Plan(time.Hour, &r, h.view)
		if why != lb.ReasonChosen {
			t.Fatal(why)
		}
		for i := range plan.Candidates {
			if plan.Candidates[i].Base > 0 {
				n++
			}
		}
		return n
	}
	for name, c := range map[string]struct {
		r    lb.Request
		want int
	}{
		"of a model":     {lb.Request{ModelID: 1, ModelName: 1}, 3},
		"of another":     {lb.Request{ModelID: 2, ModelName: 2}, 3},
		"of none":        {lb.Request{}, 0},
		"for its tokens": {lb.Request{ModelID: 1, ModelName: 1, Idle: true}, 0},
	} {
		if n := bases(c.r); n != c.want {
			t.Errorf("a request %s costs more at %d endpoints, want %d", name, n, c.want)
		}
	}
}
