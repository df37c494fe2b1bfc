package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/cmd/warmgate/internal/source"
	"github.com/warmgate/warmgate/e2e/harness"
)

// shippedFolders have the files that users copy.
var shippedFolders = []string{"envoy-config", "deploy"}

// passes fails if anything is wrong with a text, but for what its reader has to replace. It returns how many
// configurations are in it.
func passes(t *testing.T, name, text string) int {
	t.Helper()
	f := source.NewFile(name, []byte(harness.Own(text)))
	result := File(f, Auto, false)
	for _, found := range result.Findings {
		if found.Kind != "placeholder" && !(found.Warning && found.Kind == "secret") {
			t.Errorf("%s:%+v: %+v", name, f.Position(found.At), found)
		}
	}
	return result.Configurations
}

// TestShippedFiles checks all shipped files, with secrets of their own: nothing is wrong, and nothing is a trap but the
// example of a registry.
func TestShippedFiles(t *testing.T) {
	files, configurations := 0, 0
	for _, folder := range shippedFolders {
		err := source.Read(harness.PathT(t, folder), nil, func(f *source.File, _ bool) {
			files++
			configurations += passes(t, f.Name, string(f.Text))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 50 || configurations < 30 {
		t.Errorf("%d configurations in %d files", configurations, files)
	}
}

// TestShippedPluginsAreFound checks that no file with the plugin is passed over.
func TestShippedPluginsAreFound(t *testing.T) {
	policy := regexp.MustCompile(`(?m)^[^#\n]*lb_policy"?: "?[a-z]`)
	for _, folder := range shippedFolders {
		err := source.Read(harness.PathT(t, folder), nil, func(f *source.File, _ bool) {
			if found := File(f, Auto, false).Configurations; found == 0 && policy.Match(f.Text) {
				t.Errorf("%s: no configuration is found", f.Name)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestDocuments checks the examples in documents.
func TestDocuments(t *testing.T) {
	// Not all of the clone: whoever develops may have folders of their own in it.
	names, err := filepath.Glob(harness.PathT(t, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range append([]string{"docs", "examples", "metrics"}, shippedFolders...) {
		err := filepath.WalkDir(harness.PathT(t, folder), func(name string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(name, ".md") {
				names = append(names, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	block := regexp.MustCompile("(?ms)^```(yaml|json)\n(.*?)^```$")
	configurations := 0
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range block.FindAllStringSubmatch(string(text), -1) {
			// What shows a cap alone, to say how ai-load-balancer means it.
			if !strings.Contains(m[2], "maxRequestCount") {
				configurations += passes(t, name+"."+m[1], m[2])
			}
		}
	}
	if configurations < 30 {
		t.Errorf("%d configurations", configurations)
	}
}
