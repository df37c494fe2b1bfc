package observability

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/fleet"
)

// tileOf is the tile of the dashboard operations that shows what an alert is raised for. The others have none.
var tileOf = map[string]string{
	"WarmgateAbsent": "Plugin", "WarmgateGone": "Plugin", "WarmgateConfigurationInvalid": "Plugin",
	"WarmgateConfigurationRefused": "Plugin", "WarmgateRulesRefused": "Plugin", "WarmgatePanic": "Plugin",
	"WarmgateStoreCorrected": "Plugin",
	"WarmgateRedisDown":      "Redis", "WarmgateRedisLogin": "Redis", "WarmgateRedisFallbacks": "Redis",
	"WarmgateScrapesFail": "Engine metrics", "WarmgateNoMetrics": "Engine metrics",
	"WarmgateMetricsLacking": "Engine metrics", "WarmgateModelListsFail": "Engine metrics",
	"WarmgateBalancedNatively": "Native balancing", "WarmgateNoServer": "Native balancing",
	"WarmgateServerUnhealthy": "Servers that fail", "WarmgateServerEjected": "Servers that fail",
	"WarmgateServerFails": "Servers that fail", "WarmgateAnswersFail": "Servers that fail",
	"WarmgateServerSlowToWrite": "Slow servers", "WarmgateServerSlowToStart": "Slow servers",
	"WarmgateModelNotEverywhere": "Models", "WarmgateCacheLost": "Caches", "WarmgateMatchError": "Caches",
	"WarmgateQueueMissized": "Queue", "WarmgateQueueLeft": "Queue",
	"WarmgateTenantTakesMost": "Tenants and budgets", "WarmgateBudgetUsedUp": "Tenants and budgets",
	"WarmgateRegionUnreachable": "Regions", "WarmgateRegionAdopted": "Regions",
}

// TestTiles sees what alerts are raised for in a tile: red while it is so, amber from two minutes after its end on, and
// gone after a quarter of an hour. A gateway is scraped every 30 s, so that the hour of a fault is half of one: it ends
// in the 40th minute, but for what happens once, in the 35th.
func TestTiles(t *testing.T) {
	promtool := fleet.ProgramT(t, "promtool")
	tiles := map[string][]string{}
	for _, p := range panels(t) {
		if p.When == "wrong" {
			tiles[p.Panel] = append(tiles[p.Panel], "("+p.Expr+")")
		}
	}
	var b strings.Builder
	b.WriteString("tests:\n")
	tested := map[string]bool{}
	for i := range faults {
		f := &faults[i]
		tile := tiles[tileOf[f.alert]]
		if tile == nil {
			continue
		}
		tested[f.alert] = true
		red := strings.Join(tile, " == 0 or ") + " == 0"
		amber := strings.Join(tile, " > 0 or ") + " > 0"
		const shown = "\n    exp_samples:\n    - {labels: '{}', value: 1}"
		f.feed(t, &b, "30s")
		for _, c := range []struct{ at, colour, want string }{
			{"9m", red, ""},
			{"36m", red, shown},
			{"42m30s", red, ""},
			{"42m30s", amber, shown},
			{"57m30s", red, ""},
			{"57m30s", amber, ""},
		} {
			expr := quoted("clamp_max(count(" + c.colour + "), 1)")
			fmt.Fprintf(&b, "  - expr: %s\n    eval_time: %s%s\n", expr, c.at, c.want)
		}
	}
	if len(tested) != len(tileOf) {
		t.Errorf("%d of %d alerts are tested", len(tested), len(tileOf))
	}
	file := filepath.Join(t.TempDir(), "test.yaml")
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
