package config

import (
	"slices"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/setting"
)

// A setter decodes a key that has a syntax of its own. It reports what is wrong to p, under the path at.
type setter func(p *parser, c *Config, at string, v value)

// key is a key and how it is decoded.
type key struct {
	setting.Key
	in    func(*Config) any // the settings that Field points into; nil: the Config itself
	set   setter            // decodes the value; nil: by its type
	only  only
	users []string // policies that the key is for, sorted; nil: all
	also  []key    // the same key of policies with settings of their own
}

// only restricts a key to one kind of gateway.
type only uint8

const (
	onAny only = iota
	onEnvoy
)

// decodes reports whether the key is part of a Config; those of rules are not.
func (k *key) decodes() bool { return k.set != nil || k.Field != nil }

// decode checks the value and stores it in the Config.
func (k *key) decode(p *parser, c *Config, at string, v value) {
	switch {
	case k.set != nil:
		k.set(p, c, at, v)
	case k.in != nil:
		p.decode(&k.Key, k.in(c), at, v)
	default:
		p.decode(&k.Key, c, at, v)
	}
	for i := range k.also {
		k.also[i].decode(&parser{host: p.host}, c, at, v)
	}
}

// metricsPolicies returns the policies that use metrics of engines.
func metricsPolicies() []string {
	return usersOf(func(n *policy.Needs) bool { return n.Metrics != policy.NoMetrics })
}

// usedBy returns the keys with the policies that they are for.
func usedBy(list []key, users []string) []key {
	list = slices.Clone(list)
	for i := range list {
		list[i].users = users
	}
	return list
}

// usersOf returns the names of the policies that need something, sorted.
func usersOf(need func(*policy.Needs) bool) []string {
	var names []string
	for _, d := range policy.All() {
		if need(&d.Needs) {
			names = append(names, d.Name)
		}
	}
	order.Up(names)
	return names
}

// settingsOf returns where a policy's settings are in a Config. Two kinds have fields of their own, because the plugin
// reads them as well; all others are in Config.own.
func settingsOf(d *policy.Descriptor) func(*Config) any {
	if d.Settings == nil {
		return nil
	}
	switch d.Settings().(type) {
	case *policy.CacheConfig:
		return func(c *Config) any { return &c.Prefix }
	case *engines.Config:
		return engineSettings
	}
	return func(c *Config) any { return c.ownSettings(d) }
}

// sharesSettings reports whether a policy's settings are also those of other policies.
func sharesSettings(d *policy.Descriptor) bool {
	switch d.Settings().(type) {
	case *policy.CacheConfig, *engines.Config:
		return true
	}
	return false
}

func engineSettings(c *Config) any { return &c.Engines.Config }

// ownSettings returns the settings of a policy in Config.own, made of the defaults if they are not there yet.
func (c *Config) ownSettings(d *policy.Descriptor) any {
	if s, ok := c.own[d.Name]; ok {
		return s
	}
	s, p := d.Settings(), &parser{}
	for i := range d.Keys {
		p.setDefault(&d.Keys[i], s, d.Keys[i].Name)
	}
	if c.own == nil {
		c.own = map[string]any{}
	}
	c.own[d.Name] = s
	return s
}
