package simulate

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/simulate/engine"
	"github.com/warmgate/warmgate/plugin/config"
)

// pool is engines.
type pool struct {
	first  int // number of its first engine
	fleet  []*engine.Engine
	served []int  // requests by engine, but those that only warm caches
	shared Memory // of gateways that count in one store
	ranks  int    // engines of each server
	inside []*inside
}

// newPool returns the engines of a pool with a number for the first of them.
func newPool(first int, of *Pool) *pool {
	p := &pool{first: first, served: make([]int, len(of.Engines)), shared: Memory{}}
	processors := map[*engine.Interference]*engine.Processor{}
	for _, e := range of.Engines {
		made := engine.New(e.Config, e.Times)
		if e.Apart {
			made.Apart()
		}
		if e.Shares != nil {
			if processors[e.Shares] == nil {
				processors[e.Shares] = engine.NewProcessor(*e.Shares)
			}
			made.RunOn(processors[e.Shares])
		}
		p.fleet = append(p.fleet, made)
	}
	p.divide(of.Ranks)
	return p
}

// front is a gateway before a pool.
type front struct {
	*pool
	index   int // in run.fronts
	region  int // of the pool, by its place in the layout
	router  router
	per     int      // engines of an endpoint among which the router does not choose
	product *product // that the router is, nil for a policy of the gateway's own
	scraper *scraper // nil if no metrics are read
	polls   bool     // there will be a look at the requests that wait
}

// setRouter has a contender choose among the engines, of the plugin with the configuration. owner tells gateways that
// share a store apart.
func (f *front) setRouter(c *Contender, cfg *config.Config, g gateway, owner int, seed uint64) (err error) {
	if f.per = f.ranks; c.Chooser != nil || cfg != nil && cfg.Ranks.Apart {
		f.per = 1
	}
	if c.Chooser != nil {
		f.router = &chosen{g, c.Chooser(f.fleet, seed)}
		return nil
	}
	if c.Native != "" {
		f.router = newNative(c.Native, len(f.fleet)/f.per, f.per, g, seed)
		return nil
	}
	counts := Memory{}
	if c.Shared {
		counts = f.shared
	}
	if f.product, err = newProduct(cfg, f.pool, f.per, g, counts, owner, seed); err != nil {
		return err
	}
	if f.router = f.product; !c.NoMetrics {
		f.scraper, err = newScraper(f.product)
	}
	return err
}

// waits reports whether requests wait in the gateway.
func (f *front) waits() bool { return f.product != nil && f.product.waiting > 0 }

// uneven returns the requests of the busiest engine over the mean of all, 0 if there were none.
func (p *pool) uneven() float64 {
	sum := 0
	for _, n := range p.served {
		sum += n
	}
	if sum == 0 {
		return 0
	}
	return float64(slices.Max(p.served)*len(p.served)) / float64(sum)
}

func (p *pool) preemptions() (n int64) {
	for _, e := range p.fleet {
		n += e.Preemptions()
	}
	return n
}

// divide has the engines of a pool be ranks.
func (p *pool) divide(r Ranks) {
	p.ranks = max(1, r.Of)
	if p.ranks == 1 {
		return
	}
	for i := 0; i < len(p.fleet); i += p.ranks {
		ranks := p.fleet[i : i+p.ranks]
		if r.Together {
			engine.Together(ranks)
		}
		p.inside = append(p.inside, &inside{ranks: ranks, inTurn: r.RoundRobin})
	}
}

// engineOf returns the engine that serves a request to an endpoint that a router has chosen.
func (f *front) engineOf(now time.Duration, endpoint int) int {
	if f.per == 1 {
		return endpoint
	}
	return endpoint*f.per + f.inside[endpoint].choose(now)
}
