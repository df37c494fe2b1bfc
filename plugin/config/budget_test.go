package config

// keyCase is the values of one key.
type keyCase struct {
	good string
	want func(c *Config) // nil: the key changes nothing
	bad  []string
}

// The cases of the keys of token_budget: see keyCases.
func init() {
	for name, c := range map[string]keyCase{
		"lb_config.age_bonus":  {`0`, nil, []string{`-1`, `"5"`, `1e10`}},
		"lb_config.max_closed": {`"90s"`, nil, []string{`"999ms"`, `60`, `"61m"`}},
		keyBudgetTargets: {
			`{"10.0.0.1:80":{"weight":3,"max_concurrent_requests":20,"max_tokens_per_minute":2e5,"max_requests_per_minute":1}}`,
			nil,
			[]string{
				`{}`, `[]`, `3`, `{"10.0.0.1:80":3}`, `{"10.0.0.1:80":{}}`, `{"10.0.0.1:80":{"weight":0}}`,
				`{"10.0.0.1:80":{"weight":1,"max_tokens_per_minute":-1}}`,
				`{"10.0.0.1:80":{"weight":1,"max_tokens_per_minute":0.5}}`,
				`{"10.0.0.1:80":{"weight":1,"max_requests_per_minute":0.001}}`,
				`{"10.0.0.1:80":{"weight":1,"max_tokens":1}}`,
				`{"10.0.0.1:80":{"weight":1,"max_concurrent_requests":1.5}}`, `{"10.0.0.1:80":{"weight":1,"weight":2}}`,
				`{"10.0.0.1:80":{"weight":1},"10.0.0.1:80":{"weight":2}}`,
			},
		},
		"lb_config.tenants.tenant_header":           {`"x-tenant"`, nil, []string{`""`, `1`}},
		"lb_config.tenants.max_tokens_per_minute":   {`5000`, nil, []string{`-1`, `0.5`, `"5"`, `1e13`}},
		"lb_config.tenants.max_requests_per_minute": {`1`, nil, []string{`-1`, `0.001`, `"5"`, `1e13`}},
		"lb_config.tenants.max_concurrent_requests": {`5`, nil, []string{`-1`, `0.5`, `"5"`, `1e7`}},
	} {
		keyCases[name] = c
	}
}
