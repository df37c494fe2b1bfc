package doctest

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/warmgate/warmgate/e2e/freeport"
	"github.com/warmgate/warmgate/e2e/harness"
)

// place is where commands run: a folder, whose programs in bin come first, and the ports that are there in the place of
// documented ones.
type place struct {
	dir, port string // the latter of the gateway
	engine    int    // port of the first server of warmgate engine; 0 if the commands start none
}

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
	var models []string
	for _, m := range harness.Models(t, 2) {
		_, port, err := net.SplitHostPort(m.Addr)
		if err != nil {
			t.Fatal(err)
		}
		models = append(models, port)
	}
	return place{dir: dir, port: ports(t, config, models)}
}

// engine finds ports for two simulated servers, and returns the first one.
func engine(t *testing.T) int {
	t.Helper()
	port, err := freeport.Get(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// empty is a folder with nothing in it, for a user who starts two simulated servers. What is fetched comes from this
// machine: git copies the source tree, whose ports are free ones, and `make envoy` finds an Envoy that ENVOY names. All
// else is as it is printed.
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
	first := engine(t)
	models := []string{strconv.Itoa(first), strconv.Itoa(first + 1)}
	return place{dir, ports(t, filepath.Join(tree, "envoy-config"), models), first}
}

// ports writes the ports of two model servers and a free one for the gateway into the files of a folder, and returns
// the latter.
func ports(t *testing.T, config string, models []string) string {
	t.Helper()
	gateway := harness.FreePortT(t)
	replace(t, filepath.Join(config, "envoy.yaml"), "port_value: 10000", "port_value: "+gateway)
	for i, port := range []string{"8000", "8001"} {
		replace(t, filepath.Join(config, "endpoints.yaml"), "port_value: "+port+"}", "port_value: "+models[i]+"}")
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
	if p.engine > 0 {
		script = strings.NewReplacer("warmgate engine ", fmt.Sprintf("warmgate engine --port %d ", p.engine),
			"127.0.0.1:8000", fmt.Sprintf("127.0.0.1:%d", p.engine),
			"127.0.0.1:8001", fmt.Sprintf("127.0.0.1:%d", p.engine+1)).Replace(script)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 6*harness.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-eu", "-c", script)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(p.dir, "bin")+":"+os.Getenv("PATH"), "MAKEFLAGS=")
	// A file, not a pipe, which would be read until all that the shell has started has ended.
	output, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	// The shell and all that it has started are one process group, which ends with the test.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	err = cmd.Wait()
	printed, readErr := os.ReadFile(output.Name())
	if readErr != nil {
		t.Fatal(readErr)
	}
	if err != nil {
		var logs []byte
		for _, folder := range []string{"envoy-config", "warmgate/envoy-config"} {
			text, _ := os.ReadFile(filepath.Join(p.dir, folder, "envoy.log"))
			logs = append(logs, text...)
		}
		t.Fatalf("%v\n%s\n%s", err, printed, logs)
	}
	return string(printed)
}
