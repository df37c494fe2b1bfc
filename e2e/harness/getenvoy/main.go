// Command getenvoy leaves an Envoy as build/out/envoy, for those who have none at hand: a link to the pinned release
// that the tests run, which it fetches if it is not there, or to the binary that the environment variable ENVOY names.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/warmgate/warmgate/e2e/harness"
)

func main() {
	if err := link(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "getenvoy:", err)
		os.Exit(1)
	}
}

// link makes the link. One that is there may lead to another release, and is replaced.
func link(ctx context.Context) error {
	binary, err := harness.Envoy(ctx, "")
	if err != nil {
		return err
	}
	if binary, err = filepath.Abs(binary); err != nil {
		return err
	}
	root, err := harness.Root()
	if err != nil {
		return err
	}
	target := filepath.Join(root, "build", "out", "envoy")
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(binary, target); err != nil {
		return err
	}
	fmt.Println("build/out/envoy:", binary)
	return nil
}
