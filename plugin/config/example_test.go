package config_test

import (
	"fmt"

	"github.com/warmgate/warmgate/plugin/config"
)

// A configuration has a part for some requests, and one for all others.
func ExampleParse() {
	set, err := config.Parse([]byte(`{
		"lb_policy": "global_least_request",
		"_rules_": [{
			"_match_domain_": ["chat.example.com"],
			"lb_policy": "prefix_cache",
			"lb_config": {"prefix": {"credit": 3}}
		}]
	}`), config.Higress)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(set.Match("route", "cluster", "chat.example.com:443").Policy)
	fmt.Println(set.Match("route", "cluster", "api.example.com").Policy)
	// Output:
	// prefix_cache
	// global_least_request
}

// An error contains every problem, with its path, what was written and what would be accepted.
func ExampleParse_error() {
	_, err := config.Parse([]byte(`{
		"lb_policy": "global_least_request",
		"lb_config": {"unit": "token", "maxInflight": 8, "health": {"slow_start": "2d"}}
	}`), config.Higress)
	fmt.Println(err)
	// Output:
	// config: 3 problems
	//   lb_config.unit: got "token", want one of "requests", "tokens"; did you mean "tokens"?
	//   lb_config.maxInflight: unknown key; did you mean max_inflight?
	//   lb_config.health.slow_start: got "2d", want a duration from 0s to 1h, as milliseconds or a string like "20ms"
}

// A part that is refused stays in force in its last good form; the other parts change.
func ExampleUpdate() {
	const text = `{"_rules_": [
		{"_match_route_": ["a"], "lb_policy": "global_least_request", "lb_config": {"max_inflight": %s}},
		{"_match_route_": ["b"], "lb_policy": "global_least_request", "lb_config": {"max_inflight": %s}}
	]}`
	_, forms, _ := config.Update(fmt.Appendf(nil, text, "4", "5"), config.Higress, nil)
	set, _, err := config.Update(fmt.Appendf(nil, text, `"many"`, "6"), config.Higress, forms)
	fmt.Println(err)
	fmt.Println("a:", set.Match("a", "", "").MaxInflight, "b:", set.Match("b", "", "").MaxInflight)
	fmt.Printf("%+v\n", set.Refusals())
	// Output:
	// config: 1 problem
	//   _rules_[0].lb_config.max_inflight: got "many", want a whole number from 0 to 1000000
	// a: 4 b: 6
	// [{Part:_rules_[0] for route a Kept:true}]
}

// What is accepted and has no effect is reported by warnings.
func ExampleSet_Warnings() {
	set, err := config.Parse([]byte(`{
		"lb_policy": "global_least_request",
		"lb_config": {"prefix": {"credit": 3}, "maxRequestCount": 2.5}
	}`), config.Higress)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, warning := range set.Warnings() {
		fmt.Println(warning)
	}
	// Output:
	// lb_config.maxRequestCount got 2.5, taken as 2
	// lb_config.prefix.credit has no effect without lb_policy prefix_cache
}

// The table of keys is what the documentation is generated from.
func ExampleKeys() {
	for _, k := range config.Keys() {
		if k.Name == "lb_config.body_timeout" {
			fmt.Println(k.Type, k.Default)
		}
	}
	// Output:
	// duration (number: ms) "250ms"
}
