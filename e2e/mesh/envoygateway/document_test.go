package envoygateway

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/mesh/lab"
)

// TestDocument validates each resource in the document.
func TestDocument(t *testing.T) {
	for _, block := range lab.Blocks(t, document, "yaml") {
		if !strings.Contains(block, "apiVersion:") || strings.Contains(block, kindOfConfig) {
			continue // a part of a resource; TestInstall runs the configuration of Envoy Gateway
		}
		file := filepath.Join(t.TempDir(), "block.yaml")
		if err := os.WriteFile(file, []byte(block), 0o644); err != nil {
			t.Fatal(err)
		}
		if out := egctl(t, "x", "validate", "-f", file); !strings.Contains(out, "OK") {
			t.Errorf("%s\n%s", out, block)
		}
	}
}
