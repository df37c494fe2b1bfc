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

// What is larger than it may be is a problem, and said by its name.
func TestTooLarge(t *testing.T) {
	for _, c := range []struct {
		s    shape
		want string
	}{
		{shape{}, ""},
		{shape{circle: 6}, "p: files in the largest circle: 6, limit 5"},
		{shape{methods: map[string]int{"t": 41}}, "p: methods of t: 41, limit 40"},
		{shape{pairs: []string{"t.B and t.b"}}, "p: t.B and t.b differ only in case"},
	} {
		if got := strings.Join(c.s.problems("p"), "; "); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
