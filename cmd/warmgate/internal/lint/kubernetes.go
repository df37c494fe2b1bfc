package lint

import (
	"slices"
	"strconv"
	"strings"

	"github.com/warmgate/warmgate/cmd/warmgate/internal/source"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/plugin/config"
)

// isTrue reports whether a switch is on, which may be missing.
func isTrue(n *source.Node) bool { return n.Is(source.Bool) && n.Text == "true" }

// wasmPlugin checks a WasmPlugin, of Higress or of Istio.
func (c *checker) wasmPlugin(n *source.Node) {
	spec := n.Get("spec")
	ours := isOurs(spec.Get("defaultConfig"), spec.Get("url"), n.Find("metadata", "name")) ||
		isOurs(spec.Get("pluginConfig"))
	for _, rule := range spec.Get("matchRules").Elements() {
		ours = ours || isOurs(rule.Get("config"))
	}
	other := isOther(n)
	c.other = c.other || other
	if !ours || !spec.Is(source.Object) || other {
		return
	}
	if n.Get("$patch") != nil { // which takes it away
		c.Configurations++
		return
	}
	c.version(n)
	if isIstio(n) {
		c.specFields(spec, istioFields)
		c.image(spec.Get("url"), config.Envoy)
		c.warn("late-body", n.KeyAt("kind"), "Istio's WasmPlugin has no field for allow_on_headers_stop_iteration: "+
			"each request whose body decides waits for body_timeout; want an EnvoyFilter, as "+
			"deploy/istio/warmgate.yaml")
		c.inResource(spec, "pluginConfig", config.Envoy)
		return
	}
	if spec.Get("url") == nil {
		c.patch(n)
		return
	}
	c.specFields(spec, wasmPluginFields)
	c.image(spec.Get("url"), config.Higress)
	if s := spec.Get("failStrategy"); s == nil || s.String() == "FAIL_CLOSE" {
		at := n.KeyAt("spec")
		if s != nil {
			at = s.At
		}
		c.warn("fail-closed", at, "failStrategy: with FAIL_CLOSE, the default, requests are answered 503 while "+
			"the module cannot be loaded; want FAIL_OPEN")
	}
	settings, ok := c.ofHigress(n, spec)
	if !ok {
		c.Configurations++ // which is switched off
		return
	}
	c.chain(spec, c.object(settings, config.Higress))
}

// isOther reports whether a WasmPlugin with our keys is another: ai-load-balancer, or one that is not called as this is
// and has a policy that is not like any of this.
func isOther(n *source.Node) bool {
	spec := n.Get("spec")
	url, name := spec.Get("url"), n.Find("metadata", "name")
	if url == nil || isOurs(nil, url) {
		return false
	}
	own := spec.Find("defaultConfig", "lb_policy").String()
	return strings.Contains(url.String(), "ai-load-balancer") || !isOurs(nil, name) && own != "" &&
		policy.Describe(own).Name == "" && config.DidYouMean(own, policy.Names()) == "" &&
		spec.Find("defaultConfig", "lb_config") == nil
}

// chain warns of a place in the chain of plugins in which the choice has no effect.
func (c *checker) chain(spec *source.Node, set *config.Set) {
	if set == nil || spec.Get("phase").String() == "AUTHN" {
		return
	}
	for _, p := range parts(set) {
		if p.Enabled && (p.AmongClusters() || p.Regions.Enabled()) {
			c.warn("place", spec.KeyAt("phase"), "phase: what chooses among clusters or regions runs before ai-proxy; "+
				"want phase AUTHN and priority 300")
			return
		}
	}
}

// ofHigress returns the configuration that Higress makes of a WasmPlugin, false if it makes none.
func (c *checker) ofHigress(n, spec *source.Node) (*source.Node, bool) {
	whole := &source.Node{Kind: source.Object, At: n.KeyAt("spec")}
	if first := spec.Get("defaultConfig"); first != nil && !isTrue(spec.Get("defaultConfigDisable")) {
		if !first.Is(source.Object) {
			return nil, false // which is said of the field
		}
		whole.At = first.At
		whole.Keys, whole.Items = append(whole.Keys, first.Keys...), append(whole.Items, first.Items...)
	}
	rules := &source.Node{Kind: source.List, At: spec.KeyAt("matchRules")}
	left := false
	for _, rule := range spec.Get("matchRules").Elements() {
		switch {
		case !fit(rule): // which is said of its fields
			left = true
		case !isTrue(rule.Get("configDisable")):
			rules.Items = append(rules.Items, ruleOf(rule))
		}
	}
	if left && len(rules.Items)+len(whole.Items) == 0 {
		return nil, false
	}
	if len(rules.Items) > 0 {
		whole.Add(source.Key{Name: "_rules_", At: rules.At}, rules)
	}
	return whole, len(rules.Items) > 0 || !isTrue(spec.Get("defaultConfigDisable"))
}

// ruleOf returns the rule that Higress makes of one of matchRules.
func ruleOf(rule *source.Node) *source.Node {
	made := &source.Node{Kind: source.Object, At: rule.At}
	for i, key := range rule.Keys {
		condition := map[string]string{
			"ingress": "_match_route_", "domain": "_match_domain_", "service": "_match_service_",
		}[key.Name]
		if value := rule.Items[i]; condition != "" && !value.Is(source.Null) {
			made.Add(source.Key{Name: condition, At: key.At}, value)
		}
	}
	if settings := rule.Get("config"); settings.Is(source.Object) {
		made.Keys, made.Items = append(made.Keys, settings.Keys...), append(made.Items, settings.Items...)
	}
	return made
}

// ofPatches are the kinds of findings about what a patch has. Others are about what it may leave to what it patches.
var ofPatches = []string{"syntax", "unknown-key", "duplicate", "value", "match", "secret", "seconds", "taken-as"}

// patch checks a patch of a WasmPlugin: what is there.
func (c *checker) patch(n *source.Node) {
	spec := n.Get("spec")
	c.specFields(spec, wasmPluginFields)
	c.image(spec.Get("url"), config.Higress)
	if settings, ok := c.ofHigress(n, spec); ok && len(settings.Keys) > 0 {
		before := len(c.Findings)
		c.object(settings, config.Higress)
		missed := func(f Finding) bool { return !slices.Contains(ofPatches, f.Kind) }
		c.Findings = append(c.Findings[:before], slices.DeleteFunc(c.Findings[before:], missed)...)
	} else {
		c.Configurations++ // which stays as it is
	}
}

// isPatch reports whether an object is a patch of a WasmPlugin that is the plugin.
func isPatch(n *source.Node) bool {
	return len(n.Keys) == 1 && strings.Contains(n.Find("spec", "url").String(), "warmgate-")
}

// extensionPolicy checks an EnvoyExtensionPolicy of Envoy Gateway.
func (c *checker) extensionPolicy(n *source.Node) {
	for i, wasm := range n.Find("spec", "wasm").Elements() {
		image := wasm.Get("code").Find("image", "url")
		if image == nil {
			image = wasm.Get("code").Find("http", "url")
		}
		if !isOurs(wasm.Get("config"), wasm.Get("name"), wasm.Get("rootID"), image) {
			continue
		}
		c.fields(wasm, extensionFields)
		c.image(image, config.Envoy)
		if open := wasm.Get("failOpen"); !isTrue(open) && (open == nil || open.Is(source.Bool)) {
			c.warn("fail-closed", wasm.KeyAt("failOpen"), "spec.wasm["+strconv.Itoa(i)+"].failOpen: if it is not "+
				"true, requests are answered 500 while the module cannot be fetched; want failOpen: true")
		}
		c.inResource(wasm, "config", config.Envoy)
	}
}

// trafficExtension checks a TrafficExtension of Istio.
func (c *checker) trafficExtension(n *source.Node) {
	wasm := n.Find("spec", "wasm")
	if !isOurs(wasm.Get("pluginConfig"), wasm.Get("url"), wasm.Get("pluginName")) {
		return
	}
	c.image(wasm.Get("url"), config.Envoy)
	c.value(&istioStrategy, wasm.Get("failStrategy"))
	if strategy := wasm.Get("failStrategy"); strategy.String() == "FAIL_CLOSE" {
		c.warn("fail-closed", strategy.At, "failStrategy: requests are refused while the plugin cannot run; "+
			"want FAIL_RELOAD")
	}
	if set := c.inResource(wasm, "pluginConfig", config.Envoy); readsBodies(set) {
		c.warn("late-body", wasm.KeyAt("pluginConfig"), "TrafficExtension has no field for "+
			"allow_on_headers_stop_iteration: each request waits for body_timeout, and is decided without its body; "+
			"want an EnvoyFilter, as deploy/istio/warmgate.yaml")
	}
}

// inResource checks the configuration in a field of a resource.
func (c *checker) inResource(n *source.Node, field string, host config.Host) *config.Set {
	settings := n.Get(field)
	if settings == nil {
		settings = &source.Node{Kind: source.Object, At: n.At}
	}
	return c.object(settings, host)
}
