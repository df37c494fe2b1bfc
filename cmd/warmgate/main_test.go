package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// files writes files into a folder of the test's own, which becomes the current one.
func files(t *testing.T, texts map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

// play runs the program. It returns the exit status and what is printed.
func play(stdin string, args ...string) (status int, out, errs string) {
	var stdout, stderr bytes.Buffer
	status = run(args, streams{strings.NewReader(stdin), &stdout, &stderr})
	return status, stdout.String(), stderr.String()
}

const (
	good   = "lb_policy: prefix_cache\n"
	warned = "lb_policy: prefix_cache\nlb_config: {push: pending}\n"
	bad    = "lb_policy: prefix_cache\nlb_config: {max_infligth: 8}\n"
)

// large is more than is read of a file.
var large = strings.Repeat("# warmgate\n", 17<<20/len("# warmgate\n"))

// TestValidate checks exit statuses, and what is printed where.
func TestValidate(t *testing.T) {
	files(t, map[string]string{
		"good.yaml": good, "warned.yaml": warned, "bad.yaml": bad, "other.yaml": "a: 1\n",
		"folder/good.yml": good, "folder/.git/bad.yaml": bad, "folder/other.json": "{", "folder/note.md": bad,
		"chart/Chart.yaml": "name: warmgate", "chart/templates/bad.yaml": "{{ lb_policy }}",
		"chart/templates.yaml": good, "folder/zero.yaml": bad,
		"hidden/.a.yaml": bad, "upper/A.YAML": bad, "large/a.json": large, "large/b.yaml": good,
		"wrong/other.yaml": "kind: wasmplugin\nspec: {lb_policy: prefix_cache}",
	})
	if err := os.Symlink("upper", "linked"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("good.yaml", "folder/link.yaml"); err != nil { // which leads to nothing
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, stdin string
		status      int
		out, errs   string
	}{
		{"good.yaml", "", 0, "", "1 configuration in 1 file: 0 errors, 0 warnings"},
		{"warned.yaml", "", 0, "warned.yaml:2:13: warning: lb_config.push: a cap without a queue", "1 warning"},
		{"--strict warned.yaml", "", 1, "[cap-without-queue]", "1 warning"},
		{"bad.yaml good.yaml", "", 1, "bad.yaml:2:13: error: lb_config.max_infligth: unknown key; did", "1 error"},
		{"-", bad, 1, "stdin:2:13: error", "1 error"},
		{"-o json bad.yaml", "", 1, `"line": 2`, ""},
		{"-o sarif bad.yaml", "", 1, `"startColumn": 13`, ""},
		{"-o github bad.yaml", "", 1, "::error file=bad.yaml,line=2,col=13,", ""},
		{"--gateway envoy good.yaml", "", 1, "lb_config.envoy: missing", ""},
		{"other.yaml", "", 0, "other.yaml:1:1: warning: no configuration", ""},
		{"--skip-others other.yaml folder/other.json bad.yaml", "", 1, "bad.yaml:2:13", "in 1 file"},
		{"folder", "", 2, "folder/zero.yaml:2:13", "link.yaml"},
		{"folder/good.yml chart", "", 0, "", "2 configurations in 3 files"},
		{"nothing.yaml bad.yaml", "", 2, "bad.yaml:2:13", "nothing.yaml: no such file"},
		{"nothing.yaml bad.yaml", "", 2, "bad.yaml:2:13", "1 configuration in 1 file"},
		{"hidden", "", 0, "hidden:1:1: warning: no configuration", "in 0 files"},
		{"--strict -o github hidden", "", 1, "::warning file=hidden,line=1", ""},
		{"-o json nothing.yaml", "", 2, `"stat nothing.yaml: no such file or directory"`, ""},
		{"-o sarif nothing.yaml good.yaml", "", 2, `"executionSuccessful": false`, ""},
		{"good.yaml ./good.yaml", "", 0, "", "1 configuration in 1 file"},
		{"linked", "", 1, "linked/A.YAML:2:13: error", "1 configuration in 1 file"},
		{"large upper", "", 2, "upper/A.YAML:2:13: error", "large/a.json: it has more than 16 MiB\n"},
		{"-", large, 2, "", "read stdin: it has more than 16 MiB\n"},
		{"wrong upper", "", 1, "wrong/other.yaml:1:1: warning: no configuration", "1 configuration in 2 files"},
		{"", "", 2, "", "requires at least 1 arg"},
		{"-o xml good.yaml", "", 2, "", "text, json, sarif, github"},
		{"--gateway nginx good.yaml", "", 2, "", "auto, envoy, higress"},
		{"--no-such-flag", "", 2, "", "See 'warmgate validate --help'"},
		{"-o xml missing.yaml", "", 2, "", "--output\" flag"},
	} {
		status, out, errs := play(c.stdin, append([]string{"validate"}, strings.Fields(c.args)...)...)
		if status != c.status || !strings.Contains(out, c.out) || !strings.Contains(errs, c.errs) {
			t.Errorf("validate %s: %d\n%s%s\nwant %d %s %s", c.args, status, out, errs, c.status, c.out, c.errs)
		}
		if c.out == "" && out != "" || strings.Contains(out, "\x1b") {
			t.Errorf("validate %s prints %q", c.args, out)
		}
	}
}

// TestColor is in color on a terminal alone, and not where it is not wanted.
func TestColor(t *testing.T) {
	terminal, err := os.OpenFile("/dev/null", os.O_WRONLY, 0) // a character device, as terminals are
	if err != nil {
		t.Skip(err)
	}
	defer terminal.Close()
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	bar := &progress{out: terminal, all: 1}
	if bar.at(1); !bar.drawn {
		t.Error("there is no bar on a terminal")
	}
	if !inColor(terminal) || inColor(new(bytes.Buffer)) {
		t.Error("color does not go by the terminal")
	}
	t.Setenv("NO_COLOR", "1")
	if inColor(terminal) || !isTerminal(terminal) {
		t.Error("NO_COLOR is not heeded, or hides the terminal")
	}
}

// TestVersion prints the version for people and programs.
func TestVersion(t *testing.T) {
	if status, out, _ := play("", "version"); status != 0 || !strings.HasPrefix(out, "warmgate ") {
		t.Errorf("%d %s", status, out)
	}
	if status, out, _ := play("", "--version"); status != 0 || !strings.HasPrefix(out, "warmgate version ") {
		t.Errorf("%d %s", status, out)
	}
	_, out, _ := play("", "version", "-o", "json")
	var b build
	if err := json.Unmarshal([]byte(out), &b); err != nil || b.Version == "" || b.Go == "" || b.Platform == "" {
		t.Errorf("%s: %v", out, err)
	}
	if status, _, errs := play("", "version", "-o", "xml"); status != 2 || !strings.Contains(errs, "text, json") {
		t.Errorf("%d %s", status, errs)
	}
}

// TestManualAndCompletion checks that each command has a page, and that shells complete commands and formats.
func TestManualAndCompletion(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	if status, _, errs := play("", "man", dir); status != 0 {
		t.Fatal(errs)
	}
	for _, page := range []string{
		"", "-validate", "-simulate", "-calibrate", "-engine", "-snapshot", "-top", "-version", "-man",
	} {
		text, err := os.ReadFile(filepath.Join(dir, "warmgate"+page+".1"))
		if err != nil || !bytes.Contains(text, []byte(".TH")) {
			t.Errorf("%s: %v", page, err)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if status, out, _ := play("", "completion", shell); status != 0 || !strings.Contains(out, "warmgate") {
			t.Errorf("%s: %d", shell, status)
		}
	}
	if status, out, errs := play("", "completion", "sh"); status != 2 || out != "" || !strings.Contains(errs, `"sh"`) {
		t.Errorf("%d %s%s", status, out, errs)
	}
	if status, out, _ := play("", "completion"); status != 0 || !strings.Contains(out, "powershell") {
		t.Errorf("%d %s", status, out)
	}
	if _, out, _ := play("", "__complete", "validate", "-o", "s"); !strings.Contains(out, "sarif") {
		t.Error(out)
	}
	if status, _, errs := play("", "valdate"); status != 2 || !strings.Contains(errs, "validate") {
		t.Errorf("%d %s", status, errs)
	}
}
