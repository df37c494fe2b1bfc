package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/lb/policy"
	"pgregory.net/rapid"
)

// plainPart is a part of a configuration for stock Envoy: the clusters that it names, "" for none.
type plainPart struct{ admin, engines, redis string }

func drawClusters(rt *rapid.T) plainPart {
	name := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(rt, label) }
	return plainPart{
		name("admin", "", "admin"), name("engines", "", "m1", "m2", "both"), name("redis", "", "r1", "r2", "both"),
	}
}

func (p plainPart) text(match string) string {
	list := []string{`"admin_cluster":"` + p.admin + `"`}
	if p.admin == "" {
		list[0] = `"endpoints":["10.0.0.1:80"]`
	}
	if p.engines != "" {
		list = append(list, `"metrics_cluster":"`+p.engines+`"`)
	}
	if p.redis != "" {
		list = append(list, `"redis_cluster":"`+p.redis+`"`)
	}
	return `{` + match + `"lb_policy":"prefix_cache","lb_config":{"envoy":{` + strings.Join(list, ",") + `}}}`
}

// The plugin's own clusters are those that any part in force names, so that requests to them are never balanced; the
// admin interface is polled if any part names it.
func TestOwnClusters(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		parts := rapid.SliceOfN(rapid.Custom(drawClusters), 1, 4).Draw(rt, "rules")
		var rules []string
		want := map[string]bool{}
		for i, p := range parts {
			text := p.text(fmt.Sprintf(`"_match_route_":["r%d"],`, i))
			if rapid.IntRange(0, 3).Draw(rt, "refused") == 0 {
				rules = append(rules, strings.Replace(text, "prefix_cache", "x", 1))
				continue
			}
			rules = append(rules, text)
			want[p.admin], want[p.engines], want[p.redis] = true, true, true
		}
		set, _ := Parse([]byte(rulesOf("", rules...)), Envoy)
		if set == nil {
			return // all are refused
		}
		for _, name := range []string{"admin", "m1", "m2", "r1", "r2", "both", "llm", ""} {
			if got := set.Owns(name); got != (want[name] && name != "") {
				rt.Fatalf("%v: %q is own: %v", rules, name, got)
			}
		}
		if source, ok := set.AdminSource(); ok != want["admin"] || ok && source.AdminCluster != "admin" {
			rt.Fatalf("%v: admin source %+v, %v", rules, source, ok)
		}
		if len(set.All())+len(set.Refusals()) != len(parts) {
			rt.Fatalf("%v: %d in force, %d refused", rules, len(set.All()), len(set.Refusals()))
		}
	})
}

// The configurations in force are listed once each, rules in their order and the global part last.
func TestAllIsInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPush(rt)
		var rules []string
		var want []int
		for i, limit := range p[:slots-1] {
			rules = append(rules, ruleFor(fmt.Sprintf(`"_match_route_":["r%d"]`, i), limit))
			if limit >= 0 {
				want = append(want, i+1)
			}
		}
		set, _ := Parse([]byte(rulesOf(globalCap, rules...)), Higress)
		var got []int
		for _, c := range set.All() {
			got = append(got, c.ID)
		}
		if !slices.Equal(got, append(want, 0)) {
			rt.Fatalf("%v: %v in force, want %v and 0", p, got, want)
		}
	})
}

// changesScraping are the keys of which a change discards the samples of engines, because other metrics or endpoints
// are read. All other keys can change without that.
var changesScraping = []string{
	keyMetricsEngine, keyMetricsPath, keyMetricsPort, "lb_config.metrics.interval", "lb_config.metric_policy",
	"lb_config.target_metric", keyEngine, keyMetricsCluster, "lb_config.envoy.endpoints", keyService, keyTunnel,
	keyStore, keyRanks,
}

// otherValues has what must be written beside a key, or for the key itself in the configuration before the change.
var otherValues = map[string]member{
	"lb_config.envoy.endpoints":     {"lb_config.envoy.endpoints", `["10.0.0.9:80"]`},
	"lb_config.envoy.admin_cluster": {"lb_config.envoy.admin_cluster", `"other"`},
	keyMetricsCluster:               {keyMetricsCluster, `"other"`},
	keyStore:                        {keyStore, `"redis"`},
	"lb_config.metric_policy":       {"lb_config.target_metric", `"m"`},
}

// The MetricsID differs exactly between configurations that scrape differently.
func TestMetricsID(t *testing.T) {
	for i := range keys {
		k := &keys[i]
		if k.Field == nil && k.set == nil || k.Name == "lb_policy" || k.Name == "enabled" ||
			k.policy() == "cluster_metrics" || isAPIKey(k.Name) {
			continue
		}
		before := needed(k)
		before[0].value = `"endpoint_metrics"`
		engines := func(m member) bool { return m.name == keyMetricsCluster }
		if k.host() == Envoy && k.Name != keyMetricsCluster && !slices.ContainsFunc(before, engines) {
			before = append(before, member{keyMetricsCluster, `"engines"`})
		}
		if m, ok := otherValues[k.Name]; ok {
			before = append(before, m)
		}
		after := slices.DeleteFunc(slices.Clone(before), func(m member) bool { return m.name == k.Name })
		after = append(after, member{k.Name, sample(k)})
		a := mustParse(t, []byte(writeConfig(before...)), k.host())
		b := mustParse(t, []byte(writeConfig(after...)), k.host())
		if changed := a.MetricsID() != b.MetricsID(); changed != slices.Contains(changesScraping, k.Name) {
			t.Errorf("%s and %s scrape differently: %v", writeConfig(before...), writeConfig(after...), changed)
		}
		if again := mustParse(t, []byte(writeConfig(after...)), k.host()); again.MetricsID() != b.MetricsID() {
			t.Errorf("%s: the id is not the same for the same text", k.Name)
		}
	}
	for _, name := range policiesFor(policy.Endpoints) {
		d := policy.Describe(name)
		list := append(policyNeeds(name), member{"lb_policy", `"` + name + `"`})
		c := mustParse(t, []byte(writeConfig(list...)), Higress)
		if (c.MetricsID() != 0) != (d.Needs.Metrics != policy.NoMetrics) {
			t.Errorf("%s scrapes, with the id %d", d.Name, c.MetricsID())
		}
	}
}
