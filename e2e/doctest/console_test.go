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
// those that install, without one.
var programs = []string{"cd", "curl", "export", "git", "grep", "helm", "istioctl", "kubectl", "make", "sed"}

// TestConsole looks at the commands that need a cluster: they are of known programs, what they apply exists, and
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
			for _, line := range lab.Commands(b.text) {
				for _, command := range regexp.MustCompile(`&+|\|`).Split(strings.TrimRight(line, "& "), -1) {
					words := strings.Fields(command)
					if !slices.Contains(programs, words[0]) || words[0] == "make" && !slices.Contains(known, words[1]) {
						t.Errorf("%s:%d: %s: no test knows this", d.name, b.line, command)
					}
				}
				for _, file := range lab.Applied(line) {
					if applied = append(applied, file); !exists(t, file) {
						t.Errorf("%s:%d: there is no %s", d.name, b.line, file)
					}
				}
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
