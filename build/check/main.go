// Command check holds the source tree to the rules that no ready-made tool knows: the length of files and functions,
// the width of lines, which folder may import what, the shape of packages, well-formed JSON and YAML, names in the Lua
// of Redis, and the size and imports of the Wasm artifacts. It prints one line per violation and exits with 1 if there
// is any. Run it in the module's root; `make check` does.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
)

func main() {
	problems, err := run()
	for _, p := range problems {
		fmt.Println(p)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
	}
	if err != nil || len(problems) > 0 {
		os.Exit(1)
	}
}

// run returns all violations of the tree in the current directory.
func run() ([]string, error) {
	files, err := tracked()
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if isText(name) {
			problems = append(problems, widths(name, text)...)
		}
		problems = append(problems, documentLength(name, text)...)
		problems = append(problems, goldenLength(name, text)...)
		switch {
		case strings.HasSuffix(name, ".go"):
			problems = append(problems, lengths(name, text)...)
			problems = append(problems, buildTags(name, text)...)
			if below(name, pure) && !strings.HasSuffix(name, "_test.go") {
				problems = append(problems, clockReads(name, text)...)
			}
		case strings.Contains(name, "/templates/"): // text that becomes YAML when Helm renders it
		case strings.HasSuffix(name, ".json"), strings.HasSuffix(name, ".yaml"), strings.HasSuffix(name, ".yml"):
			problems = append(problems, syntax(name, text)...)
		}
	}
	packages, err := list()
	if err != nil {
		return nil, err
	}
	problems = append(problems, layers(packages)...)
	problems = append(problems, luaScripts()...)
	shapes, err := shapes()
	if err != nil {
		return nil, err
	}
	problems = append(problems, shapes...)
	artifacts, err := artifacts("build/out")
	return append(problems, artifacts...), err
}

// isText reports whether people read the file line by line: code, scripts and documentation, but no test data.
func isText(name string) bool {
	if strings.Contains(name, "testdata/") {
		return false
	}
	switch path.Ext(name) {
	case ".go", ".lua", ".sh", ".py", ".mk", ".md", ".yaml", ".yml":
		return true
	}
	return false
}

// tracked returns the files that git tracks or would track, without those that are deleted in the working tree.
func tracked() ([]string, error) {
	out, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate").Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	files := strings.Split(strings.TrimSpace(string(out)), "\n")
	return slices.DeleteFunc(files, func(name string) bool {
		info, err := os.Stat(name)
		return err != nil || !info.Mode().IsRegular()
	}), nil
}
