package policy_test

import (
	"container/heap"
	"container/list"
	"math/rand/v2"
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
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/lb/storetest"
)

// tokensInBlock is the number of tokens of each block of these simulations.
const tokensInBlock = 100

// lru is the cache of a simulated engine. It evicts the least recently used blocks, the ends of prompts first.
type lru struct {
	most  int
	order *list.List // of keys, the one used last in front
	at    map[uint64]*list.Element
}

func newLRU(most int) *lru { return &lru{most, list.New(), map[uint64]*list.Element{}} }

// serve returns how many of the leading blocks are cached, and caches all of them.
func (c *lru) serve(blocks []prompt.Block) (cached int) {
	for cached < len(blocks) && c.at[blocks[cached].Key] != nil {
		cached++
	}
	for i := len(blocks) - 1; i >= 0; i-- {
		key := blocks[i].Key
		if e := c.at[key]; e != nil {
			c.order.MoveToFront(e)
			continue
		}
		c.at[key] = c.order.PushFront(key)
		if c.order.Len() > c.most {
			delete(c.at, c.order.Remove(c.order.Back()).(uint64))
		}
	}
	return cached
}

// cluster simulates conversations with engines behind prefix_cache and the embedded store.
type cluster struct {
	rng      *rand.Rand
	policy   lb.Policy
	known    *cache.Tracker
	store    *memstore.Store
	view     *lb.View
	caches   map[string]*lru
	reported bool // answers report cached tokens
	now      time.Duration
	id       lb.LeaseID
	turns    []uint64 // of each conversation, how many it has had
	begun    []uint64 // of each conversation, how many preceded it in its place
	running  replies

	prompt, expected, cached, off int64 // tokens of all requests, and the sum of the prediction errors
}

// reply is a request in flight.
type reply struct {
	at      time.Duration
	id      lb.LeaseID
	outcome lb.Outcome
}

type replies []reply

func (r replies) Len() int           { return len(r) }
func (r replies) Less(i, j int) bool { return r[i].at < r[j].at }
func (r replies) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *replies) Push(x any)        { *r = append(*r, x.(reply)) }
func (r *replies) Pop() any {
	last := (*r)[len(*r)-1]
	*r = (*r)[:len(*r)-1]
	return last
}

// newCluster returns a cluster of endpoints with caches of the given number of blocks.
func newCluster(t *testing.T, endpoints, blocks, conversations int, reported bool) *cluster {
	c := &cluster{
		rng: rand.New(rand.NewPCG(1, 1)), known: cache.NewTracker(),
		store: memstore.New(memstoretest.NewProcess(t), 1, storetest.TTL), view: healthtest.View(endpoints),
		caches: map[string]*lru{}, reported: reported, turns: make([]uint64, conversations),
		begun: make([]uint64, conversations),
	}
	// With this credit load hardly matters, so that only the predictions make a difference.
	policy, err := policy.New("prefix_cache", policy.Config{
		Cluster: *healthtest.Cluster, Health: health.New(), Caches: c.known, Engines: engines.New(),
		Settings: &policy.CacheConfig{Credit: 100, TTL: 30 * time.Minute, IndexMemory: lb.IndexMemory{Local: 8 << 20}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.policy = policy
	for i := range c.view.Endpoints {
		c.caches[c.view.Endpoints[i].Addr] = newLRU(blocks)
	}
	return c
}

// play sends a request per interval, each of a random conversation: the longer a conversation has paused, the less of
// it is cached.
func (c *cluster) play(t *testing.T, period, every time.Duration) {
	for end := c.now + period; c.now < end; {
		c.now += time.Duration(c.rng.ExpFloat64() * float64(every))
		for len(c.running) > 0 && c.running[0].at <= c.now {
			c.end(heap.Pop(&c.running).(reply))
		}
		c.send(t, c.rng.IntN(len(c.turns)))
	}
}

// send sends the next turn of a conversation, which starts again after ten.
func (c *cluster) send(t *testing.T, conversation int) {
	if c.turns[conversation]++; c.turns[conversation] > 10 {
		c.turns[conversation] = 1
		c.begun[conversation]++
	}
	var seeds []uint64
	for turn := range c.turns[conversation] {
		seeds = append(seeds, uint64(conversation)<<32|c.begun[conversation]<<8|turn)
	}
	blocks := storetest.Blocks(seeds...)
	r := lb.Request{
		PromptTokens: int64(len(blocks)) * tokensInBlock, OutputTokens: 200, Blocks: blocks,
		PromptBytes: blocks[len(blocks)-1].End, Random: c.rng.Uint64(),
	}
	plan, reason := c.policy.Plan(c.now, &r, c.view)
	if reason != lb.ReasonChosen {
		t.Fatal(reason)
	}
	c.id++
	c.store.Reserve(c.now, c.id, &plan, func(g lb.Grant, err error) {
		if err != nil {
			t.Fatal(err)
		}
		addr := plan.Candidates[g.Index].Addr
		o := lb.Outcome{Addr: addr, Verdict: lb.Success}
		expected, cached := int64(g.Cached)*tokensInBlock, int64(c.caches[addr].serve(blocks))*tokensInBlock
		if c.reported {
			o.PlannedAt, o.PromptTokens, o.ExpectedTokens, o.CachedTokens = c.now, r.PromptTokens, expected, cached
			o.Source = blocks[0].Key
		}
		c.prompt, c.expected, c.cached = c.prompt+r.PromptTokens, c.expected+expected, c.cached+cached
		c.off += max(expected-cached, cached-expected)
		heap.Push(&c.running, reply{
			c.now + 2*time.Second + time.Duration(r.PromptTokens-cached)*100*time.Microsecond, c.id,
			o,
		})
	})
}

func (c *cluster) end(r reply) {
	c.store.Release(r.at, r.id)
	c.policy.Observe(r.at, r.outcome)
}

// error returns the mean error of the predictions since the last call, and the share of prompts that was cached.
func (c *cluster) error() (off, cached float64) {
	off, cached = float64(c.off)/float64(c.prompt), float64(c.cached)/float64(c.prompt)
	c.prompt, c.expected, c.cached, c.off = 0, 0, 0, 0
	return off, cached
}

// The caches are smaller than the traffic, so that old records have been evicted. Learning from answers makes the
// predictions more accurate.
func TestLearnsRetentionOfSmallCaches(t *testing.T) {
	var off, cached [2]float64
	for i, reported := range []bool{false, true} {
		c := newCluster(t, 4, 1200, 600, reported)
		c.play(t, time.Hour, 500*time.Millisecond)
		c.error()
		c.play(t, time.Hour, 500*time.Millisecond)
		off[i], cached[i] = c.error()
		ttl, losses := c.known.Retention()
		t.Logf("answers report: %v; off by %.3f, %.3f cached, a TTL of %v, %d losses", reported, off[i], cached[i], ttl,
			losses)
	}
	if off[0] < 0.3 || off[1] > off[0]/4 {
		t.Errorf("expectations are off by %.3f when answers report, by %.3f when they do not; want a "+
			"quarter of 0.3 or more",
			off[1], off[0])
	}
	if cached[1] < cached[0]-0.02 {
		t.Errorf("%.3f is cached when answers report, %.3f when they do not", cached[1], cached[0])
	}
}

// An endpoint restarts: all its records are wrong, and are ignored after a few answers. The predictions for the others
// are unaffected.
func TestLearnsLossOfACache(t *testing.T) {
	var off [2]float64
	for i, reported := range []bool{false, true} {
		c := newCluster(t, 4, 1<<20, 1000, reported)
		c.play(t, time.Hour, 500*time.Millisecond)
		if before, _ := c.error(); before > 0.01 {
			t.Fatalf("off by %.3f before anything was lost", before)
		}
		c.caches[c.view.Endpoints[2].Addr] = newLRU(1 << 20)
		c.play(t, 5*time.Minute, 500*time.Millisecond)
		var cached float64
		off[i], cached = c.error()
		ttl, losses := c.known.Retention()
		t.Logf("answers report: %v; off by %.3f, %.3f cached, a TTL of %v, %d losses", reported, off[i], cached,
			ttl, losses)
		if reported && (ttl != 30*time.Minute || losses != 1) {
			t.Errorf("a TTL of %v, %d losses; want half an hour and one", ttl, losses)
		}
	}
	if off[0] < 0.05 || off[1] > off[0]/4 {
		t.Errorf("expectations are off by %.3f when answers report, by %.3f when they do not; want a quarter",
			off[1], off[0])
	}
}
