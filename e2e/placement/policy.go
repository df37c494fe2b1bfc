package placement

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/simulate"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/cache"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/lb/policy"
)

// simple is a policy that only chooses, by what is in flight.
type simple struct {
	rng    *rand.Rand
	counts []int
	choose func(p *simple, r *Request) int
}

func (p *simple) Choose(now time.Duration, r *Request, place func(time.Duration, int)) {
	i := p.choose(p, r)
	p.counts[i]++
	place(now, i)
}

func (p *simple) First(time.Duration, *Request)    {}
func (p *simple) Last(_ time.Duration, r *Request) { p.counts[r.Server]-- }

func simply(choose func(p *simple, r *Request) int) Maker {
	return func(seed uint64, servers []*enginesim.Engine) Policy {
		return &simple{rand.New(rand.NewPCG(seed, 4)), make([]int, len(servers)), choose}
	}
}

// RoundRobin returns the policy of that name.
func RoundRobin() Maker {
	next := -1
	return simply(func(p *simple, _ *Request) int {
		next++
		return next % len(p.counts)
	})
}

// LeastRequest is Envoy's: the better of two random servers.
func LeastRequest() Maker {
	return simply(func(p *simple, _ *Request) int {
		a, b := p.rng.IntN(len(p.counts)), p.rng.IntN(len(p.counts))
		if p.counts[b] < p.counts[a] {
			return b
		}
		return a
	})
}

// FewestRequests is the server with the fewest requests in flight of all.
func FewestRequests() Maker {
	return simply(func(p *simple, _ *Request) int {
		return cheapest(p.rng, len(p.counts), func(i int) float64 { return float64(p.counts[i]) })
	})
}

// RingHash sends all requests of a session to one server.
func RingHash() Maker {
	return simply(func(p *simple, r *Request) int {
		best, most := 0, uint64(0)
		for i := range p.counts {
			if h := xxhash.Sum64String(fmt.Sprint(r.Session, " at ", i)); h > most {
				best, most = i, h
			}
		}
		return best
	})
}

// cheapest returns the one of n that costs least, any of those that cost the same.
func cheapest(rng *rand.Rand, n int, cost func(int) float64) int {
	best, least, ties := 0, math.Inf(1), 0
	for i := range n {
		switch c := cost(i); {
		case c < least:
			best, least, ties = i, c, 1
		case c == least:
			if ties++; rng.IntN(ties) == 0 {
				best = i
			}
		}
	}
	return best
}

// exact knows what the servers have in their caches, and how long answers will be.
type exact struct {
	rng     *rand.Rand
	servers []*enginesim.Engine
	loads   []float64 // tokens
	credit  float64
}

// Exact chooses by load and cached tokens as [lb.Choose] does, with a fixed credit and with true caches and loads. It
// differs in that a request in flight costs nothing beside its tokens, and in that a prompt counts as cached only when
// it has been computed, not as soon as it is sent to a server.
func Exact(credit float64) Maker {
	return func(seed uint64, servers []*enginesim.Engine) Policy {
		return &exact{rand.New(rand.NewPCG(seed, 5)), servers, make([]float64, len(servers)), credit}
	}
}

func (p *exact) Choose(now time.Duration, r *Request, place func(time.Duration, int)) {
	cached := make([]float64, len(p.servers))
	for i, s := range p.servers {
		cached[i] = float64(s.Cached(r.chain))
	}
	i := cheapest(p.rng, len(p.servers), func(i int) float64 { return p.loads[i] - p.credit*cached[i] })
	work := float64(len(r.prompt)/4) - cached[i]
	r.policy = work
	p.loads[i] += work + float64(r.Answer)
	place(now, i)
}

func (p *exact) First(_ time.Duration, r *Request) { p.loads[r.Server] -= r.policy.(float64) }
func (p *exact) Last(_ time.Duration, r *Request)  { p.loads[r.Server] -= float64(r.Answer) }

// warm is a policy of Warmgate over the embedded store.
type warm struct {
	rng     *rand.Rand
	policy  lb.Policy
	store   *memstore.Store
	view    *lb.View
	places  map[string]int
	id      lb.LeaseID
	typical float64 // tokens of an answer, as the plugin learns them
}

// lease is what warm keeps with a request.
type lease struct {
	id       lb.LeaseID
	planned  time.Duration
	placed   time.Duration // after it has waited
	inflight int64         // requests in flight at its server then
	expected int64         // tokens
	output   int64
	work     int64 // tokens that it counts for
	first    time.Duration
}

// DefaultCredit is the plugin's.
const DefaultCredit = 2

// Warm is a policy of Warmgate with a credit.
func Warm(name string, credit float64) Maker {
	return func(seed uint64, servers []*enginesim.Engine) Policy {
		return newWarm(seed, name, len(servers), policy.Config{Settings: cacheConfig(credit)})
	}
}

func cacheConfig(credit float64) *policy.CacheConfig {
	return &policy.CacheConfig{Credit: credit, TTL: 30 * time.Minute, IndexMemory: lb.IndexMemory{Local: 8 << 20}}
}

// newWarm returns the policy of that name with the settings.
func newWarm(seed uint64, name string, servers int, config policy.Config) *warm {
	kv := simulate.Memory{}
	if err := memstore.Prepare(kv); err != nil {
		panic(err)
	}
	config.Unit, config.Health, config.Caches = lb.Tokens, health.New(), cache.NewTracker()
	if config.Engines == nil {
		config.Engines = engines.New()
	}
	policy, err := policy.New(name, config)
	if err != nil {
		panic(err)
	}
	p := &warm{
		rng: rand.New(rand.NewPCG(seed, 6)), policy: policy, store: memstore.New(kv, 1, time.Hour),
		view: &lb.View{Cluster: "llm"}, places: map[string]int{}, typical: 256,
	}
	for i := range servers {
		addr := fmt.Sprintf("10.0.0.%d:8000", i+1)
		p.places[addr] = i
		p.view.Endpoints = append(p.view.Endpoints, lb.Endpoint{Addr: addr})
	}
	return p
}

func (p *warm) Choose(now time.Duration, r *Request, place func(time.Duration, int)) {
	plan := p.plan(now, r)
	p.reserve(now, r, &plan, place)
}

// plan returns the plan for a request, which has a lease from then on.
func (p *warm) plan(now time.Duration, r *Request) lb.Plan {
	p.id++
	l := &lease{id: p.id, planned: now, output: int64(min(float64(r.Answer), 2*math.Ceil(p.typical)))}
	r.policy = l
	plan, reason := p.policy.Plan(now, &lb.Request{
		PromptTokens: int64(len(r.prompt) / 4), OutputTokens: l.output,
		Blocks: r.blocks, PromptBytes: r.length, Random: p.rng.Uint64(),
	}, p.view)
	if reason != lb.ReasonChosen {
		panic(reason)
	}
	return plan
}

// reserve places a request where the store says, when it says so.
func (p *warm) reserve(now time.Duration, r *Request, plan *lb.Plan, place func(time.Duration, int)) {
	l := r.policy.(*lease)
	p.store.Reserve(now, l.id, plan, func(g lb.Grant, err error) {
		if err != nil {
			panic(err)
		}
		l.placed, l.inflight = l.planned+g.Waited, g.Load.Requests
		l.work = plan.AddedTokens(g.Cached)
		l.expected = int64(float64(len(r.prompt)/4) * plan.Prefix.Fraction(g.Cached))
		place(l.placed, p.places[plan.Candidates[g.Index].Addr])
	})
}

func (p *warm) First(now time.Duration, r *Request) {
	l := r.policy.(*lease)
	l.first = now - l.placed
	p.store.Amend(now, l.id, "", l.output)
}

func (p *warm) Last(now time.Duration, r *Request) {
	l := r.policy.(*lease)
	p.store.Release(now, l.id)
	p.typical *= math.Pow(min(max(float64(r.Answer)/p.typical, 0.25), 4), 1.0/16)
	p.policy.Observe(now, lb.Outcome{
		Addr: p.view.Endpoints[r.Server].Addr, Verdict: lb.Success, PlannedAt: l.placed,
		PromptTokens: int64(len(r.prompt) / 4), ExpectedTokens: l.expected, CachedTokens: int64(r.call.Cached()),
		Source:        r.blocks[0].Key,
		CountedTokens: l.work, TTFT: l.first, Duration: now - l.placed,
	})
}
