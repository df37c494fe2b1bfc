package streamtest

import (
	"fmt"
	"hash/crc32"
	"strings"
)

// guessed are members of lb_config under which requests count in tokens: their prompts, and a guess for their answers.
const guessed = `"unit":"tokens","output_tokens":100`

// config returns a whole configuration with the given members of lb_config.
func (t *run) config(members string) string {
	parts := []string{`"debug_headers":true`}
	for _, m := range []string{t.Source(), members} {
		if m != "" {
			parts = append(parts, m)
		}
	}
	if !strings.Contains(members, `"health"`) {
		parts = append(parts, `"health":{"slow_start":0}`)
	}
	if t.policy == prefixCache || t.policy == tokenBudget {
		// with a guess of its own, no scenario counts what the gateway has learned in those before it
		guess := 4 - float64(crc32.ChecksumIEEE([]byte(t.Name()))%1e4)/1e8
		parts = append(parts, fmt.Sprintf(`"bytes_per_token":%.8f`, guess))
	}
	return `{"lb_type":"endpoint","lb_policy":"` + t.policy + `","lb_config":{` + strings.Join(parts, ",") + `}}`
}

// push puts a whole configuration into force.
func (t *run) push(config string) {
	t.Helper()
	if err := t.Configure(config); err != nil {
		t.Fatalf("%s: %v", config, err)
	}
}

// apply puts a configuration with the given members of lb_config into force.
func (t *run) apply(members string) {
	t.Helper()
	t.push(t.config(members))
}

// rule is an entry of _rules_: what it matches, and members of its lb_config.
type rule struct{ match, config string }

// another matches nothing that scenarios send.
const another = `"_match_route_":["another"]`

// rules returns a configuration without a global part.
func (t *run) rules(list ...rule) string {
	var out []string
	for _, r := range list {
		out = append(out, strings.Replace(t.config(r.config), "{", "{"+r.match+",", 1))
	}
	return `{"_rules_":[` + strings.Join(out, ",") + `]}`
}
