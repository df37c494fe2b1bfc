package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxColumns is the width of a line, with tabs of tabColumns columns.
const (
	maxColumns = 120
	tabColumns = 4
)

// widths returns the lines of a file of text that are wider than maxColumns. Lines that cannot be broken are left out:
// raw string literals and //go: directives in Go, what unbreakableMarkdown returns, and lines of a
// single word.
func widths(name string, text []byte) []string {
	var skip map[int]bool
	switch path.Ext(name) {
	case ".go":
		skip = rawStringLines(text)
		for i, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(line, "//go:") {
				skip[i+1] = true
			}
		}
	case ".md":
		skip = unbreakableMarkdown(string(text))
	case ".yaml":
		if head, _, _ := strings.Cut(string(text), "\n\n"); isMade(head) {
			return nil
		}
	}
	var problems []string
	for i, line := range strings.Split(string(text), "\n") {
		n := columns(line)
		if n <= maxColumns || skip[i+1] || len(strings.Fields(line)) < 2 {
			continue
		}
		problems = append(problems, fmt.Sprintf("%s:%d: %d columns, limit %d", name, i+1, n, maxColumns))
	}
	return problems
}

// isMade reports whether the comment at the beginning of a file says which command makes it: what a tool writes is as
// wide as that likes.
func isMade(head string) bool {
	for line := range strings.Lines(head) {
		if !strings.HasPrefix(line, "#") {
			return false
		}
		if strings.Contains(line, "Made by: ") {
			return true
		}
	}
	return false
}

// columns returns the width of a line. A character counts for one column, whatever its width on a screen.
func columns(line string) int {
	return utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
}

// rawStringLines returns the numbers of the lines of a Go file that a raw string literal is on.
func rawStringLines(text []byte) map[int]bool {
	lines := map[int]bool{}
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return lines
		}
		if tok != token.STRING || literal[0] != '`' {
			continue
		}
		first := file.Line(pos)
		for n := range strings.Count(literal, "\n") + 1 {
			lines[first+n] = true
		}
	}
}

// marker is a comment that begins or ends a part of a document that a program has written.
var marker = regexp.MustCompile(`^<!-- (/?)[a-z0-9-]+ -->$`)

// unbreakableMarkdown returns the numbers of the lines of a Markdown file that are tables, fenced blocks, images or
// HTML, that a program has written, or that are in Chinese, where a line break would show as a space.
func unbreakableMarkdown(text string) map[int]bool {
	lines := map[int]bool{}
	fenced, written := false, false
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "```") {
			fenced = !fenced
		}
		if m := marker.FindStringSubmatch(trimmed); m != nil && !fenced {
			written = m[1] == ""
		}
		if fenced || written || strings.ContainsFunc(line, isHan) ||
			strings.HasPrefix(trimmed, "|") || strings.HasPrefix(trimmed, "<") ||
			strings.HasPrefix(trimmed, "![") {
			lines[i+1] = true
		}
	}
	return lines
}

func isHan(r rune) bool { return unicode.Is(unicode.Han, r) }
