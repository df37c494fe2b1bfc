package shipped

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/higresshost"
)

const (
	budgetFile    = "warmgate-budget.yaml"
	higressBudget = "higress-wasmplugin-budget.yaml"
)

// TestBudgetConfiguration compares warmgate-budget.yaml with warmgate.yaml, with the clusters of sites.yaml, and with
// what the hardened layout removes from clients' requests. e2e/among runs it.
func TestBudgetConfiguration(t *testing.T) {
	c := samePlugin(t, budgetFile)
	b := c.Budget()
	if b == nil || !b.Tenants.Limited() || !c.Queue.Enabled() {
		t.Fatalf("%+v", c)
	}
	var names []string
	for _, cluster := range find[[]struct{ Name string }](t, parse(t, "envoy-config/sites.yaml"), "clusters") {
		names = append(names, cluster.Name)
	}
	if !slices.Equal(names, c.Clusters.List) || !slices.Equal(names, b.Names()) {
		t.Errorf("the targets are %v, the clusters are %v", b.Names(), names)
	}
	removed := find[[]map[string]string](t, parse(t, "envoy-config/envoy-hardened.yaml"), harness.ManagerPath+
		".early_header_mutation_extensions[0].typed_config.mutations")
	if !strings.Contains(strings.Join(values(removed), " "), b.Tenants.Header) {
		t.Errorf("the hardened layout does not remove %s from what clients send", b.Tenants.Header)
	}
}

// TestBudgetInHigress runs the shipped WasmPlugin in the test host of Higress: requests are shared out by weight, and a
// consumer that has used up its budget is refused.
func TestBudgetInHigress(t *testing.T) {
	resource, set := wasmPlugin(t, higressBudget)
	text, err := resource.PluginConfig()
	if err != nil {
		t.Fatal(err)
	}
	gw := higresshost.Start(t, higresshost.Options{
		Wasm: harness.ModuleT(t, harness.HostHigress), Config: string(text), Route: chatRoute,
		Cluster: "outbound|443||default.dns", Workers: 2, ClusterHeader: chat(t, set).Clusters.Header,
	})
	c := chat(t, set)
	const small, large = "10.0.0.1:443", "10.0.0.2:443"
	gw.Cluster("outbound|443||claude.dns").Add(small)
	gw.Cluster("outbound|443||gpt-4o-mini.dns").Add(large)
	send := func(worker int, consumer string) *higresshost.Stream {
		s := gw.Worker(worker).NewStream()
		s.Send(http.MethodPost, "/v1/completions", `{"prompt":"x"}`, c.Budget().Tenants.Header, consumer)
		return s
	}
	to := map[string]int{}
	for i := range 8 {
		s := send(i%2, "a")
		to[s.Upstream()]++
		s.Respond(http.StatusOK, `{"usage":{"prompt_tokens":9000,"completion_tokens":1000}}`)
	}
	if to[small] != 2 || to[large] != 6 {
		t.Errorf("requests went to %v", to)
	}
	refused := send(1, "a")
	for range 8 { // of 100,000 tokens a minute, 80,000 were used
		if refused.Ended {
			break
		}
		refused.Respond(http.StatusOK, `{"usage":{"prompt_tokens":9000,"completion_tokens":1000}}`)
		refused = send(1, "a")
	}
	if got := refused.Received; refused.Code != http.StatusTooManyRequests ||
		!strings.Contains(string(got.Body), "tenant_over_budget") {
		t.Errorf("the consumer that is over its budget: %d %s", refused.Code, got.Body)
	}
	other := send(0, "b")
	if gw.Advance(10 * time.Millisecond); !other.OnUpstream {
		t.Errorf("another consumer: %d", other.Code)
	}
	priced := gw.Worker(0).NewStream()
	priced.Send(http.MethodPost, "/v1/completions", `{"model":"gpt-4o-mini","prompt":"x"}`, c.Budget().Tenants.Header, "c")
	priced.Respond(http.StatusOK, `{"usage":{"prompt_tokens":1000,"completion_tokens":100,`+
		`"prompt_tokens_details":{"cached_tokens":600}}}`)
	gw.Advance(2 * time.Second)
	const cost = "warmgate_cost_nano_total;model=gpt-4o-mini;tenant=c;currency=USD"
	if n := gw.Metrics().Counter(cost); n != 400*150+600*75+100*600 {
		t.Errorf("a request that was answered costs %d", n)
	}
}
