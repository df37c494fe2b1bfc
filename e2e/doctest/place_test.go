package doctest

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// place is where commands run: a folder, whose programs in bin come first, and the port that the gateway has in it in
// place of the documented one.
type place struct{ dir, port string }

// stage lays out a tree as a user has it after `make wasm`, with two model servers, free ports and envoy in the PATH.
func stage(t *testing.T) place {
	t.Helper()
	dir := t.TempDir()
	module, err := harness.Wasm(t.Context(), harness.HostEnvoy)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "envoy-config")
	if err := os.CopyFS(config, os.DirFS(harness.PathT(t, "envoy-config"))); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "build/out"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(module, filepath.Join(dir, "build/out/warmgate-envoy.wasm")); err != nil {
		t.Fatal(err)
	}
	envoyIn(t, dir)
	return place{dir, ports(t, config)}
}

// empty is a folder with nothing in it, for a user who has two model servers. What is fetched comes from this machine:
// git copies the source tree, whose ports are free ones, and `make envoy` finds an Envoy that ENVOY names. All else is
// as it is printed.
func empty(t *testing.T) place {
	t.Helper()
	dir, tree := t.TempDir(), t.TempDir()
	source := harness.PathT(t, ".")
	// What git does not know: it is built or fetched.
	skipped := []string{".git", ".cache", "build/out"}
	err := filepath.WalkDir(source, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(source, name)
		if err != nil {
			return err
		}
		if slices.Contains(skipped, rel) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(tree, rel), 0o755)
		}
		if entry.Type()&fs.ModeSocket != 0 { // of a gateway that runs in envoy-config
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(tree, rel), text, info.Mode().Perm())
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("ENVOY", envoyIn(t, dir))
	program(t, dir, "git", "set -eu\n[ \"$*\" = \"clone https://github.com/warmgate/warmgate\" ]\nmv \""+tree+
		"\" warmgate\n")
	return place{dir, ports(t, filepath.Join(tree, "envoy-config"))}
}

// ports starts two model servers, writes their ports and a free one for the gateway into the files of a folder, and
// returns the latter.
func ports(t *testing.T, config string) string {
	t.Helper()
	gateway := harness.FreePortT(t)
	replace(t, filepath.Join(config, "envoy.yaml"), "port_value: 10000", "port_value: "+gateway)
	for i, model := range harness.Models(t, 2) {
		port := []string{"8000", "8001"}[i]
		_, own, err := net.SplitHostPort(model.Addr)
		if err != nil {
			t.Fatal(err)
		}
		replace(t, filepath.Join(config, "endpoints.yaml"), "port_value: "+port+"}", "port_value: "+own+"}")
	}
	return gateway
}

// envoyIn makes the program envoy in a place, and returns its path. It must not outlive the shell, nor share hot
// restart sockets with another Envoy on the machine.
func envoyIn(t *testing.T, dir string) string {
	t.Helper()
	binary, err := harness.Envoy(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return program(t, dir, "envoy", fmt.Sprintf("exec setpriv --pdeathsig KILL %q \"$@\" --use-dynamic-base-id "+
		"--log-level warning >envoy.log 2>&1\n", binary))
}

// program makes a shell script a program in a place, and returns its path.
func program(t *testing.T, dir, name, script string) string {
	t.Helper()
	file := filepath.Join(dir, "bin", name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
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

// play runs the script in a place, and returns what it prints.
func play(t *testing.T, p place, script string) string {
	t.Helper()
	script = strings.ReplaceAll(script, "127.0.0.1:10000", "127.0.0.1:"+p.port)
	ctx, cancel := context.WithTimeout(t.Context(), 6*harness.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-eu", "-c", script)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(p.dir, "bin")+":"+os.Getenv("PATH"), "MAKEFLAGS=")
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
		var logs []byte
		for _, folder := range []string{"envoy-config", "warmgate/envoy-config"} {
			text, _ := os.ReadFile(filepath.Join(p.dir, folder, "envoy.log"))
			logs = append(logs, text...)
		}
		t.Fatalf("%v\n%s\n%s", err, output.String(), logs)
	}
	return output.String()
}
