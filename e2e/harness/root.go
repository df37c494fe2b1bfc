package harness

import (
	"errors"
	"os"
	"path/filepath"
)

// Root returns the folder of the module that contains the current directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("harness: not inside the Warmgate source tree: no go.mod above the current directory")
		}
		dir = parent
	}
}
