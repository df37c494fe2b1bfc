package placement

import (
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/push"
	"github.com/warmgate/warmgate/metrics"
)

// Waiting is how requests wait in the gateway until a server can run them.
type Waiting struct {
	Push    push.Kind
	Cap     int64 // max_inflight
	Ahead   int   // push_ahead
	Skip    int   // queue.skip
	Metrics bool  // push limits come from the servers' metrics, else from the time to first token
}

// scrapePeriod is the plugin's default.
const scrapePeriod = time.Second

// waiting is prefix_cache with requests that wait.
type waiting struct {
	*warm
	how       Waiting
	servers   []*enginesim.Engine
	engines   *engines.Samples
	limits    *push.Limits
	parser    *metrics.Parser
	server    enginesim.Config
	scrapedAt time.Duration
}

// PrefixCacheWaiting is prefix_cache with requests that wait in the gateway.
func PrefixCacheWaiting(how Waiting) Maker {
	return func(seed uint64, servers []*enginesim.Engine) Policy {
		parser, err := metrics.New(metrics.AnyEngine)
		if err != nil {
			panic(err)
		}
		p := &waiting{how: how, servers: servers, server: servers[0].Config(), engines: engines.New(), parser: parser}
		p.limits = push.New(p.engines)
		p.warm = newWarm(seed, "prefix_cache", len(servers), policy.Config{
			Settings: cacheConfig(DefaultCredit), Engines: p.engines, Limits: p.limits,
			Push: how.Push, PushAhead: how.Ahead, Cluster: health.ClusterConfig{MaxInflight: how.Cap},
			Engine: engines.Config{
				StaleAfter: 3 * scrapePeriod, Learn: true,
				Weights: engines.Weights{Running: 1, Queue: 4, KVCache: 1, LoRA: 16},
			},
		})
		return p
	}
}

func (p *waiting) Choose(now time.Duration, r *Request, place func(time.Duration, int)) {
	plan := p.plan(now, r)
	plan.Wait = lb.Wait{
		Max: time.Hour, Class: lb.Class{ID: 1, Weight: 1}, Aging: 10 * time.Second, Skip: p.how.Skip,
		Patience: 2 * time.Second, Length: 10_000, Limits: uint32(xxhash.Sum64String(fmt.Sprint(p.how))),
	}
	p.reserve(now, r, &plan, func(now time.Duration, server int) {
		p.engines.AddRequest("", p.view.Endpoints[server].Addr, r.policy.(*lease).work)
		place(now, server)
	})
}

func (p *waiting) First(now time.Duration, r *Request) {
	p.warm.First(now, r)
	p.observe(now, r, true)
}

func (p *waiting) Last(now time.Duration, r *Request) {
	p.observe(now, r, false)
	p.warm.Last(now, r)
}

func (p *waiting) observe(now time.Duration, r *Request, begun bool) {
	l := r.policy.(*lease)
	p.limits.Observe(now, push.Answer{
		Addr: p.view.Endpoints[r.Server].Addr, PlacedAt: l.placed, Inflight: l.inflight, Begun: begun, Streamed: !begun,
	})
}

// Tick looks for capacity, and reads metrics.
func (p *waiting) Tick(now time.Duration) {
	if p.how.Metrics && now-p.scrapedAt >= scrapePeriod {
		p.scrapedAt = now
		p.scrape(now)
	}
	p.store.Poll(now)
}

func (p *waiting) scrape(now time.Duration) {
	samples := map[string]engines.Sample{}
	for i, s := range p.servers {
		addr, g := p.view.Endpoints[i].Addr, s.Gauges()
		load, err := p.store.Loads(p.view.Cluster, []string{addr}, nil)
		if err != nil {
			panic(err)
		}
		sample := engines.Sample{At: now, ScrapedAt: now, FreshAt: now, Inflight: load[0], Counted: true}
		p.parser.Parse(fmt.Appendf(nil, "vllm:num_requests_running %d\nvllm:num_requests_waiting %d\n"+
			"vllm:kv_cache_usage_perc %g\nvllm:num_preemptions_total %d\n"+
			"vllm:cache_config_info{block_size=\"%d\",num_gpu_blocks=\"%d\"} 1\n",
			g.Running, g.Waiting, g.KVUsage, s.State(now).Preemptions,
			p.server.BlockSize, p.server.NumBlocks), &sample.Snapshot)
		samples[addr] = sample
	}
	p.engines.Update(now, nil, samples)
}
