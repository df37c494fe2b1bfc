package shipped

import (
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// path returns the absolute path of a file of the source tree.
func path(t *testing.T, name string) string {
	t.Helper()
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, name)
}

// read returns a file of the source tree as text.
func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(path(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// parse returns a YAML file of the source tree, for Find and Set.
func parse(t *testing.T, name string) *yaml.Node {
	t.Helper()
	doc := new(yaml.Node)
	if err := yaml.Unmarshal(read(t, name), doc); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return doc
}

// find returns the node at a path, decoded into a T.
func find[T any](t *testing.T, doc *yaml.Node, where string) T {
	t.Helper()
	var value T
	node, err := harness.Find(doc, where)
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Decode(&value); err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	return value
}
