package sizing

import (
	"fmt"
	"slices"

	"github.com/warmgate/warmgate/e2e/harness"
)

const (
	none     = "none"
	requests = "requests"
	tokens   = "tokens"
	prefix   = "prefix"
	whole    = "whole"
	redis    = "redis"
)

// How much of a body is read: by default, and at most.
const (
	byDefault = 256 << 10
	atMost    = 8 << 20
)

// contender is one gateway.
type contender struct {
	name    string
	policy  string // "" = no plugin
	more    string // members of lb_config
	inspect int    // bytes of a body that it reads; 0 = none
	redis   bool
}

var all = []contender{
	{name: none},
	{name: requests, policy: "global_least_request"},
	{name: tokens, policy: "global_least_request", more: `"unit":"tokens",`, inspect: byDefault},
	{name: prefix, policy: "prefix_cache", inspect: byDefault},
	{name: whole, policy: "prefix_cache", more: lookAtAll, inspect: atMost},
	{name: redis, policy: "prefix_cache", more: lookAtAll, inspect: atMost, redis: true},
}

var lookAtAll = fmt.Sprintf(`"max_inspect_bytes":%d,`, atMost)

// config returns the configuration of the plugin.
func (c contender) config() string {
	clusters := `"admin_cluster":"warmgate-admin"`
	if c.redis {
		clusters += `,"redis_cluster":"warmgate-redis"`
	}
	return fmt.Sprintf(`{"lb_type":"endpoint","lb_policy":"%s","lb_config":{%s"envoy":{%s}}}`, c.policy, c.more, clusters)
}

// options returns how its gateway is started.
func (c contender) options(native harness.Options, redisAddr string) harness.Options {
	o := native
	if c.policy == "" {
		o.NoPlugin = true
		return o
	}
	o.Policy, o.Config = harness.Warmgate, c.config()
	if c.redis {
		o.Redis = redisAddr
	}
	return o
}

// of returns the contenders that are played in a cell: looking at the whole body is no other contender where bodies are
// shorter than what is looked at by default.
func (s settings) of(c cell) []contender {
	return slices.DeleteFunc(slices.Clone(s.contenders), func(con contender) bool {
		return con.name == whole && s.size(c) <= byDefault
	})
}
