package simulate

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/simulate/engine"
	"github.com/warmgate/warmgate/plugin/config"
)

// Engine is one of the simulated engines. What is zero is as enginesim.New has it.
type Engine struct {
	Config enginesim.Config
	Times  enginesim.Times
	// Apart is set if requests do not slow each other down: see [engine.Engine.Apart].
	Apart bool
	// Shares is set if it shares a processor with all engines of its pool that have the same.
	Shares *engine.Interference
	// Changes are when it becomes faster or slower.
	Changes []Change
}

// Change is another speed from a time on: see [enginesim.Times].
type Change struct {
	At    time.Duration
	Speed float64
}

// DefaultEngine is about a 7B model on one GPU: 64 requests at once, 128k tokens of KV cache.
func DefaultEngine() Engine {
	return Engine{
		Config: enginesim.Config{MaxNumSeqs: 64, MaxQueued: -1, NumBlocks: 8192}.WithDefaults(),
		Times:  enginesim.DefaultTimes(),
	}
}

// Alike returns so many engines that are all alike.
func Alike(n int, e Engine) []Engine { return slices.Repeat([]Engine{e}, n) }

// Contender chooses among the engines: one of the gateway's own policies, the plugin with a configuration, or another
// policy.
type Contender struct {
	Name    string
	Native  string // one of [Natives], "" for the plugin
	Config  *config.Config
	Chooser NewChooser // makes another policy, nil for none
	// NoMetrics is set if the metrics of engines are not read.
	NoMetrics bool
	// Warnings are what the plugin would warn of in its configuration, one sentence each.
	Warnings []string
	// Shared is set if all gateways before a pool count in one store, as with Redis, but without its latency. Else each
	// knows only what it has sent itself.
	Shared bool
}

// ParseContender returns the contender of a configuration of the plugin, as it is written for the kind of gateway. The
// global part is played, or without one the only rule: a load is for one service.
func ParseContender(name string, raw []byte, gateway config.Host) (Contender, error) {
	set, err := config.Parse(raw, gateway)
	if err != nil {
		return Contender{}, err
	}
	c := set.Match("", "", "")
	if all := set.All(); c == nil && len(all) == 1 {
		c = all[0]
	}
	if c == nil || c.Refused || !c.Enabled {
		return Contender{}, errors.New("want a global part that is in force, or one rule alone")
	}
	return Contender{
		Name: name, Config: c, NoMetrics: !c.Scrapes(gateway), Shared: c.Store == config.StoreRedis,
		Warnings: set.Warnings(),
	}, playable(c)
}

// playable reports what of a configuration is not simulated.
func playable(c *config.Config) error {
	switch {
	case c.AmongClusters():
		return errors.New("lb_type cluster is not simulated")
	}
	return nil
}

// OfPolicy returns the contender that is a policy by its name: one of the gateway's own, or one of the plugin's with
// the defaults of all keys.
func OfPolicy(name string) (Contender, error) {
	if natives[name] != nil {
		return Contender{Name: name, Native: name}, nil
	}
	return ParseContender(name, fmt.Appendf(nil, `{"lb_policy":%q}`, name), config.Higress)
}
