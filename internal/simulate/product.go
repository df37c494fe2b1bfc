package simulate

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/answer"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/lb/push"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/learned"
	"github.com/warmgate/warmgate/plugin/stores"
)

// clusterName is that of the only cluster.
const clusterName = "llm"

// product is what one VM of the plugin does with requests, over the embedded store.
type product struct {
	gateway
	cfg     *config.Config
	cluster *clusters.Cluster
	policy  lb.Policy
	store   *memstore.Store
	view    *lb.View
	places  map[string]int // of endpoints, by address
	per     int            // engines of an endpoint
	rng     *rand.Rand
	models  learned.Models
	key     learned.Key
	cutter  cutter
	lastID  lb.LeaseID
	regions *forwarding // to and from other regions, nil for none
	waiting int         // requests that wait in the store
	lost    int         // requests without a plan, for which the gateway chose
}

// newProduct returns the product before a pool, with so many of its engines behind each endpoint, that counts under the
// number of an owner in shared memory.
func newProduct(
	cfg *config.Config, of *pool, per int, g gateway, shared Memory, owner int, seed uint64,
) (*product, error) {
	if err := memstore.Prepare(shared); err != nil {
		return nil, err
	}
	p := &product{
		gateway: g, cfg: cfg, store: memstore.New(shared, uint64(owner), stores.LeaseTTL),
		rng:  rand.New(rand.NewPCG(seed, 6)),
		view: &lb.View{Cluster: clusterName}, places: map[string]int{}, per: per, models: learned.Models{},
		key:    learned.Key{Cluster: clusterName, Model: 1, Guess: clusters.GuessOf(cfg)},
		cutter: cutter{size: cfg.Prefix.BlockBytes},
	}
	var err error
	if p.cluster, p.policy, err = (clusters.Known{}).Get(0, clusterName, cfg); err != nil {
		return nil, err
	}
	for i := range len(of.fleet) / per {
		server := i * per / of.ranks
		addr := fmt.Sprintf("10.%d.%d.%d:8000", server>>16, server>>8&0xff, server&0xff)
		e := lb.Endpoint{Addr: addr, Weight: cfg.Weights[addr]}
		if per < of.ranks {
			e.Addr = lb.RankAddr(addr, i%of.ranks)
		}
		p.places[e.Addr] = i
		p.view.Endpoints = append(p.view.Endpoints, e)
	}
	return p, nil
}

func (p *product) route(now time.Duration, r *Request) {
	p.lastID++
	l := &r.lease
	l.id, l.planned = p.lastID, now
	plan, reason := p.policy.Plan(now, p.describe(r), p.view)
	if reason != lb.ReasonChosen {
		p.leave(r)
		return
	}
	l.plan = plan
	if p.cfg.Queue.Enabled() {
		l.plan.Wait = p.wait(r)
	}
	if p.regions != nil && p.regions.sendBack(r) {
		return
	}
	id, answered := l.id, false
	p.store.Reserve(now, id, &l.plan, func(g lb.Grant, err error) {
		if answered = true; l.id != id { // another region serves it
			return
		}
		p.stopWaiting(r)
		p.decided(r, g, err)
	})
	if answered {
		return
	}
	l.waits = true
	p.waiting++
	if p.regions != nil {
		p.regions.hold(r)
	}
}

// decided goes on with a request whose store has answered.
func (p *product) decided(r *Request, g lb.Grant, err error) {
	if err == nil {
		p.granted(r, g)
	} else if p.regions != nil && lb.LacksRoom(err) && p.regions.send(r) {
		return
	} else if reason := reasonOf(err); reason != lb.ReasonStoreError {
		p.refuse(r, reason.String())
	} else {
		p.leave(r)
	}
}

// stopWaiting notes that a request does not wait in the store any more.
func (p *product) stopWaiting(r *Request) {
	if r.lease.waits {
		r.lease.waits = false
		p.waiting--
	}
}

// leave has the gateway choose an endpoint, as the plugin does where it cannot.
func (p *product) leave(r *Request) {
	p.lost++
	r.lease.lost = true
	p.place(r, p.rng.IntN(len(p.view.Endpoints)))
}

// granted sends a request to the endpoint that the store has granted it.
func (p *product) granted(r *Request, g lb.Grant) {
	l := &r.lease
	l.granted = g
	p.cluster.Health.ObserveGrant(&l.plan, g.Index, g.Load)
	addr := l.plan.Candidates[g.Index].Addr
	p.cluster.Shares.Count(l.planned+g.Waited, addr)
	p.cluster.Engines.AddRequest("", addr, l.plan.AddedTokens(g.Cached))
	p.place(r, p.places[addr])
}

// addrOf returns the address of the endpoint that serves a request.
func (p *product) addrOf(r *Request) string { return p.view.Endpoints[r.Server()/p.per].Addr }

// describe returns what the plugin knows of a request.
func (p *product) describe(r *Request) *lb.Request {
	q, l := &lb.Request{Random: p.rng.Uint64(), Session: r.Session, ModelName: p.key.Model}, &r.lease
	for i := range r.Prompt {
		l.bytes += r.Prompt[i].Tokens * BytesPerToken
	}
	if p.cfg.ReadsPrompt() {
		q.Blocks, q.PromptBytes = p.cutter.cut(r)
	}
	if p.cfg.Unit == lb.Tokens {
		typical := p.models.Typical(p.key, r.Limit)
		most := float64(p.cfg.MaxRequestTokens)
		l.prompt = int64(min(float64(l.bytes)/typical.BytesPerToken, most))
		l.output = int64(min(math.Round(typical.Output), most-float64(l.prompt)))
		q.PromptTokens, q.OutputTokens = l.prompt, l.output
		l.measured = p.cluster.Samples.Take(r.Limit) || p.cfg.ReadsPrompt()
	}
	return q
}

// wait returns how a request waits.
func (p *product) wait(r *Request) lb.Wait {
	q, turn := &p.cfg.Queue, uint64(0)
	if p.cfg.QueuesSessions() {
		turn = lb.TurnOf(0, r.Session)
	}
	return lb.Wait{
		Max: q.MaxWait, Class: q.Class(r.Class).Class, Strict: q.Order == config.Strict, Aging: q.Aging, Skip: q.Skip,
		Patience: q.Patience, Length: q.MaxLength, Reserved: q.Reserved(), TenantLength: q.TenantLength(),
		Limits: p.cluster.CapsOf(p.cfg), Tenant: turn,
	}
}

// first notes the first token: what remains in flight is the answer.
func (p *product) first(now time.Duration, r *Request) {
	l := &r.lease
	if l.lost {
		return
	}
	p.learnLimit(now, r, true)
	if l.plan.AddedTokens(l.granted.Cached) > l.output {
		p.store.Amend(now, l.id, "", l.output)
	}
}

// last notes the end of an answer, or that the engine has refused the request.
func (p *product) last(now time.Duration, r *Request, verdict lb.Verdict) {
	l := &r.lease
	addr := p.addrOf(r)
	o := lb.Outcome{Addr: addr, Verdict: verdict, PlannedAt: r.placed, Model: p.key.Model}
	if verdict != lb.Success {
		if !l.lost {
			p.store.Release(now, l.id)
		}
		p.policy.Observe(now, o)
		return
	}
	prompt := r.call.PromptTokens()
	if l.measured {
		p.cluster.Samples.HasRead(r.Limit)
		p.models.Observe(now, p.key, l.bytes, r.Limit, answer.Usage{
			Prompt: prompt, Cached: r.call.Cached(), Output: r.Answer,
		})
	}
	if !l.lost {
		p.learnLimit(now, r, false)
		p.cluster.Engines.AddAnswer(now, addr, r.placed)
		if l.granted.Queued && p.cfg.Unit == lb.Tokens {
			p.store.NoteServed(l.id, int64(prompt-r.call.Cached()+r.Answer))
		}
		p.store.Release(now, l.id)
		if blocks := l.plan.Prefix.Blocks; len(blocks) > 0 {
			o.PromptTokens, o.CachedTokens, o.Source = int64(prompt), int64(r.call.Cached()), blocks[0].Key
			o.ExpectedTokens = int64(float64(prompt) * l.plan.Prefix.Fraction(l.granted.Cached))
			o.CountedTokens, o.PlannedPrompt = l.plan.AddedTokens(l.granted.Cached), l.prompt
			o.TTFT, o.Duration = max(1, r.first-r.placed), now-r.placed
			o.PerToken = (now - r.first) / time.Duration(max(1, r.Answer-1))
			c := &l.plan.Candidates[l.granted.Index]
			o.OutputTokens, o.Load, o.Streamed = int64(r.Answer), float64(l.granted.Load.Requests)/c.Weight, true
		}
	}
	p.policy.Observe(now, o)
}

// learnLimit has an answer show how many requests the endpoint runs without a queue.
func (p *product) learnLimit(now time.Duration, r *Request, begun bool) {
	if p.cfg.Push == push.Pending {
		p.cluster.Limits.Observe(now, push.Answer{
			Addr: p.addrOf(r), PlacedAt: r.placed, Inflight: r.lease.granted.Load.Requests,
			Begun: begun, Streamed: !begun,
		})
	}
}

// refusals are why requests are refused, in the words of docs/reasons.md.
var refusals = []struct {
	err    error
	reason lb.Reason
}{
	{lb.ErrFull, lb.ReasonAtCapacity},
	{lb.ErrOverBudget, lb.ReasonOverBudget},
	{lb.ErrQueueFull, lb.ReasonMaxQueueSizeExceeded},
	{lb.ErrEvicted, lb.ReasonMaxQueueSizeExceeded},
	{lb.ErrHopeless, lb.ReasonDeadlineUnreachable},
	{lb.ErrWaitOver, lb.ReasonQueueTimeout},
}

// reasonOf returns why a request is refused whose store has returned the error, ReasonStoreError if it is not.
func reasonOf(err error) lb.Reason {
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return r.reason
		}
	}
	return lb.ReasonStoreError
}
