package doctest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/mesh/lab"
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

// TestGuide runs the commands of docs/envoy.md in their order, from an empty folder on, and those of docs/metrics.md
// while its gateway runs. Only ports differ, what is not fetched, see empty, and how long curl tries: on a busy machine
// Envoy takes more than a minute to start. The output that the guide shows must be printed.
func TestGuide(t *testing.T) {
	needs(t, "curl", "setpriv")
	p := empty(t)
	install := lab.Commands(lab.Block(t, "docs/envoy.md", "console", "git clone"))
	const most = 5
	last := len(install) - 1
	if last < 1 || last >= most || !strings.HasPrefix(install[last], "curl ") {
		t.Fatalf("docs/envoy.md installs by %q", install)
	}
	const tries = "--retry 120 "
	if !strings.Contains(install[last], tries) {
		t.Fatalf("docs/envoy.md sends its first request by %q", install[last])
	}
	install[last] = strings.Replace(install[last], tries, "--retry 1800 ", 1)
	engines := lab.Commands(lab.Block(t, "docs/envoy.md", "console", "engine"))
	install = slices.Insert(install, 2, engines...) // between the second and the third command, as the document says
	guide, metrics := shell(t, "docs/envoy.md"), shell(t, "docs/metrics.md")
	if len(guide) < 5 || !strings.Contains(guide[0], "curl") {
		t.Fatalf("the guide has changed: %q", guide)
	}
	last = len(guide) - 1
	const installed = "installed in"
	script := prelude + "begun=$(date +%s)\n" + strings.Join(install, "\n") +
		"\necho " + installed + " $(($(date +%s) - begun)) s\n" +
		choosing + strings.Join(guide[:last], "") + strings.Join(metrics, "") + guide[last]
	output := play(t, p, script)
	before, after, _ := strings.Cut(output, installed)
	if !strings.Contains(before, "200 OK") {
		t.Errorf("the first request is not answered 200:\n%s", before)
	}
	took, _, _ := strings.Cut(after, "\n")
	t.Logf("from an empty folder to an answer in%s, with what is compiled and fetched once for a machine there", took)
	shows(t, "docs/envoy.md", output)
}

// TestUpgradeGuide runs the commands of docs/upgrade.md for plain Envoy, on a gateway that was started as docs/envoy.md
// says.
func TestUpgradeGuide(t *testing.T) {
	harness.LongT(t)
	needs(t, "curl", "setpriv")
	p := stage(t)
	steps := shell(t, "docs/upgrade.md")
	if len(steps) != 4 || !strings.Contains(steps[3], `"enabled": false`) {
		t.Fatalf("the document has changed: %q", steps)
	}
	const start = "cd envoy-config\nenvoy -c envoy.yaml --concurrency 2 &\n" +
		"until admin ready; do command sleep 0.2; done\n"
	output := play(t, p, prelude+start+choosing+strings.Join(steps, "")+
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
	harness.LongT(t)
	needs(t, "curl", "setpriv")
	p := stage(t)
	editor := filepath.Join(p.dir, "bin/editor")
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
	if output := play(t, p, script); !strings.Contains(output, "x-warmgate-reason: chosen") {
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
