package harness

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"

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
	return out, nil
}
