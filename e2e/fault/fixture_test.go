package fault

import (
	"context"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/harness"
)

// config returns a configuration of the plugin that polls often. Lines are added to lb_config, each as `"key":value`.
func config(lines ...string) string {
	all := append([]string{
		`"envoy":{"admin_cluster":"warmgate-admin","poll_interval":"100ms"}`, `"debug_headers":true`, `"health":{"slow_start":0}`,
	}, lines...)
	return `{"lb_type":"endpoint","lb_policy":"global_least_request","lb_config":{` + strings.Join(all, ",") + `}}`
}

// steadyTraffic sends short requests until it is paused.
func steadyTraffic(t *testing.T, g *harness.Gateway) *audit.Traffic {
	client := audit.Client(g, "", harness.Patience)
	t.Cleanup(client.Close)
	traffic := audit.NewTraffic(client, 40, audit.Seed(), audit.Short)
	traffic.Start(context.Background())
	return traffic
}

func wantNoneFailed(t *testing.T, traffic *audit.Traffic) {
	t.Helper()
	if tally := traffic.Tally(); tally.Failed() != 0 {
		t.Errorf("%d of %d requests failed: %v, first: %s", tally.Failed(), tally.Sent, tally.Errors, tally.First)
	}
}

// used returns how many bytes of memory Envoy uses.
func used(t *testing.T, g *harness.Gateway) int64 {
	t.Helper()
	n, _, err := g.Used(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

const mib = 1 << 20
