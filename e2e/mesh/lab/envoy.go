package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/child"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/internal/statname"
)

// OnVersions runs a test on the oldest release of Envoy, the default one, and those between that harness.Between names.
func OnVersions(t *testing.T, test func(t *testing.T, version string)) {
	t.Helper()
	for _, version := range append(harness.Between(), harness.OldestVersion, harness.DefaultVersion) {
		t.Run(version, func(t *testing.T) { test(t, version) })
	}
}

// Envoy is a running Envoy whose configuration comes from a control plane.
type Envoy struct {
	process *child.Process
	dir     string
	admin   string // ip:port
}

// Process says how to run an Envoy.
type Process struct {
	Version   string // a release that is pinned in build/envoy
	Dir       string // the folder that it runs in
	Bootstrap []byte // YAML or JSON
	Admin     string // ip:port of its admin interface
	// Args are further arguments. Without --drain-time-s among them, what a listener leaves is cut after a second.
	Args []string
}

// Start runs an Envoy until the test ends, and waits until its admin interface answers. If the test fails, the end of
// Envoy's log is shown.
func Start(t testing.TB, p Process) *Envoy {
	t.Helper()
	binary, err := harness.Envoy(t.Context(), p.Version)
	if err != nil {
		t.Fatal(err)
	}
	e := &Envoy{dir: p.Dir, admin: p.Admin}
	if err := os.WriteFile(filepath.Join(e.dir, "bootstrap.yaml"), p.Bootstrap, 0o644); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(e.dir, "envoy.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	args := append(slices.Clone(p.Args), "--config-path", "bootstrap.yaml", "--concurrency", "2",
		"--use-dynamic-base-id", "--log-level", "warning")
	if !slices.Contains(args, "--drain-time-s") {
		args = append(args, "--drain-time-s", "1")
	}
	cmd := exec.Command(binary, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = e.dir, log, log
	if e.process, err = child.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			log := e.Log()
			t.Logf("Envoy's log ends:\n%s", log[max(0, len(log)-6000):])
		}
		if err := e.process.Kill(); err != nil {
			t.Error(err)
		}
	})
	harness.Await(t, func() error { _, err := e.get(t.Context(), "/ready"); return err })
	return e
}

// Log returns what Envoy has written so far: its log, and the access log if that goes to the standard output.
func (e *Envoy) Log() string {
	text, err := os.ReadFile(filepath.Join(e.dir, "envoy.log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// get returns a page of the admin interface.
func (e *Envoy) get(ctx context.Context, page string) (string, error) {
	if err := e.process.Ended(); err != nil {
		return "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.admin+page, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK && page != "/ready" {
		err = fmt.Errorf("lab: admin %s: %s: %.200s", page, resp.Status, text)
	}
	return string(text), err
}

// Page returns a page of the admin interface.
func (e *Envoy) Page(t testing.TB, page string) string {
	t.Helper()
	text, err := e.get(t.Context(), page)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Listener waits until Envoy takes connections at a port of 127.0.0.1, and returns the name of that listener.
func (e *Envoy) Listener(t testing.TB, port string) (name string) {
	t.Helper()
	var page struct {
		Listeners []struct {
			Name  string `json:"name"`
			Local struct {
				Socket struct {
					Port json.Number `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	harness.Await(t, func() error {
		text, err := e.get(t.Context(), "/listeners?format=json")
		if err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(text), &page); err != nil {
			return err
		}
		for _, l := range page.Listeners {
			if l.Local.Socket.Port.String() != port {
				continue
			}
			name = l.Name
			c, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err == nil {
				c.Close()
			}
			return err
		}
		return fmt.Errorf("lab: no listener at port %s: %s", port, text)
	})
	return name
}

// Sum returns the sum of the counters and gauges whose short name matches (see internal/statname).
func (e *Envoy) Sum(t testing.TB, filter string) float64 {
	t.Helper()
	var sum float64
	matches := regexp.MustCompile(filter)
	for _, line := range strings.Split(e.Page(t, "/stats?filter="+url.QueryEscape("warmgate_|"+filter)), "\n") {
		var n float64
		if at := strings.LastIndex(line, ": "); at >= 0 && matches.MatchString(statname.Short(line[:at])) {
			if _, err := fmt.Sscan(line[at+2:], &n); err == nil {
				sum += n
			}
		}
	}
	return sum
}

// AwaitPrometheus waits until the Prometheus page has a line that matches.
func (e *Envoy) AwaitPrometheus(t testing.TB, line string) {
	t.Helper()
	want := regexp.MustCompile(`(?m)^` + line + `$`)
	harness.Await(t, func() error {
		text, err := e.get(t.Context(), "/stats/prometheus")
		if err == nil && !want.MatchString(text) {
			err = fmt.Errorf("lab: the Prometheus page has no line %s:\n%s", line, own(text))
		}
		return err
	})
}

// own returns the lines of a page that are about the plugin.
func own(page string) string {
	return strings.Join(regexp.MustCompile(`(?m)^warmgate_.*$`).FindAllString(page, -1), "\n")
}

// Filters returns the HTTP filters of a listener, as Envoy runs them.
func (e *Envoy) Filters(t testing.TB, listener string) []map[string]any {
	t.Helper()
	type chain struct {
		Filters []struct {
			Config struct {
				Filters []map[string]any `json:"http_filters"`
			} `json:"typed_config"`
		}
	}
	var page struct {
		Configs []struct {
			Name  string
			State struct {
				Listener struct {
					Default chain   `json:"default_filter_chain"`
					Chains  []chain `json:"filter_chains"`
				}
			} `json:"active_state"`
		}
	}
	if err := json.Unmarshal([]byte(e.Page(t, "/config_dump?resource=dynamic_listeners")), &page); err != nil {
		t.Fatal(err)
	}
	for _, c := range page.Configs {
		for _, chain := range append(c.State.Listener.Chains, c.State.Listener.Default) {
			if c.Name == listener && len(chain.Filters) == 1 {
				return chain.Filters[0].Config.Filters
			}
		}
	}
	t.Fatalf("no filters of the listener %s", listener)
	return nil
}
