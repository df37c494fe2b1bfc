package policy_test

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/cache"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/health/healthtest"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/lb/memstore/memstoretest"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/storetest"
)

// liar is a client among others at equally fast endpoints. Its prompts begin alike, so that they stay at one endpoint,
// and its answers seem to take other times than they do.
type liar struct {
	share float64 // of all requests
	times float64 // as long as answers take, they seem to
	short bool    // answers of eight tokens
}

// crowd is a liar's endpoints and the other clients.
type crowd struct {
	*liar
	rng     *rand.Rand
	view    *lb.View
	policy  lb.Policy
	store   *memstore.Store
	id      lb.LeaseID
	running replies
	others  map[string]float64 // requests that endpoints got of them
}

// spread plays four minutes and returns which shares of the others' requests the endpoints got in the last three.
func (l *liar) spread(t *testing.T, seed uint64, endpoints int) []float64 {
	t.Helper()
	c := &crowd{
		liar: l, rng: rand.New(rand.NewPCG(seed, 9)), view: healthtest.View(endpoints),
		store: memstore.New(memstoretest.NewProcess(t), 1, storetest.TTL), others: map[string]float64{},
	}
	var err error
	if c.policy, err = policy.New("prefix_cache", policy.Config{
		Cluster: *healthtest.Cluster, Health: health.New(), Caches: cache.NewTracker(), Engines: engines.New(),
		Settings: &policy.CacheConfig{Credit: 2, TTL: 30 * time.Minute, IndexMemory: lb.IndexMemory{Local: 8 << 20}},
	}); err != nil {
		t.Fatal(err)
	}
	const each = 3.5 // requests of an endpoint in a second, of which some five are in flight
	for now := time.Duration(0); now < 4*time.Minute; {
		now += time.Duration(c.rng.ExpFloat64() / (each * float64(endpoints)) * float64(time.Second))
		for len(c.running) > 0 && c.running[0].at <= now {
			r := heap.Pop(&c.running).(reply)
			c.store.Release(r.at, r.id)
			c.policy.Observe(r.at, r.outcome)
		}
		c.send(t, now)
	}
	got, all := make([]float64, endpoints), 0.0
	for _, n := range c.others {
		all += n
	}
	for i := range got {
		got[i] = c.others[c.view.Endpoints[i].Addr] / all
	}
	return got
}

// send sends a request: the liar's, or one of a conversation behind the prompt that all others have.
func (c *crowd) send(t *testing.T, now time.Duration) {
	t.Helper()
	seeds, tokens, times := []uint64{7}, int64(57+c.rng.IntN(113)), 1.0
	talk := uint64(1 + c.rng.IntN(40*len(c.view.Endpoints)))
	for turn := range uint64(1 + c.rng.IntN(5)) {
		seeds = append(seeds, talk<<8|turn)
	}
	lies := c.rng.Float64() < c.share
	if lies {
		seeds, times = []uint64{c.rng.Uint64()}, c.times
		for n := range uint64(60) {
			seeds = slices.Insert(seeds, int(n), 1<<40|n)
		}
		if c.short {
			tokens = 8
		}
	}
	blocks := storetest.Blocks(seeds...)
	r := lb.Request{
		PromptTokens: int64(len(blocks)) * tokensInBlock, OutputTokens: 113, Blocks: blocks,
		PromptBytes: blocks[len(blocks)-1].End, Random: c.rng.Uint64(),
	}
	perToken := (0.8 + 0.4*c.rng.Float64()) * float64(time.Millisecond)
	plan, reason := c.policy.Plan(now, &r, c.view)
	if reason != lb.ReasonChosen {
		t.Fatal(reason)
	}
	c.id++
	c.store.Reserve(now, c.id, &plan, func(g lb.Grant, err error) {
		if err != nil {
			t.Fatal(err)
		}
		addr := plan.Candidates[g.Index].Addr
		if !lies && now > time.Minute {
			c.others[addr]++
		}
		perToken *= 10 + float64(g.Load.Requests)/2
		o := lb.Outcome{
			Addr: addr, Verdict: lb.Success, Model: 1, Streamed: true, PlannedAt: now, Source: blocks[0].Key,
			PerToken: time.Duration(perToken * times), OutputTokens: tokens, Load: float64(g.Load.Requests),
			CountedTokens: r.PromptTokens, TTFT: 50 * time.Millisecond,
			Duration: time.Duration(float64(tokens) * perToken),
		}
		heap.Push(&c.running, reply{now + o.Duration, c.id, o})
	})
}

// apart returns the total variation distance of two distributions.
func apart(a, b []float64) (d float64) {
	for i := range a {
		d += math.Abs(a[i]-b[i]) / 2
	}
	return d
}

// A client whose answers seem to take longer, or less long, than they do moves no more of the others' requests than
// twice its share, however sure its prompts are to come to one endpoint. It moves most where it is as many requests
// there as all others together.
func TestLiarsMoveTheirShare(t *testing.T) {
	for _, c := range []struct {
		liar
		endpoints int
	}{
		{liar{0.06, 10, false}, 16},
		{liar{0.05, 1.0 / 64, false}, 8},
		{liar{0.05, 100, true}, 8},
	} {
		const seeds = 3
		moved := 0.0
		for seed := range uint64(seeds) {
			honest := liar{c.share, 1, c.short}
			moved += apart(c.spread(t, seed, c.endpoints), honest.spread(t, seed, c.endpoints)) / seeds
		}
		t.Logf("%+v of %d endpoints: %.2f of its share", c.liar, c.endpoints, moved/c.share)
		if moved > 2*c.share {
			t.Errorf("%+v of %d endpoints moves %.3f of the others' requests", c.liar, c.endpoints, moved)
		}
	}
}
