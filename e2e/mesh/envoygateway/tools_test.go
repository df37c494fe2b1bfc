package envoygateway

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// built has a key for each command that is up to date.
var built sync.Map

// command builds a command of Envoy Gateway, in the version of go.mod, and returns its path. It takes minutes once, and
// seconds when it is there.
func command(t *testing.T, name string) string {
	t.Helper()
	binary := filepath.Join(harness.PathT(t, ".cache"), "envoy-gateway", name)
	if _, ok := built.Load(name); ok {
		return binary
	}
	build := exec.Command("go", "build", "-o", binary, "-ldflags=-s -w", "github.com/envoyproxy/gateway/cmd/"+name)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	built.Store(name, true)
	return binary
}

// egctl runs the command line of Envoy Gateway and returns what it prints.
func egctl(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(command(t, "egctl"), args...)
	var failed bytes.Buffer
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("egctl %s: %v\n%s", strings.Join(args, " "), err, failed.String())
	}
	return string(out)
}

// resource is a Kubernetes object.
type resource = map[string]any

// read returns the resources in a file of deploy/envoy-gateway.
func read(t *testing.T, name string) []resource {
	t.Helper()
	return parse(t, string(harness.ReadT(t, "deploy/envoy-gateway/"+name)))
}

func parse(t *testing.T, text string) []resource {
	t.Helper()
	var list []resource
	for dec := yaml.NewDecoder(strings.NewReader(text)); ; {
		var r resource
		if err := dec.Decode(&r); err != nil {
			if len(list) == 0 {
				t.Fatal(err)
			}
			return list
		}
		list = append(list, r)
	}
}

// write puts resources into a file.
func write(t *testing.T, name string, list []resource) {
	t.Helper()
	var text bytes.Buffer
	enc := yaml.NewEncoder(&text)
	for _, r := range list {
		if err := enc.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(name, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// at returns what is at a path of keys and indexes in a resource.
func at(t *testing.T, value any, path ...any) any {
	t.Helper()
	for i, step := range path {
		switch step := step.(type) {
		case string:
			m, ok := value.(map[string]any)
			if !ok || m[step] == nil {
				t.Fatalf("there is no %v", path[:i+1])
			}
			value = m[step]
		case int:
			list, ok := value.([]any)
			if !ok || step >= len(list) {
				t.Fatalf("there is no %v", path[:i+1])
			}
			value = list[step]
		}
	}
	return value
}

// set replaces what is at a path that ends in a key.
func set(t *testing.T, value, new any, path ...any) {
	t.Helper()
	last := len(path) - 1
	at(t, value, path[:last]...).(map[string]any)[path[last].(string)] = new
}

// find returns the one resource of a kind.
func find(t *testing.T, list []resource, kind string) resource {
	t.Helper()
	var found resource
	for _, r := range list {
		if r["kind"] == kind {
			if found != nil {
				t.Fatalf("two resources of the kind %s", kind)
			}
			found = r
		}
	}
	if found == nil {
		t.Fatalf("no resource of the kind %s", kind)
	}
	return found
}
