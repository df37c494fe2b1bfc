package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
)

// pkg is what `go list -json` prints about a package.
type pkg struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

// list returns the packages of the module. The plugin is listed as it is built: for wasip1, with both sets of build
// tags.
func list() ([]pkg, error) {
	var packages []pkg
	for _, args := range [][]string{
		{"./..."},
		{"-tags", "envoy", "./plugin/..."},
	} {
		listed, err := goList[pkg](append([]string{"-json=ImportPath,Imports,Deps"}, args...)...)
		if err != nil {
			return nil, err
		}
		packages = append(packages, listed...)
	}
	return packages, nil
}

// goList returns what `go list` prints about each package, as JSON, with the arguments.
func goList[P any](args ...string) (packages []P, err error) {
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.Bytes())
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p P
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		packages = append(packages, p)
	}
}
