package harness

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// module begins the go.mod of Warmgate itself. Those of the modules nested in it name themselves after it.
const module = "module github.com/warmgate/warmgate\n"

// Root returns the folder of Warmgate's module, in which the current directory is, or a module nested in it.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		// Without a go.mod there is no text.
		if text, _ := os.ReadFile(filepath.Join(dir, "go.mod")); strings.HasPrefix(string(text), module) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("harness: not inside the Warmgate source tree: its go.mod is not above here")
		}
		dir = parent
	}
}
