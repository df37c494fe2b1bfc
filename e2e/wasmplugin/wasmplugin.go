// Package wasmplugin reads Higress's WasmPlugin resources: strictly, by the fields and values that the resource's
// schema in Kubernetes has (Higress 2.2.4), and as Higress's controller does, as far as they reach a plugin.
package wasmplugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Resource is a WasmPlugin.
type Resource struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   Metadata
	Spec       Spec
}

// Metadata is what names a resource, for Kubernetes and for Higress's console.
type Metadata struct {
	Name, Namespace     string
	Labels, Annotations map[string]string
}

// Spec has all fields of a WasmPlugin's schema.
type Spec struct {
	URL                  string              // of the image
	SHA256               string              `yaml:"sha256"`
	VerificationKey      string              `yaml:"verificationKey"`
	ImagePullPolicy      string              `yaml:"imagePullPolicy"`
	ImagePullSecret      string              `yaml:"imagePullSecret"`
	Phase                string              // where in the filter chain
	Priority             *int                // in the phase, the highest first
	FailStrategy         string              `yaml:"failStrategy"`
	PluginName           string              `yaml:"pluginName"`
	PluginConfig         map[string]any      `yaml:"pluginConfig"`
	DefaultConfig        map[string]any      `yaml:"defaultConfig"`
	DefaultConfigDisable *bool               `yaml:"defaultConfigDisable"`
	MatchRules           []Rule              `yaml:"matchRules"`
	VMConfig             struct{ Env []Env } `yaml:"vmConfig"`
}

// Env is an environment variable of the VM.
type Env struct {
	Name, Value string
	ValueFrom   string `yaml:"valueFrom"`
}

// Rule is a configuration for some routes, domains or services.
type Rule struct {
	Ingress, Domain, Service []string
	Config                   map[string]any
	ConfigDisable            *bool  `yaml:"configDisable"`
	RouteType                string `yaml:"routeType"`
}

// values are those that the schema allows in each field that has a list of them.
var values = map[string][]string{
	"spec.imagePullPolicy":        {"", "UNSPECIFIED_POLICY", "IfNotPresent", "Always"},
	"spec.phase":                  {"", "UNSPECIFIED_PHASE", "AUTHN", "AUTHZ", "STATS"},
	"spec.vmConfig.env.valueFrom": {"", "INLINE", "HOST"},
	"spec.matchRules.routeType":   {"", "HTTP", "GRPC"},
}

// Parse reads a resource. The error names everything that keeps it from being one to copy: what its schema does not
// allow, another kind of resource, no image, or a plugin that stops the traffic when its module does not load.
func Parse(text []byte) (*Resource, error) {
	r := new(Resource)
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("wasmplugin: %w", err)
	}
	errs := r.unlisted()
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

// unlisted returns an error for each value that the schema does not list.
func (r *Resource) unlisted() (errs []error) {
	check := func(field, value string) {
		if !slices.Contains(values[field], value) {
			errs = append(errs, fmt.Errorf("wasmplugin: %s is %q, want one of %q", field, value, values[field][1:]))
		}
	}
	check("spec.imagePullPolicy", r.Spec.ImagePullPolicy)
	check("spec.phase", r.Spec.Phase)
	for _, e := range r.Spec.VMConfig.Env {
		check("spec.vmConfig.env.valueFrom", e.ValueFrom)
	}
	for _, m := range r.Spec.MatchRules {
		check("spec.matchRules.routeType", m.RouteType)
	}
	return errs
}

// is reports whether a switch that may be missing is on.
func is(on *bool) bool { return on != nil && *on }

// Shown returns an error for what keeps Higress's console (2.2) from showing a resource, or one of its rules: it looks
// for labels, and for rules with a single target and an explicit switch. It sorts the rules of a resource that it
// saves: those of services first, then those of routes, then those of domains; others would then come first.
func (r *Resource) Shown() error {
	const prefix = "higress.io/wasm-plugin-"
	name, version := r.Metadata.Labels[prefix+"name"], r.Metadata.Labels[prefix+"version"]
	var errs []error
	for label, ok := range map[string]bool{
		"higress.io/resource-definer": r.Metadata.Labels["higress.io/resource-definer"] == "higress",
		prefix + "category":           r.Metadata.Labels[prefix+"category"] != "",
		prefix + "built-in": r.Metadata.Labels[prefix+"built-in"] == "true" ||
			r.Metadata.Labels[prefix+"built-in"] == "false",
		prefix + "title": r.Metadata.Annotations[prefix+"title"] != "",
	} {
		if !ok {
			errs = append(errs, fmt.Errorf("wasmplugin: the label %s is wrong", label))
		}
	}
	if name == "" || version == "" || r.Metadata.Name != name+"-"+version {
		errs = append(errs, fmt.Errorf("wasmplugin: the name %s is not that of its labels, %s-%s", r.Metadata.Name,
			name, version))
	}
	if r.Spec.DefaultConfigDisable == nil {
		errs = append(errs, errors.New("wasmplugin: no defaultConfigDisable"))
	}
	last := 0
	for i, m := range r.Spec.MatchRules {
		if len(m.Ingress)+len(m.Domain)+len(m.Service) != 1 || m.ConfigDisable == nil || len(m.Config) == 0 {
			errs = append(errs, fmt.Errorf("wasmplugin: rule %d is not shown", i))
		}
		rank := 2*len(m.Domain) + len(m.Ingress)
		if rank < last {
			errs = append(errs, fmt.Errorf("wasmplugin: rule %d would be placed before others", i))
		}
		last = rank
	}
	return errors.Join(errs...)
}

// PluginConfig returns the JSON that Higress makes of the resource for the plugin: the default configuration, and a
// rule for each part that is switched on. It is nil if none is: Higress takes the plugin out of the gateway.
func (r *Resource) PluginConfig() ([]byte, error) {
	whole := map[string]any{}
	if !is(r.Spec.DefaultConfigDisable) {
		maps.Copy(whole, r.Spec.DefaultConfig)
	}
	var rules []map[string]any
	for _, m := range r.Spec.MatchRules {
		if !is(m.ConfigDisable) {
			rules = append(rules, m.pluginConfig())
		}
	}
	if rules != nil {
		whole["_rules_"] = rules
	} else if is(r.Spec.DefaultConfigDisable) {
		return nil, nil
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
