package sizing

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/lb/prompt"
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

// cell is a load.
type cell struct {
	rate   float64 // requests per second
	tokens int     // of each prompt
}

// String names the cell as its settings do.
func (c cell) String() string {
	return strconv.FormatFloat(c.rate, 'f', -1, 64) + "x" + strconv.Itoa(c.tokens)
}

// name names the cell in a table.
func (c cell) name() string {
	return fmt.Sprintf("%s/s of %d tokens", strconv.FormatFloat(c.rate, 'f', -1, 64), c.tokens)
}

// parseCells reads loads that are divided by commas, each RATExTOKENS.
func parseCells(list string) ([]cell, error) {
	var out []cell
	for _, field := range strings.Split(list, ",") {
		rate, tokens, _ := strings.Cut(strings.TrimSpace(field), "x")
		c := cell{}
		var err, err2 error
		c.rate, err = strconv.ParseFloat(rate, 64)
		c.tokens, err2 = strconv.Atoi(tokens)
		if err != nil || err2 != nil || !(c.rate > 0 && c.rate < 1e6) || c.tokens < 1 {
			return nil, fmt.Errorf("%q is not a load such as 98.7x100000", field)
		}
		out = append(out, c)
	}
	return out, nil
}

// size returns how many bytes the bodies of a cell have.
func (s settings) size(c cell) int { return int(float64(c.tokens) * s.tokenBytes) }

// requests returns how many of them are sent in one run.
func (s settings) requests(c cell) int { return max(1, int(c.rate*s.span.Seconds())) }

// looked returns which share of a body a contender reads.
func (s settings) looked(c cell, con contender) float64 {
	return min(1, float64(con.inspect)/float64(s.size(c)))
}

// known returns which share of a prompt's text a contender can find in its index: the blocks of a chain are limited in
// number, and only what is read can be in them.
func known(body []byte, con contender) (float64, error) {
	if con.policy != "prefix_cache" {
		return 0, nil
	}
	info, err := prompt.Scan(body, true)
	if err != nil {
		return 0, err
	}
	read := min(len(body), con.inspect)
	_, parts, err := prompt.Read(body[:read], read == len(body))
	if err != nil {
		return 0, err
	}
	const blockBytes = 512 // the default of prefix.block_bytes
	blocks, _ := prompt.NewChainer(prompt.Secret("sizing"), blockBytes).Chain(body[:read], &parts, "llm")
	if len(blocks) == 0 {
		return 0, nil
	}
	return min(1, float64(blocks[len(blocks)-1].End)/float64(info.TextBytes)), nil
}
