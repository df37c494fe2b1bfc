package config

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/setting"
)

// The tests of this package that concern every key enumerate the table of keys, so that they cover a new key without a
// change. The helpers here write the configuration around a key.

// member is a key with its full name, and its value as JSON text.
type member struct{ name, value string }

// writeConfig returns a configuration with the members in their order, each in its section.
func writeConfig(members ...member) string {
	var b strings.Builder
	writeSection(&b, members)
	return b.String()
}

func writeSection(b *strings.Builder, members []member) {
	written, comma := map[string]bool{}, ""
	b.WriteByte('{')
	for i, m := range members {
		head, _, nested := strings.Cut(m.name, ".")
		if nested && written[head] {
			continue
		}
		b.WriteString(comma + strconv.Quote(head) + ":")
		comma = ","
		if !nested {
			b.WriteString(m.value)
			continue
		}
		written[head] = true
		var inner []member
		for _, other := range members[i:] {
			if rest, ok := strings.CutPrefix(other.name, head+"."); ok {
				inner = append(inner, member{rest, other.value})
			}
		}
		writeSection(b, inner)
	}
	b.WriteByte('}')
}

// beside has, for keys that are compared with another one, a value of the other with which each value of the key is
// valid.
var beside = map[string]member{
	"lb_config.health.ejection_time":     {"lb_config.health.max_ejection_time", `"24h"`},
	"lb_config.health.max_ejection_time": {"lb_config.health.ejection_time", `100`},
	"lb_config.metrics.interval":         {keyStaleAfter, `"10m"`},
	keyStaleAfter:                        {"lb_config.metrics.interval", `200`},
	keyStore:                             {keyService, `"redis.dns"`},
	keyInspectPath:                       {keyInspectToken, `"` + testSecret + `"`},
	keyPush:                              {keyMaxInflight, `8`},
	keyPrices:                            {keyCurrency, `"USD"`},
	keyMaxInflightTokens:                 {keyUnit, `"tokens"`},
	"lb_config.global_inflight_enabled":  {keyService, `"redis.dns"`},
}

// someTargets is what token_budget needs.
const someTargets = `{"10.0.0.1:80":{"weight":3,"max_tokens_per_minute":1000},"10.0.0.2:80":{"weight":1}}`

// policy returns the name of a policy with which the key has an effect.
func (k *key) policy() string {
	if n := len(k.users); n > 0 {
		return k.users[n-1]
	}
	return "global_least_request"
}

// policyNeeds returns the members that a policy for endpoints cannot do without.
func policyNeeds(name string) []member {
	if policy.Describe(name).Needs.Budget {
		return []member{{keyBudgetTargets, someTargets}}
	}
	return nil
}

func isAPIKey(name string) bool { return strings.HasPrefix(name, "lb_config.api.") }

// apiNeeds returns what a configuration with a key of the admission API needs beside the policy.
func apiNeeds(name string) []member {
	list := []member{
		{"lb_type", `"cluster"`},
		{keyBudgetTargets, `{"a":{"weight":1}}`},
		{keyAPIPath, `"/warmgate/v1"`},
		{keyAPIToken, `"` + testSecret + `"`},
	}
	return slices.DeleteFunc(list, func(m member) bool {
		return m.name == name || name == keyAPIToken && m.name == keyAPIPath // which would miss a misspelled token
	})
}

// host returns a gateway on which the key is valid.
func (k *key) host() Host {
	if k.only == onEnvoy {
		return Envoy
	}
	return Higress
}

// needed returns the members that a configuration with the key cannot do without.
func needed(k *key) []member {
	var list []member
	if k.Name != "lb_policy" {
		list = append(list, member{"lb_policy", strconv.Quote(k.policy())})
	}
	switch {
	case isAPIKey(k.Name):
		list = append(list, apiNeeds(k.Name)...)
	case k.Name != keyBudgetTargets:
		list = append(list, policyNeeds(k.policy())...)
	}
	if k.policy() == "cluster_metrics" {
		list = append(list, member{"lb_type", `"cluster"`}, member{keyClusters, `["a","b"]`})
		if k.Name != "lb_config.mode" {
			list = append(list, member{"lb_config.mode", `"LeastBusy"`})
		}
	}
	if k.host() == Envoy {
		if k.Name != "lb_config.envoy.admin_cluster" && k.Name != "lb_config.envoy.endpoints" {
			list = append(list, member{"lb_config.envoy.admin_cluster", `"admin"`})
		}
		if k.Name != keyMetricsCluster && slices.Contains(metricsPolicies(), k.policy()) {
			list = append(list, member{keyMetricsCluster, `"engines"`})
		}
	}
	if m, ok := beside[k.Name]; ok {
		list = append(list, m)
	}
	return append(list, regionNeeds(k.Name)...)
}

// withKey returns a configuration that contains the key with the value and nothing that it does not need.
func withKey(k *key, value string) []byte {
	return []byte(writeConfig(append(needed(k), member{k.Name, value})...))
}

// stored returns the value of the key in a Config.
func (k *key) stored(c *Config) any {
	copied := *c
	copied.own = maps.Clone(c.own) // to which reading the key of another policy adds its defaults
	settings := any(&copied)
	if k.in != nil {
		settings = k.in(&copied)
	}
	return reflect.ValueOf(k.Field(settings)).Elem().Interface()
}

// strictKeys returns the keys that are decoded by their type, without those that accept what ai-load-balancer accepts.
func strictKeys() []*key {
	var list []*key
	for i := range keys {
		if k := &keys[i]; k.Field != nil && k.set == nil && !k.Loose && k.Type != setting.Object {
			list = append(list, k)
		}
	}
	return list
}

// looseTyped returns the keys that accept what ai-load-balancer accepts, and are decoded by their type.
func looseTyped() []*key {
	var list []*key
	for i := range keys {
		if k := &keys[i]; k.Field != nil && k.set == nil && k.Loose {
			list = append(list, k)
		}
	}
	return list
}

// mustParse returns the only configuration of a text that is valid.
func mustParse(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, text []byte, h Host,
) *Config {
	t.Helper()
	set, err := Parse(text, h)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return set.Match("", "", "")
}

// refused returns what is wrong with a text that has one problem, after its place; it fails if there is none, several,
// or one elsewhere.
func refused(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, text []byte, h Host, at string,
) string {
	t.Helper()
	set, err := Parse(text, h)
	if err == nil || set != nil {
		t.Fatalf("%s: accepted, want a problem at %s", text, at)
	}
	what, ok := strings.CutPrefix(err.Error(), "config: 1 problem\n  "+at+": ")
	if !ok || strings.Contains(what, "\n") {
		t.Fatalf("%s: got %v, want one problem at %s", text, err, at)
	}
	return what
}

// The helpers enumerate what they should: each key that is part of a Config has a setter, or is in one of the lists.
func TestKeysetIsComplete(t *testing.T) {
	own := 0
	for i := range keys {
		if keys[i].set != nil || keys[i].Field != nil && keys[i].Type == setting.Object {
			own++
		}
	}
	decoded := 0
	for i := range keys {
		if keys[i].decodes() {
			decoded++
		}
	}
	if n := len(strictKeys()) + len(looseTyped()) + own; n != decoded || len(strictKeys()) < 30 {
		t.Errorf("%d keys enumerated, %d in the table", n, decoded)
	}
	for _, k := range strictKeys() {
		if k.Default != "" {
			mustParse(t, withKey(k, k.Default), k.host())
		}
	}
	if got := writeConfig(member{"a", "1"}, member{"b.c", "2"}, member{"d", "3"}, member{"b.e.f", "4"}); got !=
		`{"a":1,"b":{"c":2,"e":{"f":4}},"d":3}` {
		t.Errorf("writes %s", got)
	}
}

// document writes a configuration in which nothing but the key is out of the ordinary, for a gateway on which it is
// valid.
func document(name, val string) (string, Host) {
	if condition, ok := strings.CutPrefix(name, "_rules_[]."); ok {
		return `{"_rules_":[{"enabled":false,"` + condition + `":` + val + `}]}`, Higress
	}
	member := `"` + strings.ReplaceAll(name, ".", `":{"`) + `":` + val + strings.Repeat("}", strings.Count(name, "."))
	switch {
	case name == "lb_policy":
		return `{` + member + `}`, Higress
	case strings.HasPrefix(name, "lb_config.envoy."):
		for _, alone := range []string{"poll_interval", "redis_cluster", "metrics_cluster"} {
			member = strings.Replace(member, `{"`+alone, `{"admin_cluster":"c","`+alone, 1)
		}
		return `{"lb_policy":"global_least_request",` + member + `}`, Envoy
	case len(regionNeeds(name)) > 0:
		member = strings.Replace(member, `"regions":{`, `"regions":{`+regionMembers(regionNeeds(name))+`,`, 1)
	case name == keyInspectPath:
		member = strings.Replace(member, `:{"path`, `:{"token":"`+testSecret+`","path`, 1)
	case name == keyPrices:
		member = strings.Replace(member, `:{"models`, `:{"currency":"USD","models`, 1)
	case name == keyMaxInflightTokens && val != "0":
		member = strings.Replace(member, `:{`, `:{"unit":"tokens",`, 1)
	case name == keyZones:
		member = strings.Replace(member, `:{`, `:{"envoy":{"admin_cluster":"c"},`, 1)
		return `{"lb_policy":"global_least_request",` + member + `}`, Envoy
	}
	return `{"lb_policy":"global_least_request",` + member + `}`, Higress
}
