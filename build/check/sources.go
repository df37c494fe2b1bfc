package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io"
	"path"
	"slices"
)

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
