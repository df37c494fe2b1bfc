package core

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
)

// This file turns a configuration as the operator writes it into those of package lb.

// unitOf returns what load is counted in.
func unitOf(c *config.Config) lb.Unit {
	if c.Unit == "tokens" {
		return lb.Tokens
	}
	return lb.Requests
}

// configOf returns what a policy is made of, with what is known of its cluster.
func configOf(c *config.Config, cl *cluster) lb.Config {
	return lb.Config{
		Unit: unitOf(c), Cluster: termsOf(c), Health: cl.health, Caches: cl.caches,
		Engines: cl.engines, Engine: engineOf(c), Shares: cl.shares,
		Cache: lb.CacheConfig{
			Credit: c.Prefix.Credit, TTL: time.Duration(c.Prefix.TTLSeconds) * time.Second,
			IndexMemory: lb.IndexMemory{Local: c.Prefix.TableBytes, Remote: c.Prefix.RedisBytes},
		},
	}
}

func engineOf(c *config.Config) lb.EngineConfig {
	e := &c.Engines
	order := map[string]lb.Order{"least": lb.LowestTarget, "most": lb.HighestTarget}[e.Order]
	return lb.EngineConfig{
		Order: order, Target: e.Target, StaleAfter: e.StaleAfter, Learn: e.Learn, RateLimit: e.ShareLimit,
		Weights: lb.EngineWeights{Running: e.RunningCost, Queue: e.QueueCost, KVCache: e.KVCacheCost, LoRA: e.LoRACost},
	}
}

func termsOf(c *config.Config) lb.ClusterConfig {
	return lb.ClusterConfig{
		MaxInflight: int64(c.MaxInflight), ZonePenalty: c.ZonePenalty, Weights: c.Weights, Health: healthOf(c),
	}
}

func healthOf(c *config.Config) lb.HealthConfig {
	return lb.HealthConfig{
		ConsecutiveFailures: c.Health.ConsecutiveFailures, EjectionTime: c.Health.EjectionTime,
		MaxEjectionTime: c.Health.MaxEjectionTime, MaxEjectionPercent: c.Health.MaxEjectionPercent,
		SlowStart: c.Health.SlowStart, PanicThreshold: c.Health.PanicThreshold,
	}
}

// guessOf returns what is configured to be typical of a request.
func guessOf(c *config.Config) guess { return guess{c.BytesPerToken, max(1, c.OutputTokens)} }
