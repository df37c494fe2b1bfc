package core

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
)

// twoLists has two rules that go by metrics and list endpoints of their own, one of them in both lists.
const twoLists = `{"_rules_":[
	{"_match_domain_":["a"],"lb_policy":"endpoint_metrics",
		"lb_config":{"envoy":{"metrics_cluster":"m","endpoints":["10.0.0.1:80","10.0.0.2:80"]}}},
	{"_match_domain_":["b"],"lb_policy":"endpoint_metrics",
		"lb_config":{"envoy":{"metrics_cluster":"m","endpoints":["10.0.0.3:80","10.0.0.2:80"]}}}]}`

// Engines are scraped whichever rule lists them, and their samples are not dropped because another does not.
func TestEnginesOfAllListsAreScraped(t *testing.T) {
	p := newFakeProcess(t, 0)
	p.view = &lb.View{}
	v := p.main.vm
	v.env.kind = config.Envoy
	in, ok := v.configure("two lists", []byte(twoLists), config.Envoy)
	if !ok || in.set == nil {
		t.Fatalf("refused: %v", p.log)
	}
	p.pages = map[string]string{}
	for i := range 4 {
		p.pages[fmt.Sprintf("10.0.0.%d:80", 1+i)] = vllmPage(i)
	}
	for rule := range 2 {
		v.need(t, fakeCluster, rule)
	}
	v.scraping.demand.announce(p.now)
	for range 3 {
		p.now += scrapeEvery
		v.scraping.scrapeDue(p.now)
		v.scraping.publishSamples(p.now)
		v.scraping.refreshSamples(p.now)
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

// A cluster with many rules keeps the policy of each, and of no other configuration.
func TestPoliciesOfManyRules(t *testing.T) {
	var list []string
	for i := range 64 {
		const rule = `{"_match_domain_":["d%d"],"lb_policy":"global_least_request","lb_config":{"max_inflight":%d}}`
		list = append(list, fmt.Sprintf(rule, i, 10+i))
	}
	d := startFake(t, 1, 2, `{"_rules_":[`+strings.Join(list, ",")+`]}`)
	v := d.workers[0].vm
	made := map[lb.Policy]bool{}
	for range 3 {
		for _, c := range v.Newest().set.All() {
			_, p, err := v.clusters.get(v.now(), fakeCluster, c)
			if err != nil {
				t.Fatal(err)
			}
			made[p] = true
		}
		d.advance(2 * heartbeatPeriod)
	}
	if len(made) != 64 {
		t.Errorf("%d policies were made for 64 rules", len(made))
	}
	if !d.configure(`{"lb_policy":"global_least_request"}`) {
		t.Fatal("refused")
	}
	d.advance(2 * heartbeatPeriod)
	if n := len(v.clusters[fakeCluster].policies); n != 0 {
		t.Errorf("%d policies of rules that have gone are kept", n)
	}
}

// Tokens are counted under a rule that counts requests only while another that is in force needs them.
func TestTokensAreCountedWhileNeeded(t *testing.T) {
	d := startFake(t, 1, 2, `{"lb_policy":"global_least_request","lb_config":{"unit":"tokens"}}`)
	d.serve(0, 200)
	v := d.workers[0].vm
	if !v.clusters[fakeCluster].tokens {
		t.Error("tokens are not counted")
	}
	if !d.configure(requestsConfig) {
		t.Fatal("refused")
	}
	d.advance(2 * heartbeatPeriod)
	if v.clusters[fakeCluster].tokens {
		t.Error("tokens are counted although no rule in force does")
	}
}

// What was in flight under a configuration that has gone is shown until it has ended.
func TestGaugesOutliveAConfiguration(t *testing.T) {
	d := startFake(t, 1, 2, `{"lb_policy":"global_least_request","lb_config":{"unit":"tokens"}}`)
	c := d.client(0, streamtest.Request{Frames: []string{`{"prompt":"hello"}`}})
	d.advance(2 * heartbeatPeriod) // a VM keeps what it has shown
	gauge := func(stat string) uint64 {
		d.advance(2 * heartbeatPeriod)
		return d.Gauge(stat+labels(fakeCluster, d.Addr(0))) + d.Gauge(stat+labels(fakeCluster, d.Addr(1)))
	}
	if !d.configure(requestsConfig) {
		t.Fatal("refused")
	}
	if n, tokens := gauge(statInflight), gauge(statTokens); n != 1 || tokens == 0 {
		t.Errorf("%d requests and %d tokens are shown in flight, want 1 and its tokens", n, tokens)
	}
	c.Head(200)
	c.Finish()
	if n, tokens := gauge(statInflight), gauge(statTokens); n != 0 || tokens != 0 {
		t.Errorf("%d requests and %d tokens are shown in flight, want 0", n, tokens)
	}
}
