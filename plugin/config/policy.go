package config

import (
	"slices"
	"strings"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/push"
	"github.com/warmgate/warmgate/lb/setting"
)

const keyUnit = "lb_config.unit"

// needs returns what the policy needs.
func (c *Config) needs() *policy.Needs { return &policy.Describe(c.Policy).Needs }

// ReadsPrompt reports whether prompts are cut into blocks.
func (c *Config) ReadsPrompt() bool { return c.needs().Prompt }

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

// metricsUse returns what metrics of engines are for: with push pending every policy reads them, if it can.
func (c *Config) metricsUse() policy.MetricsUse {
	if c.AmongClusters() {
		return policy.NoMetrics // they are an engine's, and a candidate is many
	}
	if use := c.needs().Metrics; use != policy.NoMetrics || c.Push != push.Pending {
		return use
	}
	return policy.MetricsOptional
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

// checkPolicy completes the settings of the policy.
func (pt *part) checkPolicy() {
	d := policy.Describe(pt.Policy)
	if why := d.Needs.Tokens; why != "" {
		if pt.written[keyUnit] && !pt.invalid[keyUnit] && pt.Unit != lb.Tokens {
			pt.badKey(keyUnit, `got "`+pt.Unit.String()+`", want "tokens" or nothing: `+d.Name+" "+why)
		}
		pt.Unit = lb.Tokens
	}
	if d.Settings != nil {
		settings := settingsOf(d)(&pt.Config)
		if d.Check != nil && d.Among.Includes(pt.level()) {
			d.Check(settings, report{pt})
		}
	}
	own := pt.own
	pt.own = nil
	if s, ok := own[d.Name]; ok { // those of other policies have no effect
		pt.own = map[string]any{d.Name: s}
	}
}

// report is a part as a policy sees it, with the names of keys below lb_config.
type report struct{ *part }

var _ setting.Report = report{}

func (r report) Written(key string) bool     { return r.written[section+key] }
func (r report) Problem(key, problem string) { r.bad(r.prefix+section+key, problem) }
func (r report) Warning(key, problem string) { r.warn(r.prefix+section+key, problem) }

// warnUnused warns of the keys of other policies. Keys that never have an effect have a warning of their own.
func (pt *part) warnUnused() {
	for _, name := range policy.Names() {
		for i := range keys {
			k := &keys[i]
			if k.Name == keyMetricsCluster || pt.Push == push.Pending && slices.Equal(k.users, metricsPolicies()) {
				continue // the first is a way, whatever goes it; with the latter any policy reads metrics
			}
			if len(k.users) > 0 && k.users[0] == name && k.NoEffect == "" && !slices.Contains(k.users, pt.Policy) {
				pt.idle([]string{k.Name}, "has no effect without lb_policy "+strings.Join(k.users, " or "))
			}
		}
	}
}
