package lint

import (
	"slices"
	"strconv"
	"strings"

	"github.com/warmgate/warmgate/cmd/warmgate/internal/source"
	"github.com/warmgate/warmgate/plugin/config"
)

// field is a field of a resource: Kubernetes refuses values of another kind, and drops fields that it does not know.
type field struct {
	name    string
	kind    source.Kind
	choices []string // of a string, if there are only some
}

// anyKind is the kind of what is not looked into.
const anyKind source.Kind = -1

// Fields of Higress's WasmPlugin, of what Istio's has beside those or instead, and of a plugin in Envoy Gateway.
var (
	wasmPluginFields = []field{
		{"url", source.String, nil},
		{"sha256", source.String, nil},
		{"verificationKey", source.String, nil},
		{"imagePullPolicy", source.String, []string{"UNSPECIFIED_POLICY", "IfNotPresent", "Always"}},
		{"imagePullSecret", source.String, nil},
		{"phase", source.String, []string{"UNSPECIFIED_PHASE", "AUTHN", "AUTHZ", "STATS"}},
		{"priority", source.Number, nil},
		{"failStrategy", source.String, []string{"FAIL_CLOSE", "FAIL_OPEN"}},
		{"pluginName", source.String, nil},
		{"pluginConfig", source.Object, nil},
		{"defaultConfig", source.Object, nil},
		{"defaultConfigDisable", source.Bool, nil},
		{"matchRules", source.List, nil},
		{"vmConfig", source.Object, nil},
	}
	matchRuleFields = []field{
		{"ingress", source.List, nil},
		{"domain", source.List, nil},
		{"service", source.List, nil},
		{"config", source.Object, nil},
		{"configDisable", source.Bool, nil},
		{"routeType", source.String, []string{"HTTP", "GRPC"}},
	}
	istioFields = slices.Concat([]field{
		istioStrategy,
		{"selector", source.Object, nil},
		{"targetRef", source.Object, nil},
		{"targetRefs", source.List, nil},
		{"type", source.String, nil},
		{"match", source.List, nil},
	}, wasmPluginFields)
	extensionFields = []field{
		{"name", source.String, nil},
		{"rootID", source.String, nil},
		{"code", source.Object, nil},
		{"config", anyKind, nil},
		{"failOpen", source.Bool, nil},
		{"env", source.Object, nil},
	}
	istioStrategy = field{"failStrategy", source.String, []string{"FAIL_CLOSE", "FAIL_OPEN", "FAIL_RELOAD"}}
	envoyPolicy   = field{
		"failure_policy", source.String, []string{"UNSPECIFIED", "FAIL_RELOAD", "FAIL_CLOSED", "FAIL_OPEN"},
	}
)

// nameOfKind are kinds as messages have them.
var nameOfKind = map[source.Kind]string{
	source.Null: "null", source.Bool: "a boolean", source.Number: "a number", source.String: "a string",
	source.List: "a list", source.Object: "an object",
}

// wrong says what is wrong with the value of a field, "" for one that may be there.
func (f *field) wrong(n *source.Node) string {
	switch {
	case n == nil || n.Is(source.Null) || f.kind == anyKind:
		return ""
	case f.choices != nil && n.Is(source.String):
		if slices.Contains(f.choices, n.Text) {
			return ""
		}
		last := len(f.choices) - 1
		choices := strings.Join(f.choices[:last], ", ") + " or " + f.choices[last]
		return "got " + strconv.Quote(n.Text) + ", want " + choices
	case !n.Is(f.kind):
		return "got " + nameOfKind[n.Kind] + ", want " + nameOfKind[f.kind]
	}
	return ""
}

// value reports a field whose value is wrong.
func (c *checker) value(f *field, n *source.Node) {
	if what := f.wrong(n); what != "" {
		c.add("value", n.At, f.name+": "+what)
	}
}

// fields reports the keys of an object that are none of its fields, and the values that those do not have.
func (c *checker) fields(n *source.Node, known []field) {
	if !n.Is(source.Object) {
		return
	}
	for i, key := range n.Keys {
		at := slices.IndexFunc(known, func(f field) bool { return f.name == key.Name })
		if at >= 0 {
			c.value(&known[at], n.Items[i])
			continue
		}
		c.add("unknown-key", key.At, key.Name+": the resource has no such field, and Kubernetes drops it"+
			config.DidYouMean(key.Name, fieldNames(known)))
	}
}

func fieldNames(known []field) (list []string) {
	for _, f := range known {
		list = append(list, f.name)
	}
	return list
}

// fit reports whether all fields of a rule have values that they may have.
func fit(rule *source.Node) bool {
	for i := range matchRuleFields {
		if f := &matchRuleFields[i]; f.wrong(rule.Get(f.name)) != "" {
			return false
		}
	}
	return rule.Is(source.Object)
}

// specFields reports what a WasmPlugin does not have.
func (c *checker) specFields(spec *source.Node, known []field) {
	c.fields(spec, known)
	for i, rule := range spec.Get("matchRules").Elements() {
		c.value(&field{"matchRules[" + strconv.Itoa(i) + "]", source.Object, nil}, rule)
		c.fields(rule, matchRuleFields)
	}
}

// version reports a WasmPlugin of a group that Kubernetes does not have.
func (c *checker) version(n *source.Node) {
	const want = "extensions.higress.io/v1alpha1"
	if v := n.Get("apiVersion"); v != nil && v.String() != want && !isIstio(n) {
		c.add("value", v.At, "apiVersion: got "+strconv.Quote(v.Text)+", want "+want)
	}
}

// isIstio reports whether a WasmPlugin is one of Istio.
func isIstio(n *source.Node) bool {
	return strings.HasPrefix(n.Get("apiVersion").String(), "extensions.istio.io/")
}
