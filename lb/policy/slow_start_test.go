package policy_test

import (
	"container/heap"
	"fmt"
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

// ramp simulates users in a closed loop at a growing cluster: each sends a request, waits for the answer, and pauses.
// Servers work on a limited number of requests at a time; others wait there.
type ramp struct {
	testing.TB
	rand    *rand.Rand
	policy  lb.Policy
	health  *health.Health
	engines *engines.Samples
	store   *memstore.Store
	view    *lb.View
	now     time.Duration
	servers map[string]*server
	users   []user
	todo    events
	last    lb.LeaseID
	from    int // endpoints from this one on are new
	traffic traffic
	sent    []placement
	weight  func(endpoint int) float64 // nil: 1
	ends    func(addr string) lb.Verdict

	// blocks of prompts that were sent before, and of those that were cached where they were sent
	prompts, matched float64
}

const (
	rampService = time.Second // mean of a request's
	rampOutput  = 200         // tokens of an answer
)

// traffic is what the users of a ramp send, and how many of their requests a server works on at a time.
type traffic struct {
	turns        int // of a conversation; 1: nothing that a user sends is cached
	promptTokens int // of each turn
	slots        int
}

var (
	conversations = traffic{turns: 8, promptTokens: 250, slots: 8}
	// Once their prefill is done, requests weigh more by their number than by their tokens.
	longPrompts = traffic{turns: 1, promptTokens: 2000, slots: 48}
)

type server struct {
	working, waiting []int // users
	most             []int // requests there, at each arrival
}

type user struct {
	seeds []uint64 // of the conversation
	lease lb.LeaseID
	at    string
	plan  lb.Plan
	sent  time.Duration
	first time.Duration // when the first part of the answer comes
	work  int64         // tokens that the request was counted for
}

type placement struct {
	at    time.Duration
	addr  string
	fresh bool // at a new endpoint
}

type event struct {
	at   time.Duration
	user int
	kind eventKind
}

type eventKind uint8

const (
	begins eventKind = iota
	answers
	ends
)

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}

// newRamp starts as many users as keep the servers busy for the given share of the time.
func newRamp(t testing.TB, policy string, n int, busy float64, seed uint64) *ramp {
	return newRampWith(t, policy, conversations, n, busy, seed)
}

func newRampWith(t testing.TB, name string, c traffic, n int, busy float64, seed uint64) *ramp {
	p := memstoretest.NewProcess(t)
	r := &ramp{
		TB: t, rand: rand.New(rand.NewPCG(seed, 3)), health: health.New(), engines: engines.New(),
		store:   p.NewStore(),
		servers: map[string]*server{}, from: n, traffic: c, now: time.Minute, ends: func(string) lb.Verdict {
			return lb.Success
		},
	}
	caching := policy.CacheConfig{Credit: 2, TTL: time.Hour, IndexMemory: lb.IndexMemory{Local: 4 << 20}}
	engine := engines.Config{
		StaleAfter: 5 * time.Second, Weights: engines.Weights{Running: 1, Queue: 4, KVCache: 1, LoRA: 16},
	}
	var err error
	r.policy, err = policy.New(name, policy.Config{
		Cluster: health.ClusterConfig{Health: healthtest.Config}, Health: r.health, Engines: r.engines,
		Caches: cache.NewTracker(), Shares: policy.NewRequestShares(),
		Engine: engine, Settings: settingsOf(name, caching, engine),
	})
	if err != nil {
		t.Fatal(err)
	}
	r.resize(n)
	r.users = make([]user, int(busy*float64(n*c.slots)*2)) // users pause as long as they are served
	for i := range r.users {
		heap.Push(&r.todo, event{r.now + r.think(), i, begins})
	}
	return r
}

func (r *ramp) think() time.Duration {
	return time.Duration(r.rand.ExpFloat64() * float64(rampService))
}

func (r *ramp) serviceTime() time.Duration {
	return time.Duration((0.3 + 0.7*r.rand.ExpFloat64()) * float64(rampService))
}

// resize makes the cluster grow.
func (r *ramp) resize(n int) {
	r.view = healthtest.View(n)
	for i, e := range r.view.Endpoints {
		if r.weight != nil {
			r.view.Endpoints[i].Weight = r.weight(i)
		}
		if r.servers[e.Addr] == nil {
			r.servers[e.Addr] = &server{}
		}
	}
}

// run lets time pass.
func (r *ramp) run(span time.Duration) {
	lastScrape := time.Duration(0)
	for end := r.now + span; r.todo[0].at < end; {
		e := heap.Pop(&r.todo).(event)
		r.now = e.at
		if r.now-lastScrape >= time.Second {
			r.scrape()
			lastScrape = r.now
		}
		switch e.kind {
		case begins:
			r.begin(e.user)
		case answers:
			r.answer(e.user)
		case ends:
			r.end(e.user)
		}
	}
}

// scrape updates the engine samples.
func (r *ramp) scrape() {
	samples := map[string]engines.Sample{}
	for addr, s := range r.servers {
		sample := engines.Sample{At: r.now, ScrapedAt: r.now, FreshAt: r.now, Counted: true}
		sample.Inflight.Requests = int64(len(s.working) + len(s.waiting))
		sample.Snapshot = snapshot(r, running(len(s.working)), waiting(len(s.waiting)))
		samples[addr] = sample
	}
	r.engines.Update(r.now, nil, samples)
	_ = r.store.Heartbeat(r.now)
}

// begin sends the next request of a user.
func (r *ramp) begin(i int) {
	u := &r.users[i]
	if len(u.seeds) == r.traffic.turns {
		u.seeds = nil
	}
	u.seeds = append(u.seeds, r.rand.Uint64())
	blocks := storetest.Blocks(u.seeds...)
	request := lb.Request{
		PromptTokens: int64(r.traffic.promptTokens * len(u.seeds)), OutputTokens: rampOutput, Random: r.rand.Uint64(),
		Blocks: blocks, PromptBytes: 100 * len(blocks),
	}
	var reason lb.Reason
	if u.plan, reason = r.policy.Plan(r.now, &request, r.view); reason != lb.ReasonChosen {
		r.Fatal(reason)
	}
	r.last++
	u.lease = r.last
	r.store.Reserve(r.now, u.lease, &u.plan, func(g lb.Grant, err error) {
		if err != nil {
			r.Fatal(err)
		}
		u.at = u.plan.Candidates[g.Index].Addr
		u.sent, u.work = r.now, u.plan.AddedTokens(g.Cached)
		r.health.ObserveGrant(&u.plan, g.Index, g.Load)
		r.engines.AddRequest("", u.at, u.work)
		r.prompts += float64(len(blocks) - 4)
		r.matched += float64(g.Cached)
	})
	s := r.servers[u.at]
	s.most = append(s.most, len(s.working)+len(s.waiting)+1)
	fresh := slices.IndexFunc(r.view.Endpoints, func(e lb.Endpoint) bool { return e.Addr == u.at }) >= r.from
	r.sent = append(r.sent, placement{r.now, u.at, fresh})
	if len(s.working) < r.traffic.slots {
		r.work(s, i)
	} else {
		s.waiting = append(s.waiting, i)
	}
}

func (r *ramp) work(s *server, i int) {
	s.working = append(s.working, i)
	span := r.serviceTime()
	heap.Push(&r.todo, event{r.now + span/10, i, answers})
	heap.Push(&r.todo, event{r.now + span, i, ends})
}

// answer is the first part of an answer: the prefill is over.
func (r *ramp) answer(i int) {
	u := &r.users[i]
	u.first = r.now
	if u.plan.Unit == lb.Tokens {
		r.store.Amend(r.now, u.lease, "", min(u.work, rampOutput))
	}
}

func (r *ramp) end(i int) {
	u := &r.users[i]
	s := r.servers[u.at]
	s.working = slices.DeleteFunc(s.working, func(j int) bool { return j == i })
	r.store.Release(r.now, u.lease)
	r.policy.Observe(r.now, lb.Outcome{
		Addr: u.at, Verdict: r.ends(u.at), CountedTokens: u.work, TTFT: u.first - u.sent, Duration: r.now - u.sent,
	})
	if len(s.waiting) > 0 {
		next := s.waiting[0]
		s.waiting = s.waiting[1:]
		r.work(s, next)
	}
	heap.Push(&r.todo, event{r.now + r.think(), i, begins})
}

// rampUp lets a cluster grow several times. It returns how many requests the new endpoints got in each window after
// they were added, how many they should have got, how many an even share is, and the 99th percentile of the requests at
// a new and at an old endpoint when one more was added.
func rampUp(
	t *testing.T, policy string, c traffic, from, to int, busy float64,
) (got, want, even [len(rampWindows)]float64, fresh, old int) {
	var news, olds []int
	for seed := range 2 + 40/to {
		r := newRampWith(t, policy, c, from, busy, uint64(seed))
		r.run(20 * time.Second)
		r.resize(to)
		came := r.now
		for _, s := range r.servers {
			s.most = nil
		}
		r.run(healthtest.Config.SlowStart)
		for i, e := range r.view.Endpoints {
			if s := r.servers[e.Addr]; i >= from {
				news = append(news, s.most...)
			} else {
				olds = append(olds, s.most...)
			}
		}
		r.run(5 * time.Second)
		for _, p := range r.sent {
			for i, w := range rampWindows {
				in := p.at - came
				if in < w[0] || in >= w[1] {
					continue
				}
				part := min(max(0.05, in.Seconds()/healthtest.Config.SlowStart.Seconds()), 1)
				even[i] += float64(to-from) / float64(to)
				want[i] += part * float64(to-from) / float64(to)
				if p.fresh {
					got[i]++
				}
			}
		}
	}
	slices.Sort(news)
	slices.Sort(olds)
	return got, want, even, news[len(news)*99/100], olds[len(olds)*99/100]
}

var rampWindows = [...][2]time.Duration{
	{0, 2 * time.Second},
	{4 * time.Second, 6 * time.Second},
	{13 * time.Second, 17 * time.Second},
	{26 * time.Second, 30 * time.Second},
	{31 * time.Second, 35 * time.Second},
}

// New endpoints get a share of requests that grows with time from the first request on, for any policy and load, and
// never carry more than the others.
func TestSlowStartShares(t *testing.T) {
	for _, c := range []struct {
		policy      string
		traffic     traffic
		least, most float64 // times their part
	}{
		{"global_least_request", conversations, 0.75, 1.3},
		{"endpoint_metrics", conversations, 0.75, 1.3},
		{"prefix_cache", conversations, 0.3, 1.3}, // conversations stay where they are
		{"prefix_cache", longPrompts, 0.5, 1.3},
	} {
		for _, size := range [][2]int{{3, 4}, {2, 8}, {40, 41}} {
			if size[0]*c.traffic.slots > 1000 {
				continue // takes long, and shows no more
			}
			for _, busy := range []float64{0.3, 0.6, 0.95} {
				if testing.Short() && busy < 0.9 {
					continue
				}
				got, want, even, fresh, old := rampUp(t, c.policy, c.traffic, size[0], size[1], busy)
				name := fmt.Sprintf("%s, %d turns, from %d to %d, %.0f %% busy", c.policy, c.traffic.turns, size[0],
					size[1], 100*busy)
				t.Logf("%s: %.0f of %.0f, p99 %d and %d", name, got, want, fresh, old)
				for i, w := range rampWindows {
					chance := 3*math.Sqrt(want[i]) + 2
					most := c.most*want[i] + chance
					if busy > 0.9 { // it may get requests that would have to wait at all others
						most += even[i] / 3
					}
					if got[i] < c.least*want[i]-chance || got[i] > most {
						t.Errorf("%s: %.0f requests from %v on, want %.0f", name, got[i], w[0], want[i])
					}
				}
				if fresh > old {
					t.Errorf("%s: the 99th percentile is %d requests at a new one, %d at an old one", name, fresh, old)
				}
			}
		}
	}
}
