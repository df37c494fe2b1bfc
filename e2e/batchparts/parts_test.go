package batchparts

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/pyenv"
)

// TestParts runs the tests of testdata.
func TestParts(t *testing.T) {
	python := pyenv.T(t, "examples/batch/requirements.txt", pyenv.Any...)
	files, err := filepath.Glob("testdata/test_*.py")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(python, file)
			example := harness.PathT(t, "examples/batch")
			cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "EXAMPLE="+example, "PYTHONPATH="+example)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
