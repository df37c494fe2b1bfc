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

// Host is the kind of gateway that an artifact is built for.
type Host string

// The two artifacts, and one that is never shipped: stock Envoy's with a header by which a test crashes a VM.
const (
	HostEnvoy      Host = "envoy"
	HostHigress    Host = "higress"
	HostEnvoyChaos Host = "envoy-chaos"
)

// Wasm builds the plugin for host with build/wasm.sh, as `make wasm` does, and returns the path of the artifact. When
// nothing has changed it takes a fraction of a second.
func Wasm(ctx context.Context, host Host) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	out := filepath.Join(root, "build", "out", "warmgate-"+string(host)+".wasm")
	unlock, err := pinned.Lock(filepath.Join(root, ".cache", "wasm-"+string(host)+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	cmd := exec.CommandContext(ctx, filepath.Join(root, "build", "wasm.sh"), string(host), out)
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("harness: build the plugin for %s: %w\n%s", host, err, text)
	}
	return out, look(out)
}

// BuildWasm builds another plugin, a package named by its folder from the root as "./folder", as Warmgate is built, and
// returns the path of the module.
func BuildWasm(ctx context.Context, folder string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	name := strings.ReplaceAll(strings.TrimPrefix(folder, "./"), "/", "-")
	out := filepath.Join(root, "build", "out", name+".wasm")
	unlock, err := pinned.Lock(filepath.Join(root, ".cache", "wasm-"+name+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	linked := out + ".linked"
	build := exec.CommandContext(ctx, "go", "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false",
		"-ldflags=-s -w", "-o", linked, folder)
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	for _, cmd := range []*exec.Cmd{build, exec.CommandContext(ctx, "go", "run", "./build/shrink", linked, out)} {
		cmd.Dir = root
		if text, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("harness: build %s: %w\n%s", folder, err, text)
		}
	}
	return out, look(out)
}

// look has Go's test cache know that the test depends on an artifact. Only child processes build it and read it, and
// what these do it does not see: a test would pass by its result with another plugin.
func look(artifact string) error {
	_, err := os.Stat(artifact)
	return err
}
