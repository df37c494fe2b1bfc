package simulate

import (
	"slices"

	"github.com/warmgate/warmgate/internal/simulate/engine"
	"github.com/warmgate/warmgate/plugin/config"
)

// pool is engines.
type pool struct {
	first  int // number of its first engine
	fleet  []*engine.Engine
	served []int  // requests by engine, but those that only warm caches
	shared Memory // of gateways that count in one store
}

// newPool returns engines with a number for the first of them.
func newPool(first int, engines []Engine) *pool {
	p := &pool{first: first, served: make([]int, len(engines)), shared: Memory{}}
	processors := map[*engine.Interference]*engine.Processor{}
	for _, e := range engines {
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
	return p
}

// front is a gateway before a pool.
type front struct {
	*pool
	index   int // in run.fronts
	region  int // of the pool, by its place in the layout
	router  router
	product *product // that the router is, nil for a policy of the gateway's own
	scraper *scraper // nil if no metrics are read
	polls   bool     // there will be a look at the requests that wait
}

// setRouter has a contender choose among the engines, of the plugin with the configuration. owner tells gateways that
// share a store apart.
func (f *front) setRouter(c *Contender, cfg *config.Config, g gateway, owner int, seed uint64) (err error) {
	if c.Chooser != nil {
		f.router = &chosen{g, c.Chooser(f.fleet, seed)}
		return nil
	}
	if c.Native != "" {
		f.router = newNative(c.Native, len(f.fleet), g, seed)
		return nil
	}
	counts := Memory{}
	if c.Shared {
		counts = f.shared
	}
	if f.product, err = newProduct(cfg, len(f.fleet), g, counts, owner, seed); err != nil {
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
