package redisserver

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/warmgate/warmgate/e2e/pinned"
)

// series is how the output of a server of Redis70 with --version begins.
const series = "Redis server v=7.0."

// debian returns a Redis 7.0 server: one on the PATH, or one unpacked from Debian packages with the libraries it needs.
// Nothing is installed.
func debian(ctx context.Context, pins, folder string) (program, error) {
	if path, err := exec.LookPath("redis-server"); err == nil {
		if p := (program{path: path}); p.check(ctx) == nil {
			return p, nil
		}
	}
	files := filepath.Join(folder, "files")
	err := pinned.Once(files, func() error {
		packages, err := readPins(pins)
		if err != nil {
			return err
		}
		return unpackDebian(ctx, packages, folder, files)
	})
	if err != nil {
		return program{}, err
	}
	libraries, err := filepath.Glob(filepath.Join(files, "usr", "lib", "*-linux-gnu*"))
	if err != nil {
		return program{}, err
	}
	// redis-server is a link to redis-check-rdb, which behaves by the name under which it is called.
	p := program{
		path: filepath.Join(files, "usr", "bin", "redis-server"),
		env:  []string{"LD_LIBRARY_PATH=" + strings.Join(libraries, ":")},
	}
	return p, p.check(ctx)
}

// check reports whether the program runs and is of the series.
func (p program) check(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, p.path, "--version")
	cmd.Env = append(os.Environ(), p.env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("redisserver: %s --version: %w\n%s", p.path, err, out)
	}
	if !strings.HasPrefix(string(out), series) {
		return fmt.Errorf("redisserver: %s is not of the 7.0 series: %s", p.path, out)
	}
	return nil
}

// pin is one line of the file of pins.
type pin struct{ name, version, arch, hash string }

// readPins reads lines of package, version, architecture and SHA-256, with comments after #.
func readPins(file string) ([]pin, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var pins []pin
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		switch fields := strings.Fields(line); len(fields) {
		case 0:
		case 4:
			pins = append(pins, pin{fields[0], fields[1], fields[2], fields[3]})
		default:
			return nil, fmt.Errorf("redisserver: %s: want package, version, architecture, hash: %q", file, line)
		}
	}
	return pins, lines.Err()
}

// unpackDebian fetches the packages and unpacks them into target, which appears only when it is whole.
func unpackDebian(ctx context.Context, pins []pin, folder, target string) error {
	for _, tool := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%w: Redis 7.0 comes from Debian packages: %w", ErrUnavailable, err)
		}
	}
	packages := filepath.Join(folder, "packages")
	if err := fetchDebian(ctx, pins, folder, packages); err != nil {
		return err
	}
	defer os.RemoveAll(packages)
	files, err := filepath.Glob(filepath.Join(packages, "*.deb"))
	if err != nil {
		return err
	}
	if err := os.RemoveAll(target + ".part"); err != nil {
		return err
	}
	for _, file := range files {
		if err := verify(file, pins); err != nil {
			return err
		}
		extract := exec.CommandContext(ctx, "dpkg-deb", "--extract", file, target+".part")
		if out, err := extract.CombinedOutput(); err != nil {
			return fmt.Errorf("redisserver: unpack %s: %w\n%s", file, err, out)
		}
	}
	return os.Rename(target+".part", target)
}

// fetchDebian downloads the packages into dir, from the sources that this machine is configured with: in the pinned
// versions, or, once a security update has replaced those in the archive, in its current ones. It uses the machine's
// own lists of packages first; where they are missing or old, it downloads lists of its own.
func fetchDebian(ctx context.Context, pins []pin, folder, dir string) error {
	exact, current := []string{"download"}, []string{"download"}
	for _, p := range pins {
		exact = append(exact, p.name+"="+p.version)
		current = append(current, p.name)
	}
	lists, err := filepath.Abs(filepath.Join(folder, "lists"))
	if err != nil {
		return err
	}
	own := []string{"-o", "Dir::State::lists=" + lists, "-o", "Dir::Cache=" + lists}
	first := apt(ctx, dir, nil, exact)
	if first == nil {
		return nil
	}
	defer os.RemoveAll(lists)
	if err := os.MkdirAll(filepath.Join(lists, "partial"), 0o755); err != nil {
		return err
	}
	// One source of many that cannot be reached makes this fail; what counts is whether the download works then.
	update := apt(ctx, dir, own, []string{"update"})
	if apt(ctx, dir, own, exact) == nil {
		return nil
	}
	last := apt(ctx, dir, own, current)
	if last == nil {
		return nil
	}
	return fmt.Errorf("%w: no source of Debian packages has Redis 7.0: %w", ErrUnavailable,
		errors.Join(first, update, last))
}

// apt runs apt-get in an empty folder dir.
func apt(ctx context.Context, dir string, options, command []string) error {
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	// As root, apt-get would download as a user who may not write here.
	args := append([]string{"--quiet=2", "-o", "APT::Sandbox::User=root"}, options...)
	cmd := exec.CommandContext(ctx, "apt-get", append(args, command...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w\n%s", command[0], err, out)
	}
	return nil
}

// verify compares a package of a pinned version with its hash. One of a later version has been verified by apt-get
// alone, against the archive's signature.
func verify(file string, pins []pin) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	for _, p := range pins {
		// apt-get writes the colon of a version as %3a.
		name := fmt.Sprintf("%s_%s_%s.deb", p.name, strings.ReplaceAll(p.version, ":", "%3a"), p.arch)
		if filepath.Base(file) == name && hex.EncodeToString(sum[:]) != p.hash {
			return fmt.Errorf("redisserver: %s has another hash than the pinned one: %x", name, sum)
		}
	}
	return nil
}
