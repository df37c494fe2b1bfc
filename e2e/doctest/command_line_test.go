package doctest

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// commandLine is the document on the program warmgate.
const commandLine = "docs/command-line.md"

// TestCommandLine runs the commands of the document in their order, in a folder with the shipped files. What the
// document shows must be printed.
func TestCommandLine(t *testing.T) {
	needs(t, "curl")
	dir := t.TempDir()
	harness.ProgramT(t, filepath.Join(dir, "bin"))
	files := os.DirFS(harness.PathT(t, "envoy-config"))
	if err := os.CopyFS(filepath.Join(dir, "envoy-config"), files); err != nil {
		t.Fatal(err)
	}
	serveAdmin(t, filepath.Join(dir, "envoy-config", "admin.sock"))
	shows(t, commandLine, play(t, place{dir: dir, engine: engine(t)}, strings.Join(shell(t, commandLine), "")))
}

// adminPages are what the administration of the gateway that the document looks at answers.
var adminPages = map[string]string{
	"/server_info": `{"version": "x/1.40.0/Clean", "state": "LIVE", "uptime_current_epoch": "90s"}`,
	"/config_dump": `{"configs": []}`,
	"/clusters": `{"cluster_statuses": [{"name": "llm", "host_statuses": [
		{"address": {"socket_address": {"address": "10.0.0.1", "port_value": 8000}}, "locality": {"zone": "eu-a"}},
		{"address": {"socket_address": {"address": "10.0.0.2", "port_value": 8000}}, "locality": {"zone": "eu-b"},
			"health_status": {"failed_active_health_check": true}}]}]}`,
	"/stats": `{"stats": [
		{"name": "wasmcustom.version=.=0.1.0;.;revision=.=abc;.;warmgate_build_info", "value": 1},
		{"name": "wasmcustom.policy=.=prefix_cache;.;reason=.=chosen;.;warmgate_decisions_total", "value": 120},
		{"name": "wasmcustom.policy=.=prefix_cache;.;reason=.=queue_timeout;.;warmgate_decisions_total", "value": 2},
		{"name": "wasmcustom.cluster=.=llm;.;class=.=batch;.;warmgate_queue_length", "value": 3},
		{"name": "wasmcustom.cluster=.=llm;.;endpoint=.=10.0.0.1:8000;.;warmgate_inflight_requests", "value": 4},
		{"name": "wasmcustom.cluster=.=llm;.;endpoint=.=10.0.0.1:8000;.;warmgate_endpoint_push_limit", "value": 12}]}`,
}

// serveAdmin serves them at a Unix socket, until the test ends.
func serveAdmin(t *testing.T, socket string) {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, adminPages[r.URL.Path])
	}))
}

// TestHooks compares what the document has for pre-commit and GitHub Actions with what is there.
func TestHooks(t *testing.T) {
	type hook struct{ ID string }
	var (
		hooks, used []hook
		action      struct{ Inputs map[string]any }
		repos       struct{ Repos []struct{ Hooks []hook } }
		steps       []struct {
			Uses string
			With map[string]any
		}
		blocks [][]byte
	)
	for _, b := range open(t, commandLine).blocks {
		if b.language == "yaml" {
			blocks = append(blocks, []byte(b.text))
		}
	}
	if len(blocks) != 2 {
		t.Fatalf("%d blocks", len(blocks))
	}
	for _, of := range []struct {
		text []byte
		into any
	}{
		{harness.ReadT(t, ".pre-commit-hooks.yaml"), &hooks},
		{harness.ReadT(t, "action.yml"), &action},
		{blocks[0], &repos},
		{blocks[1], &steps},
	} {
		if err := yaml.Unmarshal(of.text, of.into); err != nil {
			t.Fatalf("%s: %v", of.text, err)
		}
	}
	for _, r := range repos.Repos {
		used = append(used, r.Hooks...)
	}
	if !slices.Equal(used, hooks) {
		t.Errorf("the hooks are %v, the document has %v", hooks, used)
	}
	inputs := slices.Sorted(maps.Keys(action.Inputs))
	if with := slices.Sorted(maps.Keys(steps[0].With)); !slices.Equal(with, inputs) {
		t.Errorf("the inputs are %v, the document has %v", inputs, with)
	}
}
