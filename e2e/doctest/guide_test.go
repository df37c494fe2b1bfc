package doctest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
)

// prelude goes before the commands of the guide. It replaces the guide's "sleep 1" after a push by the wait that is
// really needed, on a machine that may be busy.
const prelude = `
admin() { curl -s --unix-socket admin.sock "http://localhost/$1"; }
pushes() { admin 'stats?filter=^extension_config_discovery.http_filter.warmgate.update_(success|rejected)$' | awk '{n += $2} END {print n + 0}'; }
seen=0
sleep() {
	if [ "$1" != 1 ]; then command sleep "$1"; return; fi
	until [ "$(pushes)" -gt "$seen" ]; do command sleep 0.1; done
	seen=$(pushes)
}
`

// choosing waits until the endpoints have passed their health checks and the plugin knows of it.
const choosing = `
until curl -s http://127.0.0.1:10000/health >answer && admin stats/prometheus | grep -q 'warmgate_decisions_total.*chosen'; do command sleep 0.2; done
seen=$(pushes)
`

// scraping waits until the plugin goes by the metrics of both endpoints.
const scraping = `
until curl -s http://127.0.0.1:10000/v1/models >answer &&
	admin stats/prometheus | grep -q '^warmgate_metrics_fresh_endpoints{cluster="llm"} 2' &&
	admin stats/prometheus | grep -q 'warmgate_decisions_total.*endpoint_metrics.*chosen'; do command sleep 0.2; done
`

// queueing waits until a request is placed by the policy of warmgate-overload.yaml.
const queueing = `
until curl -s http://127.0.0.1:10000/v1/models >answer &&
	admin stats/prometheus | grep -q 'warmgate_decisions_total.*prefix_cache.*chosen'; do command sleep 0.2; done
`

// TestGuide runs the commands of docs/envoy.md in their order, and those of docs/metrics.md while its gateway runs, on
// a copy of the shipped files. Only ports differ. The output that the guide shows must be printed.
func TestGuide(t *testing.T) {
	needs(t, "curl", "setpriv")
	dir := stage(t)
	guide, metrics := shell(t, "docs/envoy.md"), shell(t, "docs/metrics.md")
	if len(guide) < 5 || !strings.Contains(guide[0], "ready") {
		t.Fatalf("the guide has changed: %q", guide)
	}
	last := len(guide) - 1
	script := prelude + guide[0] + choosing + strings.Join(guide[1:last], "") + strings.Join(metrics, "") + guide[last]
	output := play(t, dir, script)
	shows(t, "docs/envoy.md", output)
}

// TestUpgradeGuide runs the commands of docs/upgrade.md for plain Envoy, on a gateway that was started as docs/envoy.md
// says.
func TestUpgradeGuide(t *testing.T) {
	needs(t, "curl", "setpriv")
	dir := stage(t)
	start, steps := shell(t, "docs/envoy.md")[0], shell(t, "docs/upgrade.md")
	if len(steps) != 4 || !strings.Contains(steps[3], `"enabled": false`) {
		t.Fatalf("the document has changed: %q", steps)
	}
	output := play(t, dir, prelude+start+choosing+strings.Join(steps, "")+
		"curl -si http://127.0.0.1:10000/v1/models | grep '200 OK'\n"+
		"admin stats/prometheus | grep '^warmgate_decisions_total.*disabled'\nkill $!\n")
	shows(t, "docs/upgrade.md", output)
}

// shows fails unless all lines that the document shows were printed, in their order. Numbers may differ.
func shows(t *testing.T, document, output string) {
	t.Helper()
	var printed []string
	for _, b := range open(t, document).blocks {
		if b.language == "text" {
			printed = append(printed, strings.Split(strings.TrimSpace(b.text), "\n")...)
		}
	}
	at := 0
	for _, line := range printed {
		number := regexp.MustCompile(`\d+`)
		pattern := regexp.MustCompile(`(?m)^` + number.ReplaceAllString(regexp.QuoteMeta(line), `\d+`) + `\r?$`)
		found := pattern.FindStringIndex(output[at:])
		if found == nil {
			t.Fatalf("the document shows %q, but the commands print\n%s", line, output)
		}
		at += found[1]
	}
	if len(printed) == 0 {
		t.Error("the document shows no output")
	}
}

// TestConfigurationsReadme runs the commands of envoy-config/README.md: the gateway starts, and a file that an editor
// has changed is live when it has replaced the old one, as are the shipped ones for endpoint_metrics and for overload.
func TestConfigurationsReadme(t *testing.T) {
	needs(t, "curl", "setpriv")
	dir := stage(t)
	editor := filepath.Join(dir, "bin/editor")
	edit := "#!/bin/sh\nexec sed -i 's/\"debug_headers\": false/\"debug_headers\": true/' \"$@\"\n"
	if err := os.WriteFile(editor, []byte(edit), 0o755); err != nil {
		t.Fatal(err)
	}
	// The user has a terminal for the gateway and another one for the rest.
	foreground := regexp.MustCompile(`(?m)^(envoy .*)$`)
	blocks := shell(t, "envoy-config/README.md")
	if len(blocks) != 5 || len(foreground.FindAllString(blocks[0], -1)) != 1 {
		t.Fatalf("the document has changed: %q", blocks)
	}
	script := prelude + "EDITOR=" + editor + "\n" + foreground.ReplaceAllString(blocks[0], "$1 &") +
		"until admin ready; do command sleep 0.2; done\n" + choosing + blocks[1] +
		"sleep 1\ncurl -si http://127.0.0.1:10000/v1/models | grep '^x-warmgate-'\n" +
		blocks[2] + "sleep 1\n" + scraping + blocks[3] + "sleep 1\n" + queueing + "kill $!\n"
	if output := play(t, dir, script); !strings.Contains(output, "x-warmgate-reason: chosen") {
		t.Errorf("the new configuration has no effect:\n%s", output)
	}
}

// needs skips the test on a machine without the programs.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the commands need %s", program)
		}
	}
}

// shell returns the sh blocks of a document without the commands for make.
func shell(t *testing.T, name string) []string {
	t.Helper()
	build := regexp.MustCompile(`(?m)^make .*\n`)
	var out []string
	for _, b := range open(t, name).blocks {
		if text := build.ReplaceAllString(b.text, ""); b.language == "sh" && text != "" {
			out = append(out, text)
		}
	}
	return out
}

// stage lays out a tree as a user has it after `make wasm`, with two model servers, free ports and envoy in the PATH.
func stage(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	module, err := harness.Wasm(t.Context(), harness.HostEnvoy)
	if err != nil {
		t.Fatal(err)
	}
	binary, err := harness.Envoy(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "envoy-config")
	if err := os.CopyFS(config, os.DirFS(harness.PathT(t, "envoy-config"))); err != nil {
		t.Fatal(err)
	}
	replace(t, filepath.Join(config, "envoy.yaml"), "port_value: 10000", "port_value: "+harness.FreePortT(t))
	for i, model := range harness.Models(t, 2) {
		port := []string{"8000", "8001"}[i]
		_, own, err := net.SplitHostPort(model.Addr)
		if err != nil {
			t.Fatal(err)
		}
		replace(t, filepath.Join(config, "endpoints.yaml"), "port_value: "+port+"}", "port_value: "+own+"}")
	}
	for _, sub := range []string{"bin", "build/out"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(module, filepath.Join(dir, "build/out/warmgate-envoy.wasm")); err != nil {
		t.Fatal(err)
	}
	// Envoy must not outlive the shell, nor share hot restart sockets with another Envoy on the machine.
	run := fmt.Sprintf("#!/bin/sh\nexec setpriv --pdeathsig KILL %q \"$@\" --use-dynamic-base-id --log-level warning "+
		">envoy.log 2>&1\n", binary)
	if err := os.WriteFile(filepath.Join(dir, "bin/envoy"), []byte(run), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// replace changes one place in a file.
func replace(t *testing.T, file, old, text string) {
	t.Helper()
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(have), old); n != 1 {
		t.Fatalf("%s: %q is there %d times", file, old, n)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(have), old, text, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// play runs the script in dir, with the port of the staged gateway in place of the documented one, and returns what it
// prints.
func play(t *testing.T, dir, script string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "envoy-config/envoy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	port := regexp.MustCompile(`port_value: (\d+)`).FindSubmatch(text)[1]
	script = strings.ReplaceAll(script, "127.0.0.1:10000", "127.0.0.1:"+string(port))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-eu", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	// The shell and all that it has started are one process group, which ends with the test.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if err := cmd.Wait(); err != nil {
		logs, _ := os.ReadFile(filepath.Join(dir, "envoy-config/envoy.log"))
		t.Fatalf("%v\n%s\n%s", err, output.String(), logs)
	}
	return output.String()
}
