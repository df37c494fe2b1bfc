package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
)

// Longest file and function, in lines. A function is counted from its keyword to its closing brace, without its
// comment.
const (
	maxFileLines     = 400
	maxFunctionLines = 60
)

// maxDocumentLines has the longest that documents may be which people read as a whole, by patterns of their names.
var maxDocumentLines = map[string]int{
	"ARCHITECTURE.md": 300, "README.md": 140, "README_ZH.md": 140, "docs/benchmarks.md": 300, "docs/design/*.md": 120,
}

// documentLength returns whether a document is longer than that.
func documentLength(name string, text []byte) []string {
	for pattern, limit := range maxDocumentLines {
		matches, _ := path.Match(pattern, name)
		if n := bytes.Count(text, []byte("\n")); matches && n > limit {
			return []string{fmt.Sprintf("%s: %d lines, limit %d", name, n, limit)}
		}
	}
	return nil
}

// maxGoldenLines is how long a golden file may be: who changes what it shows has to read the difference.
const maxGoldenLines = 200

// goldenLength returns whether a golden file is longer than that.
func goldenLength(name string, text []byte) []string {
	if n := bytes.Count(text, []byte("\n")); path.Ext(name) == ".golden" && n > maxGoldenLines {
		return []string{fmt.Sprintf("%s: %d lines, limit %d", name, n, maxGoldenLines)}
	}
	return nil
}

// lengths returns the violations of the two limits in one Go file.
func lengths(name string, text []byte) []string {
	var problems []string
	if n := bytes.Count(text, []byte("\n")); n > maxFileLines {
		problems = append(problems, fmt.Sprintf("%s: %d lines, limit %d", name, n, maxFileLines))
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		return append(problems, err.Error())
	}
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		first, last := fset.Position(f.Pos()).Line, fset.Position(f.End()).Line
		if n := last - first + 1; n > maxFunctionLines {
			problems = append(problems, fmt.Sprintf("%s:%d: %s has %d lines, limit %d", name, first, f.Name.Name, n,
				maxFunctionLines))
		}
	}
	return problems
}
