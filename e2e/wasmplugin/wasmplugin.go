// Package wasmplugin reads Higress's WasmPlugin resources as Higress's controller does, as far as they reach a plugin.
package wasmplugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Resource is the part of a WasmPlugin that reaches the plugin or decides what happens without it.
type Resource struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Spec       struct {
		URL                  string         // of the image
		FailStrategy         string         `yaml:"failStrategy"`
		DefaultConfig        map[string]any `yaml:"defaultConfig"`
		DefaultConfigDisable bool           `yaml:"defaultConfigDisable"`
		MatchRules           []Rule         `yaml:"matchRules"`
	}
}

// Rule is a configuration for some routes, domains or services.
type Rule struct {
	Ingress, Domain, Service []string
	Config                   map[string]any
	ConfigDisable            bool `yaml:"configDisable"`
}

// Parse reads a resource. The error names everything that keeps it from being one to copy: another kind of resource, no
// image, or a plugin that stops the traffic when its module does not load.
func Parse(text []byte) (*Resource, error) {
	r := new(Resource)
	if err := yaml.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("wasmplugin: %w", err)
	}
	var errs []error
	for _, field := range []struct {
		name, got, want string
		ok              bool
	}{
		{
			"apiVersion", r.APIVersion, "extensions.higress.io/v1alpha1",
			r.APIVersion == "extensions.higress.io/v1alpha1",
		},
		{"kind", r.Kind, "WasmPlugin", r.Kind == "WasmPlugin"},
		{"spec.url", r.Spec.URL, "oci://...", strings.HasPrefix(r.Spec.URL, "oci://")},
		{"spec.failStrategy", r.Spec.FailStrategy, "FAIL_OPEN", r.Spec.FailStrategy == "FAIL_OPEN"},
	} {
		if !field.ok {
			errs = append(errs, fmt.Errorf("wasmplugin: %s is %q, want %s", field.name, field.got, field.want))
		}
	}
	return r, errors.Join(errs...)
}

// PluginConfig returns the JSON that Higress makes of the resource for the plugin: the default configuration, and a
// rule for each part that is switched on.
func (r *Resource) PluginConfig() ([]byte, error) {
	whole := map[string]any{}
	if !r.Spec.DefaultConfigDisable {
		maps.Copy(whole, r.Spec.DefaultConfig)
	}
	var rules []map[string]any
	for _, m := range r.Spec.MatchRules {
		if !m.ConfigDisable {
			rules = append(rules, m.pluginConfig())
		}
	}
	if rules != nil {
		whole["_rules_"] = rules
	}
	return json.Marshal(whole)
}

// pluginConfig returns the configuration with what it is for, as the plugin gets it.
func (m *Rule) pluginConfig() map[string]any {
	out := map[string]any{}
	maps.Copy(out, m.Config)
	for key, names := range map[string][]string{
		"_match_route_": m.Ingress, "_match_domain_": m.Domain,
		"_match_service_": m.Service,
	} {
		if names != nil {
			out[key] = names
		}
	}
	return out
}
