package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/lb"
)

// prefix_cache counts tokens, whatever is left out; its keys mean nothing to other policies.
func TestPrefixCache(t *testing.T) {
	for _, c := range []struct{ text, problem, warning string }{
		{text: `{"lb_policy":"prefix_cache"}`},
		{text: `{"lb_policy":"prefix_cache","lb_config":{"redisKeyTTL":0}}`},
		{text: `{"lb_policy":"prefix_cache","lb_config":{"unit":"tokens","prefix":{"credit":2},"redisKeyTTL":64}}`},
		{text: `{"lb_policy":"prefix_cache","lb_config":{"redisKeyTTL":262144}}`},
		{
			text:    `{"lb_policy":"prefix_cache","lb_config":{"redisKeyTTL":63}}`,
			warning: `lb_config.redisKeyTTL got 63, taken as 64: `,
		},
		{
			text:    `{"lb_policy":"prefix_cache","lb_config":{"redisKeyTTL":1}}`,
			warning: `lb_config.redisKeyTTL got 1, taken as 64: `,
		},
		{
			text:    `{"lb_policy":"prefix_cache","lb_config":{"unit":"requests"}}`,
			problem: `lb_config.unit: got "requests", want "tokens" or nothing`,
		},
		{
			text:    `{"lb_policy":"global_least_request","lb_config":{"redisKeyTTL":60}}`,
			warning: "lb_config.redisKeyTTL has no effect without lb_policy prefix_cache",
		},
		{
			text:    `{"lb_policy":"global_least_request","lb_config":{"prefix":{"credit":2}}}`,
			warning: "lb_config.prefix.credit has no effect",
		},
		{
			text:    `{"lb_policy":"prefix_cache","lb_config":{"objective":{"ttft":0,"tpot":0}}}`,
			problem: "objective.ttft and objective.tpot are both 0",
		},
		{
			text:    `{"lb_policy":"prefix_cache","lb_config":{"objective":{"ttft":4}}}`,
			warning: "lb_config.objective.tpot less than objective.ttft counts as equal",
		},
	} {
		set, err := Parse([]byte(c.text), Higress)
		if c.problem != "" {
			if err == nil || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("%s: %v, want %s", c.text, err, c.problem)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got := set.Match("", "", ""); got.Prefix.TTL == 0 {
			t.Errorf("%s: prompts are kept for no time", c.text)
		} else if got.Policy == "prefix_cache" && got.Unit != lb.Tokens {
			t.Errorf("%s: counts %s", c.text, got.Unit)
		}
		if warnings := strings.Join(set.Warnings(), "; "); c.warning == "" && warnings != "" ||
			!strings.Contains(warnings, c.warning) {
			t.Errorf("%s: warnings %q, want %q", c.text, warnings, c.warning)
		}
	}
}

func TestPrefixSecretIsNotPrinted(t *testing.T) {
	set, err := Parse([]byte(`{"lb_policy":"prefix_cache","lb_config":{"prefix":{"secret":"canary"}}}`), Higress)
	if err != nil {
		t.Fatal(err)
	}
	c := set.Match("", "", "")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(verb, *c); strings.Contains(text, "canary") {
			t.Errorf("%s prints the secret: %s", verb, text)
		}
	}
}
