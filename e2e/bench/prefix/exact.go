package prefix

import (
	"crypto/sha1"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/internal/vllmsim"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/cache"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/prompt"
)

// exact is the policy prefix_cache with a credit, but it knows what that must estimate: which blocks each server has in
// its cache at this moment or is about to compute, how many tokens a prompt is, how long the answer becomes, and all
// that is under way. It may be used by several goroutines.
type exact struct {
	start time.Time

	mu sync.Mutex
	caches
	policy lb.Policy
	view   lb.View
	loads  []lb.Load
	ties   *rand.Rand
}

// exactBlock is how many of the servers' blocks are one for the policy, which counts how popular each is. They are as
// long as the plugin's.
const exactBlock = 8

func newExact(stage *compare.Stage, w *workload, credit float64) *exact {
	policy, err := policy.New(ownName, policy.Config{
		Unit: lb.Tokens, Health: health.New(), Caches: cache.NewTracker(), Engines: engines.New(),
		Settings: &policy.CacheConfig{Credit: credit, TTL: time.Hour},
	})
	if err != nil {
		panic(err) // the policy is there
	}
	e := &exact{
		caches: newCaches(stage, w), start: time.Now(), policy: policy, view: lb.View{Cluster: "llm"},
		loads: make([]lb.Load, len(stage.Servers)), ties: random(1, exactName),
	}
	for _, s := range stage.Servers {
		e.view.Endpoints = append(e.view.Endpoints, lb.Endpoint{Addr: s.Addr()})
	}
	return e
}

// choose returns the server for a request, and counts it there until it has ended.
func (e *exact) choose(q *scripted.Question) (server int, u scripted.UnderWay) {
	p := e.prompt(q)
	e.mu.Lock()
	defer e.mu.Unlock()
	planned := time.Since(e.start)
	request := lb.Request{
		PromptTokens: int64(p.Tokens), OutputTokens: int64(q.Answer), Random: e.ties.Uint64(),
		Blocks: blocksOf(p, exactBlock), PromptBytes: p.Tokens,
	}
	server, work := e.cheapest(planned, &request, p)
	outcome := lb.Outcome{
		Addr: e.view.Endpoints[server].Addr, Verdict: lb.Success, PlannedAt: planned,
		CountedTokens: work,
	}
	e.add(server, 1, work)
	return server, e.follow(server, e.compute(server, p), int64(q.Answer), outcome)
}

// cheapest returns the server for a request, and the tokens that count there for it.
func (e *exact) cheapest(now time.Duration, r *lb.Request, p *vllmsim.Prompt) (server int, work int64) {
	plan, reason := e.policy.Plan(now, r, &e.view)
	if reason != lb.ReasonChosen {
		panic(reason) // all servers are healthy
	}
	plan.Prefix.Blocks, plan.Prefix.CreditBytes = blocksOf(p, 1), finer(p, plan.Prefix.CreditBytes)
	matched := make([]int, len(e.servers))
	for i := range e.servers {
		matched[i] = e.cached(i, p) / p.BlockTokens
	}
	server = lb.Choose(&plan, e.loads, matched)
	return server, plan.AddedTokens(matched[server])
}

// follow returns the callbacks that reduce and release the request's load as it gets its answer, and let the policy
// learn from that.
func (e *exact) follow(server int, computed func(), answer int64, o lb.Outcome) scripted.UnderWay {
	left := o.CountedTokens
	return scripted.UnderWay{
		First: func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			computed()
			o.TTFT = max(1, time.Since(e.start)-o.PlannedAt)
			e.add(server, 0, answer-left)
			left = answer
		},
		Done: func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			computed()
			e.add(server, -1, -left)
			if o.TTFT > 0 {
				o.Duration = time.Since(e.start) - o.PlannedAt
				e.policy.Observe(time.Since(e.start), o)
			}
		},
	}
}

func (e *exact) add(server int, requests, tokens int64) {
	e.loads[server].Requests += requests
	e.loads[server].Tokens += tokens
}

// blocksOf returns the prompt's blocks, so many of the servers' in each, whose ends are counted in tokens.
func blocksOf(p *vllmsim.Prompt, each int) []prompt.Block {
	var blocks []prompt.Block
	for i := each; i <= len(p.Chain); i += each {
		blocks = append(blocks, prompt.Block{Key: p.Chain[i-1], End: i * p.BlockTokens})
	}
	return blocks
}

// finer returns the worth of the servers' blocks, given that of the policy's blocks of exactBlock each. What remains
// behind those is worth its length.
func finer(p *vllmsim.Prompt, worth []uint32) []uint32 {
	out := make([]uint32, len(p.Chain))
	before := 0
	for i := range out {
		in, each := i%exactBlock+1, p.BlockTokens*exactBlock
		if g := i / exactBlock; g < len(worth) {
			each = int(worth[g]) - before
			if in == exactBlock {
				out[i], before = worth[g], int(worth[g])
				continue
			}
		}
		out[i] = uint32(before + each*in/exactBlock)
	}
	return out
}

// blockXOR is the published way of affinity for gateways in front of LLMs: a prompt is cut after each message of the
// user, a block's SHA-1 is combined with those before it by XOR, and the prompt goes where the longest known
// combination went last. The load there is ignored; it decides only where a prompt goes whose beginning is unknown. It
// may be used by several goroutines.
type blockXOR struct {
	mu       sync.Mutex
	known    map[blockKey]int // -> server
	inflight []int            // by server
	turn     int              // the server to begin with among equals
}

type blockKey [sha1.Size]byte

func newBlockXOR(servers int) *blockXOR {
	return &blockXOR{known: map[blockKey]int{}, inflight: make([]int, servers)}
}

// choose returns the server for a prompt and counts it as under way until done is called.
func (b *blockXOR) choose(messages []loadgen.Message) (server int, done func()) {
	keys := blockKeys(messages)
	b.mu.Lock()
	defer b.mu.Unlock()
	matched := 0
	for _, k := range keys {
		at, ok := b.known[k]
		if !ok {
			break
		}
		server = at
		matched++
	}
	if matched == 0 {
		server = b.leastBusy()
	}
	for _, k := range keys[matched:] {
		b.known[k] = server
	}
	b.inflight[server]++
	return server, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.inflight[server]--
	}
}

// leastBusy returns the server with the fewest requests under way, taking turns among equals.
func (b *blockXOR) leastBusy() int {
	n := len(b.inflight)
	least := b.turn % n
	for i := range n {
		if at := (b.turn + i) % n; b.inflight[at] < b.inflight[least] {
			least = at
		}
	}
	b.turn++
	return least
}

// blockKeys returns the combined key of each block, root first.
func blockKeys(messages []loadgen.Message) []blockKey {
	var keys []blockKey
	var sum blockKey
	block := sha1.New()
	for i, m := range messages {
		block.Write([]byte(m.Role + ":" + m.Content)) // a hash never fails to be written
		if m.Role != "user" && i < len(messages)-1 {
			continue
		}
		for k, x := range block.Sum(nil) {
			sum[k] ^= x
		}
		keys = append(keys, sum)
		block.Reset()
	}
	return keys
}
