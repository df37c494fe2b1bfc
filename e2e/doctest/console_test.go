package doctest

import (
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/mesh/lab"
)

// programs are those that commands in console blocks may run. Such commands need a cluster: the tests of e2e/mesh run
// those that install, without one. TestGuide runs those of docs/envoy.md, with what make leaves in build/out, and
// TestCommands of build/image those of docs/artifacts.md, but for cosign's. Those of examples need Docker: the tests
// of e2e/compose and e2e/mesh/envoygateway run what they can without.
var programs = []string{
	"../build/out/envoy", "../build/out/warmgate", "base64", "cd", "cosign", "curl", "docker", "export", "git", "grep",
	"helm", "istioctl", "kind", "kubectl", "make", "openssl", "sed", "seq", "sha256sum", "xargs",
}

// file matches what a command reads: with -f, or as a patch.
var file = regexp.MustCompile(` (?:-f|--patch-file) (\S+)`)

// TestConsole looks at the commands that need a cluster: they are of known programs, what they read exists, and
// together they apply each file for Istio and Envoy Gateway. Those of a README are those of a document.
func TestConsole(t *testing.T) {
	known := targets(t)
	var documented, applied []string
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			if b.language != "console" {
				continue
			}
			if strings.HasPrefix(d.name, "docs/") {
				documented = append(documented, b.text)
			}
			list := lab.Commands(b.text)
			if len(list) == 0 {
				t.Errorf("%s:%d: no command", d.name, b.line)
			}
			for _, line := range list {
				for _, command := range parts(line) {
					words := strings.Fields(command)
					if !slices.Contains(programs, words[0]) || words[0] == "make" && !makes(words[1:], known) {
						t.Errorf("%s:%d: %s: no test knows this", d.name, b.line, command)
					}
				}
				for _, m := range file.FindAllStringSubmatch(line, -1) {
					if !given(t, d, m[1]) {
						t.Errorf("%s:%d: there is no %s", d.name, b.line, m[1])
					}
				}
				applied = append(applied, lab.Applied(line)...)
			}
		}
	}
	for _, name := range []string{"README.md", "README_ZH.md"} {
		for _, b := range open(t, name).blocks {
			if b.language == "console" && !slices.Contains(documented, b.text) {
				t.Errorf("%s:%d: no document has these commands", name, b.line)
			}
		}
	}
	for _, document := range meshes {
		folder := path.Join("deploy", strings.TrimSuffix(path.Base(document), ".md"))
		files, err := filepath.Glob(filepath.Join(root(t), folder, "*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", folder, len(files), err)
		}
		for _, file := range files {
			if name := path.Join(folder, filepath.Base(file)); !slices.Contains(applied, name) {
				t.Errorf("no document applies %s", name)
			}
		}
	}
}

// parts splits a line into the commands that it runs, one after another or one into another. What is quoted is left
// out.
func parts(line string) []string {
	line = regexp.MustCompile(`'[^']*'|"[^"]*"`).ReplaceAllString(line, "…")
	return regexp.MustCompile(`&+|\|`).Split(strings.TrimRight(line, "& "), -1)
}

// makes reports whether all targets that make is given exist.
func makes(arguments, known []string) bool {
	for i, a := range arguments {
		folder := a == "-C" || i > 0 && arguments[i-1] == "-C"
		if !folder && !strings.Contains(a, "=") && !slices.Contains(known, a) {
			return false
		}
	}
	return len(arguments) > 0
}

// given reports whether a user has the file that a command reads: it is in the tree, or in the folder where the
// document has gone before, or the document shows it, with its name in the first line; or it is no file, but the output
// of another command.
func given(t *testing.T, d *document, name string) bool {
	t.Helper()
	return name == "-" || exists(t, name) || exists(t, path.Join(path.Dir(d.name), name)) ||
		d.name == "docs/envoy.md" && exists(t, "envoy-config/"+name) ||
		slices.ContainsFunc(d.blocks, func(b block) bool { return strings.HasPrefix(b.text, "# "+name+"\n") })
}
