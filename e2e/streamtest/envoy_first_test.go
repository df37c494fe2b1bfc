package streamtest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/streamtest"
)

// With an invalid first configuration there is no previous one to keep: requests pass as if there were no plugin, and
// the log and the statistics report it.
func TestEnvoyFirstConfigurationIsBad(t *testing.T) {
	gw := harness.StartT(t, harness.Options{Edit: forScenarios, NoPlugin: true})
	if err := gw.PushModule(context.Background(), artifactCopy(t), `{"lb_policy":"nonsense"}`); err != nil {
		t.Fatalf("Envoy is left without a filter: %v", err)
	}
	d := newEnvoy(t, gw)
	d.servers = append(d.servers, startModelServer(t, d.hub, 0))
	if err := gw.PushEndpoints(context.Background(), []harness.Endpoint{{Addr: d.servers[0].addr}}); err != nil {
		t.Fatal(err)
	}
	d.awaitEnvoy([]streamtest.Endpoint{{}})
	const invalid = "warmgate_decisions_total;policy=none;reason=config_invalid"
	before := d.stat(invalid)
	if got := reasonOf(t, gw.URL()); got != "" {
		t.Errorf("without a configuration the plugin reports the reason %q", got)
	}
	if got := d.stat(invalid) - before; got != 1 {
		t.Errorf("the request was counted %d times as %s", got, invalid)
	}
	if got, bad := d.stat("warmgate_config_valid"), d.stat("warmgate_config_rejected_total"); got != 0 || bad == 0 {
		t.Errorf("warmgate_config_valid is %d, warmgate_config_rejected_total %d", got, bad)
	}
	if err := d.Configure(envoyBase); err != nil {
		t.Fatal(err)
	}
	if !d.Await(func() bool { return reasonOf(t, gw.URL()) == "chosen" }) {
		t.Error("with a good configuration the plugin does not choose")
	}
	if got := d.stat("warmgate_config_valid"); got != 1 {
		t.Errorf("with a good configuration warmgate_config_valid is %d", got)
	}
	// Envoy has already tried the first configuration and accepted it: it does not try it again.
	if err := d.Configure(`{"lb_policy":"nonsense"}`); err != nil && !errors.Is(err, streamtest.ErrRefused) {
		t.Fatal(err)
	}
	for range 20 {
		if got := reasonOf(t, gw.URL()); got != "chosen" {
			t.Fatalf("after the first configuration again, the reason is %q", got)
		}
	}
}
