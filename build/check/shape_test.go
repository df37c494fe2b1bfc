package main

import (
	"go/parser"
	"go/token"
	"io"
	"slices"
	"strings"
	"testing"
)

// shapeOf returns the shape of a package whose files, a.go and so on, have the texts.
func shapeOf(t *testing.T, texts ...string) shape {
	t.Helper()
	c := &checked{fset: token.NewFileSet()}
	for i, text := range texts {
		name := string(rune('a'+i)) + ".go"
		file, err := parser.ParseFile(c.fset, name, "package p\n"+text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		c.files = append(c.files, file)
	}
	if err := c.resolve("p", func(string) (io.ReadCloser, error) { return nil, io.EOF }); err != nil {
		t.Fatal(err)
	}
	return c.shape()
}

// A circle may lead through functions, methods and fields; files that only follow each other are none.
func TestCircles(t *testing.T) {
	chain := []string{
		"type t struct { x int }\nfunc a() { b() }", "func b() { c() }", "func c() { d() }", "func d() { e() }",
		"func e() { f() }",
	}
	for end, want := range map[string]int{
		"func f() {}":                 0,
		"func f() { a() }":            6,
		"func f() { d() }":            0, // three files
		"func f() { _ = t{}.x }":      6,
		"func f() { var x int; x++ }": 0,
	} {
		if got := shapeOf(t, append(slices.Clone(chain), end)...).circle; got != want {
			t.Errorf("%s: a circle of %d files, want %d", end, got, want)
		}
	}
}

func TestMethods(t *testing.T) {
	many := "type t struct { u }\ntype u int\n"
	for i := range maxMethods + 1 {
		many += "func (*t) m" + strings.Repeat("x", i) + "() {}\n"
	}
	s := shapeOf(t, many+"func (u) Mx() {}\nfunc (u) other() {}")
	if len(s.methods) != 1 || s.methods["t"] != maxMethods+1 {
		t.Errorf("methods: %v", s.methods)
	}
	if len(s.pairs) != 1 || s.pairs[0] != "t.Mx and t.mx" {
		t.Errorf("pairs: %q", s.pairs)
	}
}

// What is larger than it may be, and what could be listed with less, is a problem.
func TestTooLarge(t *testing.T) {
	defer func(before map[string]shape) { tooLarge = before }(tooLarge)
	tooLarge = map[string]shape{"p": {circle: 9, methods: map[string]int{"t": 50}, pairs: []string{"t.A and t.a"}}}
	known := []string{"t.A and t.a"}
	for _, c := range []struct {
		s    shape
		want string
	}{
		{shape{circle: 9, methods: map[string]int{"t": 50}, pairs: known}, ""},
		{
			shape{circle: 10, methods: map[string]int{"t": 50}, pairs: known},
			"p: files in the largest circle: 10, limit 9",
		},
		{shape{circle: 9, methods: map[string]int{"t": 51}, pairs: known}, "p: methods of t: 51, limit 50"},
		{shape{circle: 9, methods: map[string]int{"t": 50, "u": 41}, pairs: known}, "p: methods of u: 41, limit 40"},
		{shape{circle: 9, pairs: known}, "p: methods of t: 0, so tooLarge in build/check/toolarge.go may not say 50"},
		{
			shape{circle: 8, methods: map[string]int{"t": 50}, pairs: known},
			"p: files in the largest circle: 8, so tooLarge in build/check/toolarge.go may not say 9",
		},
		{
			shape{circle: 9, methods: map[string]int{"t": 50}, pairs: append(known, "t.B and t.b")},
			"p: t.B and t.b differ only in case",
		},
		{
			shape{circle: 9, methods: map[string]int{"t": 50}},
			`p: there is no "t.A and t.a", so tooLarge in build/check/toolarge.go may not list it`,
		},
	} {
		if got := strings.Join(c.s.problems("p"), "; "); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	if got := (shape{circle: 6}).problems("q"); len(got) != 1 {
		t.Errorf("a package that is not listed: %q", got)
	}
}
