package lint

import (
	"maps"
	"slices"

	"github.com/warmgate/warmgate/cmd/warmgate/internal/source"
	"github.com/warmgate/warmgate/plugin/config"
)

// gateways are those that the chart is for.
var gateways = []string{"higress", "istio", "envoy-gateway"}

// isValues reports whether an object has values of the chart.
func isValues(n *source.Node) bool {
	if isOfEnvoy(n) {
		return false
	}
	gateway := n.Get("gateway").String()
	known := slices.Contains(gateways, gateway) || config.DidYouMean(gateway, gateways) != ""
	return known || isConfiguration(orEmpty(n.Get("config"))) ||
		n.Find("higress", "matchRules") != nil
}

func orEmpty(n *source.Node) *source.Node {
	if n == nil {
		return &source.Node{Kind: source.Object}
	}
	return n
}

// values checks values of the Helm chart, each by the chart's schema, and the plugin's configuration in them. What does
// not fit together, and values of the command line, Helm alone knows.
func (c *checker) values(n *source.Node) {
	c.bySchema(n)
	gateway := n.Get("gateway")
	redis := n.Get("redis")
	if password := redis.Get("password"); isTrue(redis.Get("enabled")) && config.IsPlaceholder(password.String()) {
		c.warn("secret", password.At, "redis.password: is a placeholder that everybody knows: replace it")
	}
	if registry := n.Find("image", "registry"); registry.String() != "" {
		c.registry(registry)
	}
	rules := n.Find("higress", "matchRules")
	if gateway.String() == "higress" || gateway.String() == "" && len(rules.Elements()) > 0 {
		c.valuesOfHigress(n.Get("config"), rules)
		return
	}
	if len(rules.Elements()) > 0 {
		c.warn("no-effect", n.Get("higress").KeyAt("matchRules"), "higress.matchRules is for gateway: higress; on "+
			gateway.String()+", write rules into config._rules_")
	}
	if settings := n.Get("config"); settings.Is(source.Object) && len(settings.Keys) > 0 {
		c.object(withEnvoy(settings, n), config.Envoy)
	} else {
		c.Configurations++ // that of the chart
	}
}

// registry warns of the registry of an example, which the chart refuses.
func (c *checker) registry(n *source.Node) {
	if placeholder.MatchString(n.Text + "/") {
		c.warn("placeholder", n.At, "image.registry: got an example, which the chart refuses; want the registry "+
			"that you have pushed the images to")
	}
}

// valuesOfHigress checks the configuration that the chart's WasmPlugin has.
func (c *checker) valuesOfHigress(settings, rules *source.Node) {
	spec := &source.Node{Kind: source.Object}
	if settings.Is(source.Object) && len(settings.Keys) > 0 {
		spec.Add(source.Key{Name: "defaultConfig", At: settings.At}, settings)
	} else {
		off := &source.Node{Kind: source.Bool, Text: "true"}
		spec.Add(source.Key{Name: "defaultConfigDisable"}, off)
	}
	if len(rules.Elements()) > 0 {
		spec.Add(source.Key{Name: "matchRules", At: rules.At}, rules)
		if settings.Get("_rules_") != nil {
			c.add("conflict", settings.KeyAt("_rules_"), "config._rules_ has no effect beside higress.matchRules, "+
				"which takes its place: write all rules there")
			return
		}
	}
	if made, ok := c.ofHigress(spec, spec); ok {
		c.object(made, config.Higress)
	} else {
		c.Configurations++ // none yet
	}
}

// withEnvoy returns a configuration with what the chart fills in on Istio and Envoy Gateway: each part with a policy
// gets the clusters that the chart makes.
func withEnvoy(settings, values *source.Node) *source.Node {
	made := *settings
	made.Keys, made.Items = slices.Clone(settings.Keys), slices.Clone(settings.Items)
	for i, key := range made.Keys {
		if key.Name == "_rules_" && made.Items[i].Is(source.List) {
			rules := *made.Items[i]
			rules.Items = nil
			for _, rule := range made.Items[i].Items {
				rules.Items = append(rules.Items, partWithEnvoy(rule, values))
			}
			made.Items[i] = &rules
		}
	}
	return partWithEnvoy(&made, values)
}

// partWithEnvoy is withEnvoy for a rule, or for what is no rule.
func partWithEnvoy(part, values *source.Node) *source.Node {
	if part.Get("lb_policy") == nil {
		return part
	}
	made := *part
	made.Keys, made.Items = slices.Clone(part.Keys), slices.Clone(part.Items)
	section := made.Get("lb_config")
	if section == nil {
		section = &source.Node{Kind: source.Object, At: part.At}
		made.Add(source.Key{Name: "lb_config", At: part.At}, section)
	}
	if section.Is(source.Object) {
		i := slices.IndexFunc(made.Keys, func(k source.Key) bool { return k.Name == "lb_config" })
		made.Items[i] = filledIn(section, values)
	}
	return &made
}

// filledIn returns lb_config with the keys that the chart adds to it, where they are left open.
func filledIn(section, values *source.Node) *source.Node {
	made := *section
	made.Keys, made.Items = slices.Clone(section.Keys), slices.Clone(section.Items)
	envoy := &source.Node{Kind: source.Object, At: section.At}
	at := slices.IndexFunc(made.Keys, func(k source.Key) bool { return k.Name == "envoy" })
	switch {
	case at < 0:
		at = len(made.Keys)
		made.Add(source.Key{Name: "envoy", At: section.At}, envoy)
	case !made.Items[at].Is(source.Object):
		return section
	default:
		envoy.Keys, envoy.Items = slices.Clone(made.Items[at].Keys), slices.Clone(made.Items[at].Items)
	}
	added := map[string]string{"admin_cluster": "prometheus_stats", "metrics_cluster": "warmgate-metrics"}
	if envoy.Get("endpoints") != nil {
		delete(added, "admin_cluster")
	}
	if off := values.Find("metrics", "enabled"); off.Is(source.Bool) && off.Text == "false" {
		delete(added, "metrics_cluster")
	}
	if isTrue(values.Find("redis", "enabled")) {
		added["redis_cluster"] = "warmgate-redis"
	}
	for _, name := range slices.Sorted(maps.Keys(added)) {
		if envoy.Get(name) == nil {
			value := &source.Node{Kind: source.String, Text: added[name], At: envoy.At}
			envoy.Add(source.Key{Name: name, At: envoy.At}, value)
		}
	}
	made.Items[at] = envoy
	return &made
}
