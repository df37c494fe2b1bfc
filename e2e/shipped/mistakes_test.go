package shipped

import (
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/higresshost"
	"github.com/warmgate/warmgate/plugin/config/configtest"
)

// TestMistakesInHigress pushes what users write by mistake to a running gateway in which the route is only watched, as
// the configuration of that route in the shipped resource: what is refused changes nothing, it is still only watched.
func TestMistakesInHigress(t *testing.T) {
	const route, cluster = "completions", "outbound|8000||vllm.default.svc.cluster.local"
	config := func(text string) string {
		r, _ := resource(t, harness.ReadT(t, whole))
		rule := &r.Spec.MatchRules[len(r.Spec.MatchRules)-1]
		rule.Ingress, rule.Domain, rule.Service, rule.Config = []string{route}, nil, nil, nil
		if err := yaml.Unmarshal([]byte(text), &rule.Config); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		r.Spec.MatchRules = r.Spec.MatchRules[len(r.Spec.MatchRules)-1:]
		raw, err := r.PluginConfig()
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	gw := higresshost.Start(t, higresshost.Options{
		Wasm:   harness.ModuleT(t, harness.HostHigress),
		Config: config("lb_policy: global_least_request\nlb_config: {shadow: true}\n"),
	})
	gw.Cluster(cluster).Add("10.0.0.1:8000")
	gw.Cluster(cluster).Add("10.0.0.2:8000")
	gw.Advance(2 * time.Second)
	pushed := 0
	for _, m := range configtest.Mistakes(t, "higress") {
		if m.Verdict != "refused" || strings.Contains(m.Text, "_rules_") {
			continue
		}
		pushed++
		_ = gw.PushConfig(config(m.Text)) // the gateway may refuse it
		gw.Advance(time.Second)
		if _, note := answers(gw, route, cluster, "api.example.com"); !strings.Contains(note, "reason=shadow") {
			t.Errorf("%s\nthe next request has %q", m.Text, note)
		}
	}
	if pushed < 20 {
		t.Errorf("only %d mistakes", pushed)
	}
	if err := gw.PushConfig(config("lb_policy: global_least_request\n")); err != nil {
		t.Error(err)
	}
	gw.Advance(time.Second)
	if _, note := answers(gw, route, cluster, "api.example.com"); !strings.Contains(note, "reason=chosen") {
		t.Errorf("with a good configuration the next request has %q", note)
	}
	if gw.LogContains("canary") {
		t.Error("a password is in the log")
	}
}
