package config

import "testing"

func TestOwns(t *testing.T) {
	for _, c := range []struct {
		name, text string
		own        []string
	}{
		{"nothing", `{"enabled":false}`, nil},
		{"admin", `{"lb_policy":"global_least_request","lb_config":{"envoy":{"admin_cluster":"a"}}}`, []string{"a"}},
		{
			"all, of a rule", `{"enabled":false,"_rules_":[{"_match_route_":["r"],"lb_policy":"endpoint_metrics",
				"lb_config":{"envoy":{"admin_cluster":"a","metrics_cluster":"m","redis_cluster":"r"},
				"models":{"cluster":"l"}}}]}`,
			[]string{"a", "m", "r", "l"},
		},
		{
			"other regions", `{"lb_policy":"prefix_cache","lb_config":{"envoy":{"admin_cluster":"a"},"regions":{"name":"us",
				"cluster":"home","secret":"0123456789abcdef","allowed":[],
				"peers":[{"name":"eu","cluster":"p"},{"name":"ap","cluster":"q"}]}}}`,
			[]string{"a", "p", "q"},
		},
	} {
		set, err := Parse([]byte(c.text), Envoy)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for _, name := range c.own {
			if !set.Owns(name) {
				t.Errorf("%s: %q is not the plugin's own", c.name, name)
			}
		}
		for _, name := range []string{"", "llm"} {
			if set.Owns(name) {
				t.Errorf("%s: %q is the plugin's own", c.name, name)
			}
		}
	}
}
