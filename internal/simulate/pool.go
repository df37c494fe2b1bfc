package simulate

import (
	"slices"

	"github.com/warmgate/warmgate/internal/simulate/engine"
	"github.com/warmgate/warmgate/plugin/config"
)

// pool is engines with the gateway in front of them.
type pool struct {
	index   int // in run.pools
	first   int // number of its first engine
	fleet   []*engine.Engine
	router  router
	product *product // that the router is, nil for a policy of the gateway's own
	scraper *scraper // nil if no metrics are read
	polls   bool     // there will be a look at the requests that wait
	served  []int    // requests by engine, but those that only warm caches
}

// newPool returns engines with a number for the first of them.
func newPool(index, first int, engines []Engine) *pool {
	p := &pool{index: index, first: first, served: make([]int, len(engines))}
	for _, e := range engines {
		p.fleet = append(p.fleet, engine.New(e.Config, e.Times))
	}
	return p
}

// setRouter has a contender choose among the engines, of the plugin with the configuration.
func (p *pool) setRouter(c *Contender, cfg *config.Config, g gateway, seed uint64) (err error) {
	if c.Native != "" {
		p.router = newNative(c.Native, len(p.fleet), g, seed)
		return nil
	}
	if p.product, err = newProduct(cfg, len(p.fleet), g, seed); err != nil {
		return err
	}
	if p.router = p.product; !c.NoMetrics {
		p.scraper, err = newScraper(p.product)
	}
	return err
}

// waits reports whether requests wait in the gateway.
func (p *pool) waits() bool { return p.product != nil && p.product.waiting > 0 }

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
