package simulate

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb/push"
	"github.com/warmgate/warmgate/plugin/config"
)

// Layout is the engines that serve a load, in pools with gateways of their own: one pool, one for each region, or two
// of which one computes prompts.
type Layout struct {
	Pools []Pool
	// Gateways are how many there are before each pool, 0 for one. Each request comes to any of them.
	Gateways int
	// RTT are the times of a round trip between the gateways of two regions, by their places in Pools. nil: the pools
	// are no regions.
	RTT [][]time.Duration
	// Split is set if the first of two pools computes prompts and the second one answers them. The plugin cannot do
	// that yet: what is simulated chooses in each pool as if there were no other.
	Split bool
	// Transfer is how long a token of a prompt takes from one of these pools to the other.
	Transfer time.Duration
}

// Pool is engines that the same gateways choose among.
type Pool struct {
	Name    string // of the region; "" without regions
	Engines []Engine
	Ranks   Ranks
}

// Alone returns the layout of engines that are all there is.
func Alone(fleet []Engine) *Layout { return &Layout{Pools: []Pool{{Engines: fleet}}} }

// Check reports why a contender cannot be played.
func (l *Layout) Check(c *Contender) error {
	for i := range l.Pools {
		if len(l.Pools[i].Engines) == 0 {
			return errors.New("want at least 1 endpoint")
		}
		if n := l.Pools[i].Ranks.Of; n > 1 && len(l.Pools[i].Engines)%n != 0 {
			return fmt.Errorf("want whole servers of %d ranks each, not %d engines", n, len(l.Pools[i].Engines))
		}
	}
	if c.Config == nil || !c.Config.Regions.Forwards() {
		return nil
	}
	own := &c.Config.Regions
	names := []string{own.Name}
	for i := range own.Peers {
		names = append(names, own.Peers[i].Name)
	}
	for _, name := range names {
		if l.RTT == nil || !slices.ContainsFunc(l.Pools, func(p Pool) bool { return p.Name == name }) {
			return fmt.Errorf("it forwards between the regions %q: want engines in each of them", names)
		}
	}
	return nil
}

// configOf returns a configuration as the gateway of a pool has it: with regions, that of its own one.
func (l *Layout) configOf(c *config.Config, pool int) *config.Config {
	if c == nil || !c.Regions.Forwards() {
		return c
	}
	return l.inRegion(c, pool)
}

// inRegion returns a configuration as that of a region which has all others as its peers.
func (l *Layout) inRegion(c *config.Config, pool int) *config.Config {
	of := *c
	of.Regions.Name, of.Regions.Peers = l.Pools[pool].Name, nil
	for _, i := range l.others(pool) {
		of.Regions.Peers = append(of.Regions.Peers, config.Peer{Name: l.Pools[i].Name, RTT: l.RTT[pool][i]})
	}
	return &of
}

// others returns the other pools, in the order in which a region has its peers.
func (l *Layout) others(pool int) (all []int) {
	for i := range l.Pools {
		if i != pool {
			all = append(all, i)
		}
	}
	return all
}

// regionOf returns the place of the region in which a request's user is, 0 without regions.
func (l *Layout) regionOf(r *Request) int {
	if l.RTT == nil {
		return 0
	}
	return r.Region
}

// Forwarding returns the contender that does the same as another one, and forwards requests to the other regions while
// none of a region's engines is open. It reports false for one that does so already, or by which none is ever full.
func (l *Layout) Forwarding(c Contender) (Contender, bool) {
	if c.Config == nil || c.Config.Regions.Forwards() ||
		c.Config.Push == push.Blind && c.Config.MaxInflight == 0 && c.Config.MaxInflightTokens == 0 {
		return c, false
	}
	cfg := *c.Config
	cfg.Regions.Secret = "all simulated regions share it"
	c.Name, c.Config = c.Name+" forwarding", l.inRegion(&cfg, 0)
	return c, true
}
