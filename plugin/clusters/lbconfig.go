package clusters

import (
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/learned"
)

// This file turns a configuration as the operator writes it into those of package lb.

// configOf returns what a policy is made of, with what is known of its cluster.
func configOf(c *config.Config, cl *Cluster) policy.Config {
	return policy.Config{
		Unit: c.Unit, Push: c.Push, PushAhead: c.PushAhead, Affinity: affinityOf(c), Cluster: clusterConfigOf(c),
		Settings: c.Settings(), Engine: c.Engines.Config,
		Health: cl.Health, Facts: cl.Facts, Caches: cl.Caches, Engines: cl.Engines, Shares: cl.Shares,
		Limits: cl.Limits, Latencies: cl.latencies, Overrides: &cl.Overrides,
	}
}

// affinityOf returns what it costs a request at most to be where its model rather is not: as much as to load its
// adapter in place of another.
func affinityOf(c *config.Config) float64 {
	if !c.KeepsModels() {
		return 0
	}
	return c.Engines.Weights.LoRA
}

func clusterConfigOf(c *config.Config) health.ClusterConfig {
	return health.ClusterConfig{
		MaxInflight: int64(c.MaxInflight), MaxInflightTokens: int64(c.MaxInflightTokens),
		ZonePenalty: c.ZonePenalty, Weights: c.Weights, Health: HealthOf(c),
	}
}

// Usable returns the endpoints of a view that may get a request by a configuration, with their weights and caps: those
// in slow start included.
func (cl *Cluster) Usable(now time.Duration, view *lb.View, c *config.Config) []lb.Candidate {
	of := clusterConfigOf(c)
	return cl.Health.Usable(now, view, cl.Health.OneConfig(&of))
}

func HealthOf(c *config.Config) health.Config {
	first := time.Duration(0)
	if c.WaitsFromZero() {
		first = c.Queue.MaxWait
	}
	return health.Config{
		ConsecutiveFailures: c.Health.ConsecutiveFailures, EjectionTime: c.Health.EjectionTime,
		MaxEjectionTime: c.Health.MaxEjectionTime, MaxEjectionPercent: c.Health.MaxEjectionPercent,
		SlowStart: c.Health.SlowStart, PanicThreshold: c.Health.PanicThreshold, EjectsAll: c.AmongClusters(),
		FirstWait: first,
	}
}

// GuessOf returns what is configured to be typical of a request.
func GuessOf(c *config.Config) learned.Guess {
	return learned.Guess{BytesPerToken: c.BytesPerToken, Tokens: max(1, c.OutputTokens)}
}

// CapsOf returns a digest of the settings that the caps of candidates follow from.
func (cl *Cluster) CapsOf(c *config.Config) uint32 {
	digest, ok := cl.caps[c]
	if !ok {
		text := strconv.AppendInt(nil, int64(c.MaxInflight), 10)
		text = strconv.AppendInt(append(text, ' ', byte('0'+c.Push), ' '), int64(c.PushAhead), 10)
		if c.MaxInflightTokens > 0 {
			text = strconv.AppendInt(append(text, " t"...), int64(c.MaxInflightTokens), 10)
		}
		for _, addr := range order.Keys(c.Weights) {
			text = strconv.AppendFloat(append(append(append(text, ' '), addr...), '='), c.Weights[addr], 'g', -1, 64)
		}
		digest = uint32(xxhash.Sum64(text))
		cl.caps[c] = digest
	}
	return digest
}
