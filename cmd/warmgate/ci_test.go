package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// TestPreCommit runs the command of the hook as pre-commit does: with the names of changed files behind it.
func TestPreCommit(t *testing.T) {
	var hooks []struct {
		ID, Entry, Language, Exclude string
		Types                        []string `yaml:"types_or"`
	}
	if err := yaml.Unmarshal(harness.ReadT(t, ".pre-commit-hooks.yaml"), &hooks); err != nil || len(hooks) != 1 {
		t.Fatalf("%+v: %v", hooks, err)
	}
	h := hooks[0]
	excluded := regexp.MustCompile(h.Exclude)
	if h.ID != "warmgate-validate" || h.Language != "golang" || strings.Join(h.Types, " ") != "yaml json" ||
		!excluded.MatchString("chart/templates/a.yaml") || excluded.MatchString("templates.yaml") {
		t.Errorf("%+v", h)
	}
	words := strings.Fields(h.Entry)
	if words[0] != "warmgate" {
		t.Fatalf("the hook runs %s", words[0])
	}
	files(t, map[string]string{"bad.yaml": bad, "good.yaml": good, "other.json": "{"})
	if status, out, _ := play("", append(words[1:], "bad.yaml", "good.yaml", "other.json")...); status != 1 ||
		strings.Count(out, "\n") != 1 || !strings.HasPrefix(out, "bad.yaml:2:13") {
		t.Errorf("%d\n%s", status, out)
	}
	if status, out, _ := play("", append(words[1:], "good.yaml", "other.json")...); status != 0 {
		t.Errorf("%d\n%s", status, out)
	}
}

// TestAction runs the script of the GitHub Action as a runner does: in the user's folder, with the inputs in the
// environment.
func TestAction(t *testing.T) {
	for _, program := range []string{"bash", "go"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	var action struct {
		Inputs map[string]struct{ Default string }
		Runs   struct {
			Using string
			Steps []struct {
				Uses, Shell, Run string
				Env              map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(harness.ReadT(t, "action.yml"), &action); err != nil {
		t.Fatal(err)
	}
	step := action.Runs.Steps[len(action.Runs.Steps)-1]
	if action.Runs.Using != "composite" || step.Shell != "bash" {
		t.Fatalf("%+v", action)
	}
	root := harness.PathT(t, ".")
	files(t, map[string]string{"a b.yaml": bad, "warned/w.yaml": warned})
	for _, c := range []struct {
		files, strict, prints string
		fails                 bool
	}{
		{action.Inputs["files"].Default, action.Inputs["strict"].Default, "::error file=a b.yaml,line=2,col=13", true},
		{"\na b.yaml\nwarned", "false", "::warning file=warned/w.yaml,line=2", true},
		{"warned", "false", "::warning file=warned/w.yaml,line=2", false},
		{"warned", "true", "::warning file=warned/w.yaml,line=2", true},
	} {
		inputs := map[string]string{"${{ inputs.files }}": c.files, "${{ inputs.strict }}": c.strict}
		// A runner's bash stops at the first command that fails.
		cmd := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step.Run)
		cmd.Env = append(os.Environ(), "GITHUB_ACTION_PATH="+root, "TMPDIR="+t.TempDir(),
			"GOFLAGS=-mod=vendor", "GOWORK=/missing/go.work") // what a job may have for its own code
		for name, input := range step.Env {
			value, ok := inputs[input]
			if !ok {
				t.Fatalf("%s is %s, which is no input", name, input)
			}
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		out, err := cmd.CombinedOutput()
		if !strings.Contains(string(out), c.prints) || (err != nil) != c.fails {
			t.Errorf("%q, strict %s: %v\n%s", c.files, c.strict, err, out)
		}
	}
}
