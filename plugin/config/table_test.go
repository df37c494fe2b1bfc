package config

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/setting"
)

// Every key points to a value of its type, and each of its choices is one that its field accepts.
func TestFieldsFitTypes(t *testing.T) {
	for i := range keys {
		k := &keys[i]
		if k.Field == nil {
			continue
		}
		c := defaults(Higress)
		settings := any(&c)
		if k.in != nil {
			settings = k.in(&c)
		}
		fits, into := false, k.Field(settings)
		switch k.Type {
		case setting.Boolean:
			_, fits = into.(*bool)
		case setting.Integer, setting.Size:
			_, fits = into.(*int)
		case setting.Number:
			_, fits = into.(*float64)
		case setting.Seconds, setting.Duration:
			_, fits = into.(*time.Duration)
		case setting.Text, setting.Secret:
			_, fits = into.(*string)
		case setting.Choice:
			fits = len(k.Choices) > 0
		case setting.Object:
			_, fits = into.(setting.EntryMap)
		}
		if !fits {
			t.Errorf("%s: type %d, field %T", k.Name, k.Type, into)
		}
		p := &parser{}
		for _, name := range k.Choices {
			p.choose(into, k.Name, name)
		}
		if p.count > 0 {
			t.Error(p.err())
		}
	}
}

// What policies need decides which keys have an effect with them, and what is read of requests and engines.
func TestNeeds(t *testing.T) {
	for _, d := range policy.All() {
		c := defaults(Higress)
		c.Policy = d.Name
		if got := fmt.Sprint(c.ReadsPrompt(), c.ReadsModel(), c.ByMetrics(), c.Scrapes(Higress)); got != fmt.Sprint(
			d.Needs.Prompt, d.Needs.Model,
			d.Needs.Metrics == policy.MetricsRequired, d.Needs.Metrics != policy.NoMetrics) {
			t.Errorf("%s needs %+v, reads %s", d.Name, d.Needs, got)
		}
		for name, want := range map[string]bool{
			"lb_config.max_inflight":          true,
			"lb_config.prefix.tenant_header":  d.Needs.Prompt,
			"lb_config.metrics.interval":      d.Needs.Metrics != policy.NoMetrics,
			"lb_config.metrics.weights.queue": d.Needs.Metrics != policy.NoMetrics,
			"lb_config.engine":                d.Needs.Metrics == policy.MetricsRequired,
		} {
			if k := find(name); (k.users == nil || slices.Contains(k.users, d.Name)) != want {
				t.Errorf("%s: %s has an effect: %v", d.Name, name, !want)
			}
		}
		for i := range d.Keys {
			if k := find(section + d.Keys[i].Name); k == nil || !slices.Contains(k.users, d.Name) {
				t.Errorf("%s: no key %s", d.Name, d.Keys[i].Name)
			}
		}
	}
}

// A policy whose settings the plugin does not read has them beside the Config, with the defaults of its keys.
func TestOwnSettings(t *testing.T) {
	type settings struct {
		Choices int
		Within  time.Duration
	}
	d := &policy.Descriptor{
		Name: "toss", Settings: func() any { return new(settings) },
		Keys: []setting.Key{
			{
				Name: "toss.choices", Type: setting.Integer, Min: 1, Max: 9, Default: "2",
				Field: func(s any) any { return &s.(*settings).Choices },
			},
			{
				Name: "toss.within", Type: setting.Duration, Max: 1000, Default: `"1s"`,
				Field: func(s any) any { return &s.(*settings).Within },
			},
		},
	}
	c, other, p := Config{Policy: d.Name}, Config{Policy: d.Name}, &parser{}
	in := settingsOf(d)
	k := key{Key: d.Keys[0], in: in}
	k.decode(p, &c, k.Name, value{kind: kindNumber, text: "7"})
	k.decode(p, &c, k.Name, value{kind: kindNumber, text: "10"})
	if want := "config: 1 problem\n  toss.choices: got 10, want a whole number from 1 to 9"; p.err().Error() != want {
		t.Errorf("%v", p.err())
	}
	if got := *in(&c).(*settings); got != (settings{7, time.Second}) || c.Settings() != in(&c) {
		t.Errorf("%+v", got)
	}
	if got := *in(&other).(*settings); got != (settings{2, time.Second}) {
		t.Errorf("another Config: %+v", got)
	}
}
