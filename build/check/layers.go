package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
)

const (
	module = "github.com/warmgate/warmgate"
	sdk    = "github.com/higress-group/proxy-wasm-go-sdk"

	// wasmGo is the library of Higress's plugins. The tests of e2e/wasmgo, a module of its own, compare Warmgate with
	// it; nothing else may need it.
	wasmGo = "github.com/higress-group/wasm-go"
)

// pure lists the folders, with all below them, that hold decisions only: they run the same natively and inside a VM,
// and the same input gives the same output.
var pure = []string{
	"internal/jsontext", "internal/wire", "lb", "metrics", "redisclient", "plugin/config", "plugin/core",
	"plugin/discovery",
}

// sdkFolders lists the only folders that may import the SDK: the plugin, and the one that its parts are measured by.
var sdkFolders = []string{"plugin", "e2e/bench/probe"}

// untagged lists the folders whose files are the same in every build, so that native tests show what an artifact does.
var untagged = []string{"plugin/core"}

// impure lists what a pure folder's own code may not import: a way to the outside world.
var impure = []string{"net", "net/http", "os", "os/exec", "os/signal", "syscall"}

// leaves lists the pure folders that need the standard library alone, or beside it internal/wire.
var leaves = []string{"internal/jsontext", "internal/wire", "metrics", "lb/prefixindex"}

// packed lists the folders in which only internal/wire reads and writes packed values.
var packed = []string{
	"lb", "lb/memstore", "metrics", "plugin/config", "plugin/core", "plugin/discovery", "redisclient",
}

// heavy lists what no package of an artifact may import: each adds 0.2 MB or more to what every VM loads. The SDK
// imports some, but nothing of it is linked that needs them.
var heavy = []string{"crypto/sha1", "encoding/json", "fmt", "regexp"}

// clock lists the functions of package time that read the clock or wait. Time is an argument instead.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"}

// pkg is what `go list -json` tells of a package.
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
		cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Imports,Deps"}, args...)...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list: %w\n%s", err, stderr.Bytes())
		}
		for dec := json.NewDecoder(bytes.NewReader(out)); ; {
			var p pkg
			if err := dec.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("go list: %w", err)
			}
			packages = append(packages, p)
		}
	}
	return packages, nil
}

// layers returns the imports that the folder rule forbids.
func layers(packages []pkg) []string {
	var problems []string
	linked := artifactPackages(packages)
	for _, p := range packages {
		folder := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		for _, imported := range p.Imports {
			if strings.HasPrefix(imported, sdk) && !slices.Contains(sdkFolders, folder) {
				problems = append(problems,
					fmt.Sprintf("%s imports %s: only %s may", folder, imported, strings.Join(sdkFolders, ", ")))
			}
			if linked[p.ImportPath] && slices.Contains(heavy, imported) {
				problems = append(problems, fmt.Sprintf("%s imports %s: too big for the artifacts", folder, imported))
			}
			if slices.Contains(packed, folder) && imported == "encoding/binary" {
				problems = append(problems,
					fmt.Sprintf("%s imports %s: internal/wire packs its values", folder, imported))
			}
			if slices.Contains(leaves, folder) && strings.Contains(imported, ".") &&
				imported != module+"/internal/wire" {
				problems = append(problems,
					fmt.Sprintf("%s imports %s: the standard library is all it may", folder, imported))
			}
		}
		for _, dep := range p.Deps {
			if dep == wasmGo || strings.HasPrefix(dep, wasmGo+"/") {
				problems = append(problems, fmt.Sprintf("%s depends on %s: only tests in e2e/wasmgo may", folder, dep))
			}
		}
		if !pureFolder(folder + "/") {
			continue
		}
		for _, imported := range p.Imports {
			if slices.Contains(impure, imported) {
				problems = append(problems, fmt.Sprintf("%s imports %s: it must do no I/O", folder, imported))
			}
		}
		for _, dep := range p.Deps {
			if strings.HasPrefix(dep, sdk) && !slices.Contains(p.Imports, dep) {
				problems = append(problems, fmt.Sprintf("%s depends on %s", folder, dep))
			}
		}
	}
	slices.Sort(problems)
	return slices.Compact(problems)
}

// artifactPackages returns the packages of the module that the plugin is made of.
func artifactPackages(packages []pkg) map[string]bool {
	linked := map[string]bool{}
	for _, p := range packages {
		if p.ImportPath != module+"/plugin" {
			continue
		}
		linked[p.ImportPath] = true
		for _, dep := range p.Deps {
			linked[dep] = strings.HasPrefix(dep, module+"/")
		}
	}
	return linked
}

// pureFolder tells whether the file lies in a pure folder.
func pureFolder(file string) bool {
	return slices.ContainsFunc(pure, func(folder string) bool { return strings.HasPrefix(file, folder+"/") })
}

// buildTags returns the build constraints of one Go file of an untagged folder, those in the file's name included.
func buildTags(name string, text []byte) []string {
	if !slices.Contains(untagged, path.Dir(name)) {
		return nil
	}
	context := build.Default
	context.OpenFile = func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
	var problems []string
	for _, goos := range []string{"linux", "wasip1"} {
		context.GOOS = goos
		if goos == "wasip1" {
			context.GOARCH = "wasm"
		}
		for _, tags := range [][]string{nil, {"envoy"}} {
			context.BuildTags = tags
			if match, err := context.MatchFile(path.Dir(name), path.Base(name)); err != nil || !match {
				problems = append(problems, name+": a build constraint: this folder is the same in every build")
			}
		}
	}
	return slices.Compact(problems)
}

// clockReads returns the uses of the clock in one Go file.
func clockReads(name string, text []byte) []string {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
	}
	var problems []string
	ast.Inspect(file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := selector.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clock, selector.Sel.Name) {
			line := fset.Position(selector.Pos()).Line
			problems = append(problems, fmt.Sprintf("%s:%d: time.%s in %s: time is an argument here", name, line,
				selector.Sel.Name, path.Dir(name)))
		}
		return true
	})
	return problems
}
