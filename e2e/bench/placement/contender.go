package placement

import (
	"time"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/internal/simulate"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
)

// Names that the report looks for.
const (
	ownName         = "prefix_cache"
	metricsName     = "prefix_cache-metrics"
	targetsName     = "prefix_cache-slo"
	lmetricName     = "lmetric"
	clairvoyantName = "clairvoyant"
)

// contender is one way to choose.
type contender struct {
	simulate.Contender
	about   string
	targets bool // it has the targets of each cell: see targetOf
}

func (c contender) title() string { return c.Name }

// own reports whether it is the plugin.
func (c *contender) own() bool { return c.Config != nil }

// contenders returns all, in the order of the table.
func contenders() ([]contender, error) {
	all := []contender{
		{about: "Envoy's least_request: the better of two random ones"},
		{about: "where the session is hashed to"},
		{about: "where the system prompt is hashed to, with at most 1.25 times the mean of requests (bounded loads)"},
		{about: "the rule of the routers of SGLang and vLLM, with their defaults"},
		{about: "uncached tokens × (running + 1), with an exact index"},
		{about: "the least latency caused, by true caches, loads, times and lengths of answers; greedy, in no " +
			"comparison"},
		{about: "the plugin with its defaults, without the engines' metrics"},
		{about: "the same with metrics"},
	}
	for i, name := range []string{"least_request", "ring_hash"} {
		c, err := simulate.OfPolicy(name)
		if err != nil {
			return nil, err
		}
		all[i].Contender = c
	}
	for i, of := range []struct {
		name string
		make simulate.NewChooser
	}{
		{"prefix_hash", newPrefixHash},
		{"cache_aware", newCacheAware},
		{lmetricName, newLMetric},
		{clairvoyantName, newClairvoyant},
	} {
		all[2+i].Contender = simulate.Contender{Name: of.name, Chooser: of.make}
	}
	plugin, err := simulate.OfPolicy("prefix_cache")
	if err != nil {
		return nil, err
	}
	plugin.NoMetrics = true
	all[6].Contender = plugin
	plugin.Name, plugin.NoMetrics = metricsName, false
	all[7].Contender = plugin
	return all, nil
}

// withTargets returns the plugin with its defaults and the targets of each cell.
func withTargets() (contender, error) {
	plugin, err := simulate.OfPolicy("prefix_cache")
	plugin.Name, plugin.NoMetrics = targetsName, true
	return contender{Contender: plugin, about: "the plugin, with slo set to what counts as in time", targets: true}, err
}

// with returns the contender for a cell with these targets.
func (c *contender) with(t target) simulate.Contender {
	out := c.Contender
	if c.targets {
		cfg := *c.Config
		cfg.Prefix.Target = lb.Target{TTFT: seconds(t.ttft), PerToken: seconds(t.token)}
		out.Config = &cfg
	}
	return out
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// variantOf returns the plugin with another configuration.
func variantOf(p compare.Policy, metrics bool) (contender, error) {
	c, err := simulate.ParseContender(p.Name, []byte(p.Plugin), config.Higress)
	c.NoMetrics = !metrics
	return contender{Contender: c, about: p.Plugin}, err
}
