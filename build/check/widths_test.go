package main

import (
	"strings"
	"testing"
)

func TestWidths(t *testing.T) {
	words := func(n int) string { return strings.Repeat("ab ", n/3) + strings.Repeat("c", n%3) }
	for _, c := range []struct{ title, name, text, want string }{
		{"widest line", "a.go", "// " + words(117) + "\n", ""},
		{"one column wider", "a.go", "// " + words(118) + "\n", "a.go:1: 121 columns, limit 120"},
		{"tabs", "a.go", "\t\t" + words(113) + "\n", "a.go:1: 121 columns, limit 120"},
		{"characters, not bytes", "a.lua", "-- " + strings.Repeat("é ", 58) + "\n", ""},
		{"a single word", "a.md", strings.Repeat("x", 200) + "\n", ""},
		{"made by a tool", "a.yaml", "# Made by: go run ./x\na: " + words(130) + "\n", ""},
		{"made elsewhere", "a.yaml", "a: b\n# Made by: x\nc: " + words(130) + "\n", "a.yaml:3: 133 columns, limit 120"},
		{"raw string", "a.go", "package a\n\nvar x = `\n" + words(130) + "`\n", ""},
		{
			"behind a raw string", "a.go", "package a\n\nvar x = `\n`\n\n// " + words(130) + "\n",
			"a.go:6: 133 columns, limit 120",
		},
		{"directive", "a.go", "package a\n\n//go:linkname a " + words(130) + "\n", ""},
		{"directive elsewhere", "a.py", "//go:linkname a " + words(130) + "\n", "a.py:1: 146 columns, limit 120"},
		{"table", "a.md", "| " + words(130) + "|\n", ""},
		{"fenced", "a.md", "```\n" + words(130) + "\n```\n", ""},
		{"behind a fence", "a.md", "```\n```\n" + words(130) + "\n", "a.md:3: 130 columns, limit 120"},
		{"pasted", "a.md", "<!-- bench-x -->\n\n- machine: " + words(130) + "\n<!-- /bench-x -->\n", ""},
		{
			"behind what was pasted", "a.md", "<!-- bench-x -->\n<!-- /bench-x -->\n- machine: " + words(130) + "\n",
			"a.md:3: 141 columns, limit 120",
		},
		{"Chinese", "a.md", "用 " + strings.Repeat("端点，", 60) + "\n", ""},
		{"Chinese elsewhere", "a.sh", "# 用 " + words(130) + "\n", "a.sh:1: 134 columns, limit 120"},
	} {
		if got := strings.Join(widths(c.name, []byte(c.text)), "; "); got != c.want {
			t.Errorf("%s: got %q, want %q", c.title, got, c.want)
		}
	}
}
