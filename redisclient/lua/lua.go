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
func Lines(name string) (lines []Line) {
	join(name, func(l Line) { lines = append(lines, l) })
	return lines
}

// Script returns the text of the script with the name, without the comments and the indentation of the files: these
// would be two fifths of what Redis is sent.
func Script(name string) string {
	var b strings.Builder
	b.Grow(MaxScript)
	join(name, func(l Line) {
		if text := withoutComment(l.Text); text != "" {
			b.WriteString(text)
			b.WriteByte('\n')
		}
	})
	return b.String()
}

// MaxScript is how long a script may be: Redis compiles 1 KB in about 27 µs, this much in 1.5 ms, and nothing else runs
// meanwhile.
const MaxScript = 55_600

// join calls add for each line of a script.
func join(name string, add func(Line)) {
	j := joiner{[]string{name}, add}
	j.file(name, true)
}

// joiner puts a script together.
type joiner struct {
	seen []string // the files that the script has
	add  func(Line)
}

// file adds the lines of a file and of what it uses.
func (j *joiner) file(name string, isScript bool) {
	text, err := files.ReadFile(name + ".lua")
	if err != nil {
		panic(err)
	}
	end := "" // of the function whose body the file is
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSuffix(line, "\n")
		command, names, _ := strings.Cut(line, " ")
		switch {
		case command == "--@without":
			j.seen = append(j.seen, names)
		case command == "--@use":
			j.use(names)
		case command == "--@function" && isScript:
		case command == "--@function":
			j.add(Line{"local function " + names, name, number})
			end = "end"
		default:
			j.add(Line{line, name, number})
		}
	}
	if end != "" {
		j.add(Line{end, name, number})
	}
}

// use adds the files with the names that the script does not have yet.
func (j *joiner) use(names string) {
	for _, name := range strings.Split(names, " ") {
		if !slices.Contains(j.seen, name) {
			j.seen = append(j.seen, name)
			j.file(name, false)
		}
	}
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
