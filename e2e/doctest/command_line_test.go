package doctest

import (
	"maps"
	"os"
	"os/exec"
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
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", filepath.Join(dir, "bin")+"/",
		"./cmd/warmgate")
	build.Dir = root(t)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	files := os.DirFS(harness.PathT(t, "envoy-config"))
	if err := os.CopyFS(filepath.Join(dir, "envoy-config"), files); err != nil {
		t.Fatal(err)
	}
	shows(t, commandLine, play(t, place{dir: dir, engine: engine(t)}, strings.Join(shell(t, commandLine), "")))
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
