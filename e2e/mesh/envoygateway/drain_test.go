package envoygateway

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/mesh/lab"
)

// TestDrain changes the plugin's configuration while answers stream. With the drain time of gateway.yaml they go on for
// longer than Envoy Gateway's default; without it they are cut. In short, a default of less is simulated.
func TestDrain(t *testing.T) {
	outlast, unset, seconds := 90*time.Second, map[string]any{}, "60"
	if testing.Short() {
		outlast, unset, seconds = 9*time.Second, map[string]any{"drainTimeout": "2s"}, "2"
	}
	t.Run("as shipped", func(t *testing.T) {
		list, _ := installed(t)
		if p := changed(t, list, drainTime(t), outlast); p.Whole != p.Answers || p.Draining == 0 {
			t.Errorf("want all answers to outlast a listener: %+v", p)
		}
	})
	t.Run("by default", func(t *testing.T) {
		list, _ := installed(t)
		set(t, find(t, list, "EnvoyProxy"), unset, "spec", "shutdown")
		if p := changed(t, list, seconds, outlast); p.Whole > 0 {
			t.Errorf("want all answers to be cut: %+v", p)
		}
	})
}

// changed runs a gateway, whose Envoy must be started with a drain time, and changes the plugin's configuration while
// answers stream, which the servers end some time after that.
func changed(t *testing.T, list []resource, seconds string, outlast time.Duration) lab.Passage {
	t.Helper()
	gateway := controlled(t, harness.DefaultVersion, list)
	if s := option(t, gateway.args, "--drain-time-s"); s != seconds {
		t.Errorf("the drain time is %s s, want %s", s, seconds)
	}
	return gateway.Change(t, func() {
		set(t, configOf(t, list), true, "lb_config", "debug_headers")
		gateway.plane.apply(t)
	}, outlast)
}

// drainTime returns the drain time of gateway.yaml, in seconds. It has to be longer than the longest answer, which is
// that of the timeout in warmgate.yaml.
func drainTime(t *testing.T) string {
	t.Helper()
	duration := func(file, kind string, path ...any) time.Duration {
		d, err := time.ParseDuration(at(t, find(t, read(t, file), kind), path...).(string))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	drain := duration("gateway.yaml", "EnvoyProxy", "spec", "shutdown", "drainTimeout")
	answer := duration("warmgate.yaml", "BackendTrafficPolicy", "spec", "timeout", "http", "requestTimeout")
	if drain <= answer {
		t.Errorf("a listener drains for %v, and an answer may take %v", drain, answer)
	}
	return fmt.Sprint(drain.Seconds())
}

// TestAttached attaches the EnvoyProxy to the Gateway alone, as in the document, in the place of the GatewayClass.
func TestAttached(t *testing.T) {
	block := parse(t, lab.Block(t, document, "yaml", "infrastructure:"))[0]
	list, _ := installed(t)
	delete(at(t, find(t, list, "GatewayClass"), "spec").(map[string]any), "parametersRef")
	spec := find(t, list, "Gateway")["spec"].(map[string]any)
	own := at(t, block, "spec", "infrastructure")
	if spec["infrastructure"] = own; strings.Contains(fmt.Sprint(own), "namespace") {
		t.Error("a Gateway takes an EnvoyProxy of its own namespace only")
	}
	list = onHost(t, list, harness.FreePortT(t), lab.Servers(t, 1))
	dir := t.TempDir()
	plane := startControlPlane(t, dir, append(list, machine(filepath.Join(dir, "config/certs/envoy/ca.crt"))))
	args := plane.envoyArgs(t)
	if s := option(t, args, "--drain-time-s"); s != drainTime(t) {
		t.Errorf("the drain time is %s s", s)
	}
	if !strings.Contains(option(t, args, "--config-yaml"), "internal_listener") {
		t.Error("the EnvoyProxy's bootstrap is not that of Envoy")
	}
}
