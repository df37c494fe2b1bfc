package config

import (
	"slices"
	"strings"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/lb/policy"
)

// keys is the one table of the configuration: the parser, the defaults and the documentation all read it.
var keys = slices.Concat(
	mainKeys, clusterKeys, queueKeys, regionKeys, apiKeys(), inspectKeys, telemetryKeys, healthKeys, tokenKeys,
	storeKeys, sessionKeys(), policyKeys(), metricsKeys(), ranksKeys, modelKeys, priceKeys, ruleKeys,
)

// policyKeys returns the keys that policies own. Policies may share keys of the same name: those with settings of their
// own get the value there, and the description is that of the first.
func policyKeys() []key {
	var list []key
	for _, d := range policy.All() {
		for _, k := range d.Keys {
			k.Name = section + k.Name
			same := func(other key) bool { return other.Name == k.Name }
			if i := slices.IndexFunc(list, same); i >= 0 {
				list[i].users = append(list[i].users, d.Name)
				order.Up(list[i].users)
				if !sharesSettings(d) {
					list[i].also = append(list[i].also, key{Key: k, in: settingsOf(d)})
				}
				continue
			}
			list = append(list, key{Key: k, in: settingsOf(d), users: []string{d.Name}})
		}
	}
	return list
}

// metricsKeys returns the keys for policies that use metrics of engines.
func metricsKeys() []key {
	list := usedBy(engineKeys, usersOf(func(n *policy.Needs) bool { return n.Metrics == policy.MetricsRequired }))
	return append(list, usedBy(slices.Concat(scrapeKeys, weighKeys), metricsPolicies())...)
}

// defaults returns the values of keys that are not written.
func defaults(h Host) Config {
	var c Config
	p := &parser{host: h}
	for i := range keys {
		k := &keys[i]
		if v, ok := defaultOf(&k.Key); ok && k.decodes() {
			k.decode(p, &c, k.Name, v)
		}
	}
	c.own = nil // each Config makes its own
	return c
}

func find(name string) *key {
	for i := range keys {
		if keys[i].Name == name {
			return &keys[i]
		}
	}
	return nil
}

func isSection(name string) bool {
	for i := range keys {
		if strings.HasPrefix(keys[i].Name, name) && strings.HasPrefix(keys[i].Name[len(name):], ".") {
			return true
		}
	}
	return false
}
