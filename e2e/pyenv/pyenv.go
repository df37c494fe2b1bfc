// Package pyenv makes environments of Python with pinned packages, in the cache folder of the source tree.
package pyenv

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/pinned"
)

// Any are the names under which any Python 3 is looked for.
var Any = []string{"python3"}

// T returns a Python that has what a file of the source tree requires, by hash. It is made once for each such file, by
// the first of the named Pythons that there is. Packages' programs do not run there: python -m does.
func T(t testing.TB, requirements string, pythons ...string) string {
	t.Helper()
	sum := sha256.Sum256(harness.ReadT(t, requirements))
	root := harness.PathT(t, ".cache/python-"+hex.EncodeToString(sum[:6]))
	err := pinned.Once(root, func() error {
		python, err := find(pythons)
		if err != nil {
			return err
		}
		part := root + ".part"
		if err := errors.Join(os.RemoveAll(part), create(part, python, harness.PathT(t, requirements))); err != nil {
			return err
		}
		return os.Rename(part, root)
	})
	if err != nil {
		t.Fatalf("%s: %v", requirements, err)
	}
	return filepath.Join(root, "bin", "python")
}

// find returns the path of the first Python of these names that works: what pyenv puts in the PATH may name versions
// that are not in use.
func find(names []string) (string, error) {
	for _, name := range names {
		text, err := exec.Command(name, "-c", "import sys; print(sys.executable, end='')").Output()
		if err == nil {
			return string(text), nil
		}
	}
	return "", fmt.Errorf("pyenv: none of %v is in the PATH", names)
}

// create makes an environment.
func create(root, python, requirements string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	for _, args := range [][]string{
		{python, "-m", "venv", root},
		{
			filepath.Join(root, "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
			"--no-deps", "--only-binary", ":all:", "--require-hashes", "--requirement", requirements,
		},
	} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", args, err, out)
		}
	}
	return nil
}
