package engines

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/plugin/config"
)

// twoLists has two rules that go by metrics and list endpoints of their own, one of them in both lists.
const twoLists = `{"_rules_":[
	{"_match_domain_":["a"],"lb_policy":"endpoint_metrics",
		"lb_config":{"envoy":{"metrics_cluster":"m","endpoints":["10.0.0.1:80","10.0.0.2:80"]}}},
	{"_match_domain_":["b"],"lb_policy":"endpoint_metrics",
		"lb_config":{"envoy":{"metrics_cluster":"m","endpoints":["10.0.0.3:80","10.0.0.2:80"]}}}]}`

// Engines are scraped whichever rule lists them, and their samples are not dropped because another rule does not list
// them.
func TestEnginesOfAllListsAreScraped(t *testing.T) {
	p, vms := demandingVMs(t, 1, metricsConfig)
	v := vms[0]
	v.Env.Kind = config.Envoy
	if !p.configure(twoLists) {
		t.Fatal("refused")
	}
	p.pages = map[string]string{}
	for i := range 4 {
		p.pages[fmt.Sprintf("10.0.0.%d:80", 1+i)] = vllmPage(i)
	}
	for rule := range 2 {
		v.need(fakeCluster, rule)
	}
	v.demand.announce(p.now)
	for range 3 {
		p.now += time.Second
		v.scrapeDue(p.now)
		v.publishSamples(p.now)
		v.refreshSamples(p.now)
	}
	var known []string
	for addr := range p.published() {
		known = append(known, addr)
	}
	slices.Sort(known)
	if want := []string{"10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"}; !slices.Equal(known, want) {
		t.Errorf("metrics of %v are known, want those of %v", known, want)
	}
}
