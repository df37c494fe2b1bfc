// Package lua has the scripts that package redisclient runs in Redis, and joins each from the files of this folder.
//
// The text of a script is the file of its name, with these lines for what it has in common with others:
//
//   - "--@use a b" stands for the texts of a.lua and b.lua. A text is in a script once: where it is used first. So what
//     two functions need is used before both of them.
//   - "--@without a" leaves the text of a.lua out, although others use it: the script never needs it.
//   - "--@function f(x, y)" has what follows in the file be the body of the local function f, unless the file is the
//     script itself. What a function's body uses is created only by runs that call the function.
package lua

import (
	"embed"
	"slices"
	"strings"
)

//go:embed *.lua
var files embed.FS

// Line is a line of a script.
type Line struct {
	Text   string
	File   string // the file it is from, without ".lua"
	Number int    // its number there, counted from 1
}

// Lines returns the lines of the script with the name, as they are in the files. The name is that of a file, and so is
// each that a file uses: it panics if there is none.
func Lines(name string) []Line { return join(nil, &[]string{name}, name, true) }

// join appends the lines of a file and of what it uses to a script, which has the files in seen.
func join(script []Line, seen *[]string, name string, isScript bool) []Line {
	text, err := files.ReadFile(name + ".lua")
	if err != nil {
		panic(err)
	}
	end := "" // of the function whose body the file is
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSuffix(line, "\n")
		if unused, ok := strings.CutPrefix(line, "--@without "); ok {
			*seen = append(*seen, unused)
			continue
		}
		if used, ok := strings.CutPrefix(line, "--@use "); ok {
			for _, part := range strings.Fields(used) {
				if !slices.Contains(*seen, part) {
					*seen = append(*seen, part)
					script = join(script, seen, part, false)
				}
			}
			continue
		}
		if function, ok := strings.CutPrefix(line, "--@function "); ok {
			if isScript {
				continue
			}
			line, end = "local function "+function, "end"
		}
		script = append(script, Line{line, name, number})
	}
	if end != "" {
		script = append(script, Line{end, name, number})
	}
	return script
}

// Script returns the text of the script with the name, without the comments and the indentation of the files: these
// would be two fifths of what Redis is sent.
func Script(name string) string {
	var b strings.Builder
	for _, line := range Lines(name) {
		if text := withoutComment(line.Text); text != "" {
			b.WriteString(text)
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// withoutComment returns what Lua needs of a line. A comment behind code begins with " -- " and has no quotes: what has
// could be a part of a string.
func withoutComment(line string) string {
	if at := strings.LastIndex(line, " -- "); at >= 0 && !strings.ContainsAny(line[at:], `'"`) {
		line = line[:at]
	}
	if line = strings.TrimSpace(line); strings.HasPrefix(line, "--") {
		return ""
	}
	return line
}
