package helm

import (
	"reflect"
	"strings"
	"testing"

	autoscaling "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/yaml"

	"github.com/warmgate/warmgate/e2e/harness"
)

// forObservability are the resources beside those of the gateways.
var forObservability = []string{
	"observability/podmonitor-higress.yaml", "observability/podmonitor-istio.yaml",
	"observability/podmonitor-envoy-gateway.yaml", "observability/servicemonitor.yaml",
	"observability/prometheusrule.yaml", "observability/keda.yaml",
}

// watched is what the chart makes for observability alone.
func watched(t *testing.T, values string) (list []resource) {
	t.Helper()
	for _, r := range rendered(t, values) {
		switch r["kind"] {
		case "PodMonitor", "PrometheusRule", "ScaledObject":
			list = append(list, r)
		}
	}
	return list
}

// TestObservabilityAsShipped checks that with the values switched on, and no others, the chart makes what is in
// deploy/observability, and nothing of it without.
func TestObservabilityAsShipped(t *testing.T) {
	const on = "observability: {podMonitor: {enabled: true}, rules: {enabled: true}, " +
		"keda: {enabled: true, cluster: llm}}\n"
	for gateway, more := range map[string]string{
		"higress": "higress: {matchRules: [{ingress: [a], config: {lb_policy: prefix_cache}}]}\n",
		"istio":   "", "envoy-gateway": "",
	} {
		values := "gateway: " + gateway + "\n" + more
		if list := watched(t, values); len(list) > 0 {
			t.Errorf("%s: without the values there are\n%s", gateway, texts(t, list))
		}
		list := watched(t, values+on)
		// The namespace is where kube-prometheus-stack looks for rules by default.
		delete(find(t, list, "PrometheusRule", "warmgate")["metadata"].(map[string]any), "namespace")
		files := []string{
			"observability/podmonitor-" + gateway + ".yaml", "observability/prometheusrule.yaml",
			"observability/keda.yaml",
		}
		for _, r := range shipped(t, files) {
			name := at(t, r, "metadata", "name").(string)
			if got := find(t, list, r["kind"].(string), name); texts(t, []resource{got}) != texts(t, []resource{r}) {
				t.Errorf("%s: got\n%s\nwant\n%s", gateway, texts(t, []resource{got}), texts(t, []resource{r}))
			}
		}
	}
}

// TestObservabilityValues checks that each value reaches its resource.
func TestObservabilityValues(t *testing.T) {
	const values = `observability:
  labels: {release: null, team: llm}
  podMonitor: {enabled: true, namespace: edge, interval: 5s}
  rules: {enabled: true, namespace: watch, ttftTarget: 2.5}
  keda: {enabled: true, namespace: models, deployment: engines, cluster: "outbound|8000||engines.models",
    prometheus: "http://prom:9090", minReplicas: 0, maxReplicas: 3}
`
	list := watched(t, "gateway: istio\nistio: {selector: {istio: null, gateway: llm}}\n"+values)
	monitor := find(t, list, "PodMonitor", "warmgate-istio")
	want(t, monitor, "edge", "metadata", "namespace")
	want(t, monitor, map[string]any{"team": "llm"}, "metadata", "labels")
	want(t, monitor, map[string]any{"gateway": "llm"}, "spec", "selector", "matchLabels")
	want(t, monitor, "5s", "spec", "podMetricsEndpoints", 0, "interval")
	rule := find(t, list, "PrometheusRule", "warmgate")
	want(t, rule, "watch", "metadata", "namespace")
	want(t, rule, map[string]any{"team": "llm"}, "metadata", "labels")
	want(t, rule, "vector(2.5)", "spec", "groups", 0, "rules", 0, "expr")
	scaled := find(t, list, "ScaledObject", "engines")
	want(t, scaled, "models", "metadata", "namespace")
	want(t, scaled, "engines", "spec", "scaleTargetRef", "name")
	want(t, scaled, 0, "spec", "minReplicaCount")
	want(t, scaled, 3, "spec", "maxReplicaCount")
	want(t, scaled, "http://prom:9090", "spec", "triggers", 2, "metadata", "serverAddress")
	for i := range 2 {
		query := at(t, scaled, "spec", "triggers", i, "metadata", "query").(string)
		if !strings.Contains(query, `{cluster="outbound|8000||engines.models"}`) {
			t.Errorf("the query is %s", query)
		}
	}
	// With Redis all gateways show one queue.
	shared := find(t, watched(t, "gateway: istio\nredis: {enabled: true}\n"+values), "ScaledObject", "engines")
	want(t, shared, `sum(max by (class) (avg_over_time(warmgate_queue_length{`+
		`cluster="outbound|8000||engines.models"}[1m])))`, "spec", "triggers", 0, "metadata", "query")
	proxies := find(t, watched(t, "gateway: envoy-gateway\nenvoyGateway: {namespace: edge, name: llm}\n"+
		"observability: {podMonitor: {enabled: true}}"), "PodMonitor", "warmgate-envoy-gateway")
	want(t, proxies, map[string]any{
		"gateway.envoyproxy.io/owning-gateway-name":      "llm",
		"gateway.envoyproxy.io/owning-gateway-namespace": "edge",
	}, "spec", "selector", "matchLabels")
	want(t, proxies, "envoy-gateway-system", "metadata", "namespace")

	refusal(t, "gateway: istio\nobservability: {keda: {enabled: true}}", "observability.keda.cluster names")
	refusal(t, "gateway: istio\nobservability: {keda: {enabled: true, cluster: a, minReplicas: 9}}", "minReplicas is 9")
	refusal(t, "gateway: istio\nobservability: {rules: {enabled: true, ttftTarget: 0}}", "ttftTarget")
	refusal(t, "gateway: istio\nobservability: {labels: {a: b}}", "observability.labels has no effect")
}

// TestAutoscaler checks the resource for Kubernetes's own autoscaler by its types.
func TestAutoscaler(t *testing.T) {
	var a autoscaling.HorizontalPodAutoscaler
	text := harness.ReadT(t, "deploy/observability/hpa.yaml")
	if err := yaml.UnmarshalStrict(text, &a); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range a.Spec.Metrics {
		names = append(names, m.External.Metric.Name)
	}
	if want := []string{"warmgate_queue_length", "warmgate_inflight_requests"}; !reflect.DeepEqual(names, want) {
		t.Errorf("it goes by %v", names)
	}
	var adapter struct {
		Rules struct {
			External []struct {
				SeriesQuery, MetricsQuery string
				Name                      struct{ As string }
				Resources                 struct{ Namespaced bool }
			}
		}
	}
	text = harness.ReadT(t, "deploy/observability/prometheus-adapter.yaml")
	if err := yaml.UnmarshalStrict(text, &adapter); err != nil {
		t.Fatal(err)
	}
	for i, r := range adapter.Rules.External {
		if r.Name.As != names[i] {
			t.Errorf("the adapter has %s in place of %s", r.Name.As, names[i])
		}
	}
}
