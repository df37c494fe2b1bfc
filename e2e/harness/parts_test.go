package harness

import (
	"fmt"
	"maps"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/child"
)

func TestParseStats(t *testing.T) {
	got := parseStats(strings.Join([]string{
		"http.ingress.downstream_rq_total: 12",
		"wasmcustom.cluster=.=llm;.;endpoint=.=127.0.0.1:8000;.;warmgate_inflight_requests: 3",
		`cluster_manager.cds.version_text: "1"`,
		"cluster.llm.upstream_rq_time: P0(nan,1.0) P25(nan,1.025)",
		"wasmcustom.warmgate_reserve_us: No recorded values",
		"",
	}, "\n"))
	want := map[string]float64{
		"http.ingress.downstream_rq_total":                                          12,
		"wasmcustom.warmgate_inflight_requests;cluster=llm;endpoint=127.0.0.1:8000": 3,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestListenerAddr(t *testing.T) {
	status := func(name string, port int) string {
		return fmt.Sprintf(`{"name":%q,"local_address":{"socket_address":{"address":"127.0.0.1","port_value":%d}}}`, name, port)
	}
	for _, c := range []struct{ page, want string }{
		{`{"listener_statuses":[` + status("other", 1) + "," + status("main", 4711) + `]}`, "127.0.0.1:4711"},
		{`{"listener_statuses":[` + status("other", 1) + `]}`, ""},
		{`{"listener_statuses":[` + status("main", 0) + `]}`, ""}, // not bound yet
		{`{}`, ""},
		{`not JSON`, ""},
	} {
		got, err := listenerAddr(c.page, "main")
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v, want %q", c.page, got, err, c.want)
		}
	}
}

// TestEnvoyBinary also shows that several test processes may fetch at once: the calls share nothing but the lock file.
func TestEnvoyBinary(t *testing.T) {
	for _, c := range []struct{ version, override, want string }{
		{"", "", "/1.40.0/"},
		{DefaultVersion, "", "/1.40.0/"},
		{OldestVersion, "/bin/true", "/1.36.2/"}, // named
	} {
		t.Setenv("ENVOY", c.override)
		var group sync.WaitGroup
		for range 4 {
			group.Add(1)
			go func() {
				defer group.Done()
				binary, err := Envoy(t.Context(), c.version)
				if err != nil {
					t.Error(err)
					return
				}
				if out, err := exec.Command(binary, "--version").Output(); err != nil ||
					!strings.Contains(string(out), c.want) {
					t.Errorf("%s --version: %q, %v, want %s", binary, out, err, c.want)
				}
			}()
		}
		group.Wait()
	}
	t.Setenv("ENVOY", "/bin/true")
	if binary, err := Envoy(t.Context(), ""); err != nil || binary != "/bin/true" {
		t.Errorf("ENVOY does not override: %q, %v", binary, err)
	}
	if binary, err := Envoy(t.Context(), "0.0.0"); err == nil {
		t.Errorf("a version without a pinned hash: %s", binary)
	}
}

func TestProcessStops(t *testing.T) {
	for _, c := range []struct{ name, script string }{
		{"at once", "exec sleep 60"},
		{"deaf", `trap "" TERM; while :; do sleep 0.05; done`},
		{"has ended", "exit 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			started, err := child.Start(exec.Command("sh", "-c", c.script))
			if err != nil {
				t.Fatal(err)
			}
			p := process{started}
			for range 2 {
				if err := p.stop(200 * time.Millisecond); err != nil {
					t.Error(err)
				}
				if p.Ended() == nil {
					t.Fatal("it has not ended")
				}
			}
		})
	}
}
