package config

import (
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/push"
)

// needs returns what the policy needs.
func (c *Config) needs() *policy.Needs { return &policy.Describe(c.Policy).Needs }

// ReadsPrompt reports whether prompts are cut into blocks.
func (c *Config) ReadsPrompt() bool { return c.needs().Prompt }

// KeepsSessions reports whether where a request goes follows from its session.
func (c *Config) KeepsSessions() bool { return c.needs().Session == policy.SessionRequired }

// ReadsModel reports whether the model of a request matters while engines report LoRA adapters.
func (c *Config) ReadsModel() bool {
	return c.needs().Model && c.Engines.Order == engines.ByLoad && c.Engines.Weights.LoRA > 0
}

// ByMetrics reports whether the policy cannot choose without metrics of engines.
func (c *Config) ByMetrics() bool { return c.needs().Metrics == policy.MetricsRequired }

// Scrapes reports whether metrics of engines are read. In Higress its health check fetches them; the plugin cannot know
// whether that is set up to.
func (c *Config) Scrapes(h Host) bool {
	if !c.Enabled || h == Envoy && c.Engines.Cluster == "" {
		return false
	}
	return c.metricsUse() != policy.NoMetrics
}

// metricsUse returns what metrics of engines are for: with push pending, or ranks to be counted, every policy reads
// them, if it can.
func (c *Config) metricsUse() policy.MetricsUse {
	if c.AmongClusters() {
		return policy.NoMetrics // they are an engine's, and a candidate is many
	}
	if use := c.needs().Metrics; use != policy.NoMetrics || c.Push != push.Pending && !c.readsRanks() {
		return use
	}
	return policy.MetricsOptional
}

// readsRanks reports whether it is read in metrics how many ranks there are.
func (c *Config) readsRanks() bool {
	return c.Ranks.Enabled && c.Ranks.Count == 0 && !c.AmongClusters() && !c.needs().Budget
}

// Settings returns the settings of the policy's own keys, for [policy.Config.Settings]; nil if it has no keys. A
// [policy.CacheConfig] is Prefix, a [engines.Config] a part of Engines. They must not be changed.
func (c *Config) Settings() any {
	if s, ok := c.own[c.Policy]; ok {
		return s
	}
	if in := settingsOf(policy.Describe(c.Policy)); in != nil {
		return in(c)
	}
	return nil
}

// AmongClusters reports whether the candidates are clusters: lb_type cluster.
func (c *Config) AmongClusters() bool { return c.Type == typeCluster }

// level returns what is chosen among.
func (c *Config) level() policy.Level {
	if c.AmongClusters() {
		return policy.Clusters
	}
	return policy.Endpoints
}

// callClusters returns the clusters through which the plugin makes calls of its own, "" for what is not configured.
func (c *Config) callClusters() []string {
	return []string{c.EnvoyCfg.AdminCluster, c.Engines.Cluster, c.Redis.Cluster, c.Models.Cluster}
}
