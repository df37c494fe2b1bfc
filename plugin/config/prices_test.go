package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/lb/price"
)

// The cases of the keys of prices: see keyCases.
func init() {
	long := strings.Repeat("m", maxPricedName+1)
	for name, c := range map[string]keyCase{
		keyPrices: {
			`{"gpt-*":{"input":0.15,"output":"0.6"},"llama":{"input":1,"cached":1e-1,"output":2,"reasoning":3}}`,
			func(c *Config) {
				c.Prices.Currency = "USD"
				c.Prices.Table.Add("gpt-*", price.Rates{
					Input: 150_000_000, Cached: 150_000_000, Output: 600_000_000, Reasoning: 600_000_000,
				})
				c.Prices.Table.Add("llama", price.Rates{
					Input: 1e9, Cached: 100_000_000, Output: 2e9, Reasoning: 3e9,
				})
			},
			[]string{
				`[]`, `{}`, `1`, `{"a":1}`, `{"a":{}}`, `{"a":{"input":1}}`, `{"a":{"output":1}}`, `{"":{"input":1,"output":1}}`,
				`{"a":{"input":-1,"output":1}}`, `{"a":{"input":"NaN","output":1}}`, `{"a":{"input":null,"output":1}}`,
				`{"a":{"input":true,"output":1}}`, `{"a":{"input":0.0000000001,"output":1}}`, `{"a":{"input":1e10,"output":1}}`,
				`{"a":{"input":"$1","output":1}}`, `{"a":{"input":1,"input":1,"output":1}}`, `{"a":{"input":1,"outputs":1,"output":1}}`,
				`{"a":{"input":1,"output":1},"a":{"input":2,"output":2}}`, `{"a*b":{"input":1,"output":1}}`,
				`{"*a":{"input":1,"output":1}}`, `{"` + long + `":{"input":1,"output":1}}`,
			},
		},
		keyCurrency: {`"EUR"`, nil, []string{`""`, `"usd"`, `"US"`, `"USDT"`, `"€"`, `1`, `null`}},
		keyPricedTenant: {
			`"x-team"`, func(c *Config) { c.Prices.Header = "x-team" }, []string{`""`, `"X-Team"`, `"x team"`, `1`},
		},
		keyWeighBy:                            {`"prices"`, nil, []string{`"price"`, `""`, `1`}},
		"lb_config.tenants.weights.input":     {`0.5`, nil, []string{`-1`, `101`, `"1"`}},
		"lb_config.tenants.weights.cached":    {`0.1`, nil, []string{`-1`, `101`, `"1"`}},
		"lb_config.tenants.weights.output":    {`4`, nil, []string{`-1`, `101`, `"1"`}},
		"lb_config.tenants.weights.reasoning": {`4`, nil, []string{`-1`, `101`, `"1"`}},
	} {
		keyCases[name] = c
	}
}

// priced returns a configuration with the prices, and what else is written in lb_config.
func priced(policy, prices, others string) string {
	if others != "" {
		others = "," + others
	}
	return `{"lb_policy":"` + policy + `","lb_config":{"prices":{` + prices + `}` + others + `}}`
}

// What is wrong with prices is said with what would be right.
func TestMistakesInPrices(t *testing.T) {
	const model = `"a":{"input":1,"output":2}`
	const tenants = `"targets":{"10.0.0.1:80":{"weight":1}},"tenants":{"tenant_header":"x-t","max_tokens_per_minute":9,"weigh_by":"prices"}`
	many := make([]string, maxPriced+1)
	for i := range many {
		many[i] = `"` + strings.Repeat("m", i/26+1) + string(rune('a'+i%26)) + `":{"input":1,"output":1}`
	}
	for _, c := range []struct{ text, want string }{
		{priced("global_least_request", `"models":{`+model+`}`, ""), `lb_config.prices.currency: missing, want that of prices.models, such as "USD"`},
		{priced("global_least_request", `"currency":"usd","models":{`+model+`}`, ""), `lb_config.prices.currency: got "usd", want three capital letters of ISO 4217, such as "USD"`},
		{priced("global_least_request", `"currency":"USD","models":{"a":{"input":-0.1,"output":1}}`, ""), `lb_config.prices.models["a"].input: got -0.1, want a number from 0 to 1000000000 with at most 9 decimals, as a number or a string`},
		{priced("global_least_request", `"currency":"USD","models":{"a":{"input":1}}`, ""), `lb_config.prices.models["a"].output: missing, want a number from 0`},
		{priced("global_least_request", `"currency":"USD","models":{"gpt-*-mini":{"input":1,"output":1}}`, ""), `lb_config.prices.models["gpt-*-mini"]: matches no model: "*" stands for more at the end of a name only`},
		{priced("global_least_request", `"currency":"USD","models":{`+model+`,`+model+`}`, ""), `lb_config.prices.models["a"]: written twice`},
		{priced("global_least_request", `"currency":"USD","models":{"a":{"input":1,"output":1,"cache":1}}`, ""), `lb_config.prices.models["a"].cache: unknown key, want one of "input", "cached", "output", "reasoning"; did you mean "cached"?`},
		{priced("global_least_request", `"currency":"USD","models":{`+strings.Join(many, ",")+`}`, ""), `lb_config.prices.models: got an object with 257 entries, want an object with 1 to 256 models`},
		{priced("token_budget", "", tenants), `lb_config.tenants.weigh_by: got "prices" without prices.models, want these, or tenants.weights in place of it`},
		{priced("token_budget", `"currency":"USD","models":{`+model+`,"b*":{"input":0,"output":1}}`, tenants), `lb_config.tenants.weigh_by: got "prices", and input of "b*" costs nothing, want a price above 0`},
	} {
		_, err := Parse([]byte(c.text), Higress)
		if err == nil || !strings.Contains(err.Error(), "1 problem\n  "+c.want) {
			t.Errorf("%s:\n%v\nwant %s", c.text, err, c.want)
		}
	}
}

// What has no effect, or hardly the one that was meant, is said.
func TestWarningsOfPrices(t *testing.T) {
	const targets = `"targets":{"10.0.0.1:80":{"weight":1}},`
	for _, c := range []struct{ text, want string }{
		{priced("global_least_request", `"currency":"USD","tenant_header":"x"`, ""), `lb_config.prices.currency has no effect without prices.models`},
		{priced("global_least_request", `"currency":"USD","tenant_header":"x"`, ""), `lb_config.prices.tenant_header has no effect without prices.models`},
		{priced("global_least_request", `"currency":"USD","models":{"a":{"input":1,"cached":2,"output":1}}`, ""), `lb_config.prices.models["a"].cached is more than input`},
		{priced("global_least_request", `"currency":"USD","models":{"a":{"input":1,"output":1}}`, `"telemetry":{"enabled":false}`), `lb_config.prices.models has no effect without telemetry.enabled`},
		{priced("token_budget", ``, targets+`"tenants":{"weights":{"cached":0.1}}`), `lb_config.tenants.weights.cached has no effect without tenants.tenant_header and tenants.max_tokens_per_minute`},
		{priced("token_budget", ``, targets+`"tenants":{"weigh_by":"prices"}`), `lb_config.tenants.weigh_by has no effect without tenants.tenant_header`},
		{priced("token_budget", `"currency":"USD","models":{"a":{"input":1,"output":1}}`, targets+
			`"tenants":{"tenant_header":"x","max_tokens_per_minute":9,"weigh_by":"prices","weights":{"output":4}}`), `lb_config.tenants.weights.output has no effect with tenants.weigh_by "prices"`},
	} {
		set, err := Parse([]byte(c.text), Higress)
		begins := func(w string) bool { return strings.HasPrefix(w, c.want) }
		if err != nil || !slices.ContainsFunc(set.Warnings(), begins) {
			t.Errorf("%s: %v, warnings %q, want %s", c.text, err, set.Warnings(), c.want)
		}
	}
}

// Only the header of prices names tenants in statistics: those of budgets, queues and prompts are hashed, and may be
// keys. It is none that has credentials.
func TestPricedTenant(t *testing.T) {
	const (
		prices = `"currency":"USD","models":{"a":{"input":1,"output":1}}`
		others = `"targets":{"10.0.0.1:80":{"weight":1}},"tenants":{"tenant_header":"x-budget","max_tokens_per_minute":9},` +
			`"max_inflight":1,"queue":{"max_wait":"1s","tenant_header":"x-queue"}`
	)
	for _, c := range []struct{ text, want string }{
		{priced("token_budget", prices, others), ""},
		{priced("prefix_cache", prices, `"prefix":{"tenant_header":"x-prefix"}`), ""},
		{priced("token_budget", prices+`,"tenant_header":"x-own"`, others), "x-own"},
	} {
		if got := mustParse(t, []byte(c.text), Higress).Prices.Header; got != c.want {
			t.Errorf("%s: %q, want %q", c.text, got, c.want)
		}
	}
	for _, name := range []string{"authorization", "cookie", "proxy-authorization", "x-api-key"} {
		_, err := Parse([]byte(priced("prefix_cache", prices+`,"tenant_header":"`+name+`"`, "")), Higress)
		want := `lb_config.prices.tenant_header: got "` + name + `", want a header with the name of a tenant`
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

// At which rates a tenant is charged.
func TestTenantRates(t *testing.T) {
	const start = `"targets":{"10.0.0.1:80":{"weight":1}},"tenants":{"tenant_header":"x","max_tokens_per_minute":9`
	const prices = `"currency":"USD","models":{"gpt-*":{"input":0.15,"cached":0.075,"output":0.6}}`
	tokens := price.Tokens{Input: 10, Cached: 100, Output: 20, Reasoning: 5}
	for _, c := range []struct {
		text, model string
		charge      int64 // -1: each token counts as one
	}{
		{priced("token_budget", prices, start+`}`), "gpt-4", -1},
		{priced("token_budget", prices, start+`,"weights":{"input":1,"reasoning":1}}`), "gpt-4", -1},
		{priced("token_budget", prices, start+`,"weights":{"cached":0.1}}`), "gpt-4", 10 + 10 + 20 + 5},
		{priced("token_budget", prices, start+`,"weights":{"output":4}}`), "gpt-4", 10 + 100 + 80 + 20},
		{priced("token_budget", prices, start+`,"weights":{"input":0.5,"output":2,"reasoning":0}}`), "gpt-4", 5 + 50 + 40},
		{priced("token_budget", prices, start+`,"weights":{"input":0,"output":0}}`), "gpt-4", 0},
		{priced("token_budget", prices, start+`,"weigh_by":"prices"}`), "gpt-4", 10 + 50 + 80 + 20},
		{priced("token_budget", prices, start+`,"weigh_by":"prices"}`), "llama", -1},
		{priced("global_least_request", prices, ""), "gpt-4", -1},
	} {
		charge := int64(-1)
		if r, per := mustParse(t, []byte(c.text), Higress).TenantRates(c.model); r != nil {
			charge = r.Sum(tokens, per)
		}
		if charge != c.charge {
			t.Errorf("%s: %s is charged %d, want %d", c.text, c.model, charge, c.charge)
		}
	}
}

// A choice inside a cluster has the prices of the configuration around it, and none of its own.
func TestPricesInsideAChoice(t *testing.T) {
	const prices = `"prices":{"currency":"USD","models":{"a":{"input":1,"output":1}}}`
	around := func(in string) string {
		return `{"lb_type":"cluster","lb_policy":"global_least_request","lb_config":{"service_list":["a","b"],` + prices +
			`,"endpoint":{"lb_policy":"global_least_request","lb_config":{` + in + `}}}}`
	}
	c := mustParse(t, []byte(around("")), Higress)
	if in := c.Clusters.Endpoint; !in.Prices.Enabled() || !in.Prices.ByModel() {
		t.Errorf("inside: %+v", in.Prices)
	}
	_, err := Parse([]byte(around(prices)), Higress)
	const want = "endpoint.lb_config.prices.models: is taken from the configuration around"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
}

func TestPricesByModel(t *testing.T) {
	for models, want := range map[string]bool{
		`{"*":{"input":1,"output":1}}`:                              false,
		`{"a":{"input":1,"output":1}}`:                              true,
		`{"a*":{"input":1,"output":1}}`:                             true,
		`{"*":{"input":1,"output":1},"a":{"input":2,"output":1}}`:   true,
		`{"*":{"input":1,"output":1},"a-*":{"input":2,"output":1}}`: true,
	} {
		c := mustParse(t, []byte(priced("global_least_request", `"currency":"USD","models":`+models, "")), Higress)
		if c.Prices.ByModel() != want {
			t.Errorf("%s: %v, want %v", models, !want, want)
		}
	}
}
