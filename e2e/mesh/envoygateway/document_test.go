package envoygateway

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

const document = "docs/envoy-gateway.md"

// blocks returns the fenced blocks of the document in a language.
func blocks(t *testing.T, language string) []string {
	t.Helper()
	var list []string
	pattern := regexp.MustCompile("(?ms)^```" + language + "\n(.*?)^```$")
	for _, m := range pattern.FindAllStringSubmatch(string(harness.ReadT(t, document)), -1) {
		list = append(list, m[1])
	}
	return list
}

// TestDocument validates each resource in the document, and looks at its commands: each names files that TestValidate
// knows, or only asks.
func TestDocument(t *testing.T) {
	for _, block := range blocks(t, "yaml") {
		if !strings.Contains(block, "apiVersion:") || strings.Contains(block, "kind: EnvoyGateway\n") {
			continue // a part of a resource; TestControlPlane runs the configuration of Envoy Gateway
		}
		file := filepath.Join(t.TempDir(), "block.yaml")
		if err := os.WriteFile(file, []byte(block), 0o644); err != nil {
			t.Fatal(err)
		}
		if out := egctl(t, "x", "validate", "-f", file); !strings.Contains(out, "OK") {
			t.Errorf("%s\n%s", out, block)
		}
	}
	applied := 0
	for _, block := range blocks(t, "console") {
		for _, line := range strings.Split(strings.TrimSpace(block), "\n") {
			words := strings.Fields(line)
			for i, word := range words {
				if word != "-f" {
					continue
				}
				applied++
				if _, err := os.Stat(harness.PathT(t, words[i+1])); err != nil {
					t.Errorf("%s: %v", line, err)
				}
			}
		}
	}
	if applied < 3 {
		t.Errorf("%d files are applied", applied)
	}
}
