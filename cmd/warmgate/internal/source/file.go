// Package source reads YAML and JSON, and knows where everything in it is: in the file, also of what is written in a
// string in it, such as the JSON of a plugin in the YAML of a gateway.
package source

import (
	"slices"
	"unicode/utf8"
)

// File is a text with a name.
type File struct {
	Name  string
	Text  []byte
	lines []int // where each begins
}

// Position is a place as editors show it: lines and columns count from 1, columns in characters.
type Position struct{ Line, Column int }

// NewFile returns a file.
func NewFile(name string, text []byte) *File {
	f := &File{Name: name, Text: text, lines: []int{0}}
	for i, c := range text {
		if c == '\n' {
			f.lines = append(f.lines, i+1)
		}
	}
	return f
}

// Position returns the position of an offset in bytes. What is behind the end is at the end.
func (f *File) Position(offset int) Position {
	offset = min(max(offset, 0), len(f.Text))
	line, found := slices.BinarySearch(f.lines, offset)
	if !found {
		line--
	}
	return Position{line + 1, utf8.RuneCount(f.Text[f.lines[line]:offset]) + 1}
}

// Text is a text that was taken from a file, or made of parts of it.
type Text struct {
	Bytes []byte
	spots []spot // sorted by from
}

// spot is where a part of a text is in the file.
type spot struct {
	from, at int
	run      bool // what follows in the text follows in the file, too
}

// At returns where in the file an offset in the text is. What was added to the text is where the part before it is.
func (t *Text) At(offset int) int {
	i, found := slices.BinarySearchFunc(t.spots, offset, func(s spot, offset int) int { return s.from - offset })
	if !found {
		i--
	}
	if i < 0 {
		return 0
	}
	s := t.spots[i]
	if s.run {
		return s.at + offset - s.from
	}
	return s.at
}

// Whole returns the file itself as a text.
func (f *File) Whole() *Text {
	return &Text{Bytes: f.Text, spots: []spot{{run: true}}}
}

// mark notes that the text goes on with what is at that place in the file.
func (t *Text) mark(at int, run bool) {
	if last := len(t.spots) - 1; last >= 0 {
		s := t.spots[last]
		if s.run && run && at-s.at == len(t.Bytes)-s.from {
			return
		}
		if s.from == len(t.Bytes) {
			t.spots = t.spots[:last]
		}
	}
	t.spots = append(t.spots, spot{len(t.Bytes), at, run})
}
