// Package report prints what was found in files: for people, and in the formats of programs that show it.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/warmgate/warmgate/cmd/warmgate/internal/lint"
	"github.com/warmgate/warmgate/cmd/warmgate/internal/source"
)

// Report is what was found in some files.
type Report struct {
	Files          int       `json:"files"`
	Configurations int       `json:"configurations"`
	Errors         int       `json:"errors"`
	Warnings       int       `json:"warnings"`
	Findings       []Finding `json:"findings"`
	Unread         []string  `json:"unread,omitempty"` // what could not be read, and why
}

// Finding is a problem or a warning, with its position.
type Finding struct {
	File     string `json:"file"`
	Line     int    `json:"line"`   // from 1
	Column   int    `json:"column"` // from 1, in characters
	Severity string `json:"severity"`
	Kind     string `json:"kind"`
	Path     string `json:"path,omitempty"` // of the key, as the plugin's log has it
	Text     string `json:"text"`
}

// Severities.
const (
	severityError   = "error"
	severityWarning = "warning"
)

// Add adds what was found in a file.
func (r *Report) Add(f *source.File, result lint.Result) {
	r.Files++
	r.Configurations += result.Configurations
	r.note(f, result.Findings)
}

// AddEmpty adds that no file of a folder configures the plugin.
func (r *Report) AddEmpty(folder string) {
	r.note(source.NewFile(folder, nil), []lint.Finding{{
		Kind: "nothing-checked", Warning: true, Text: "no configuration of the plugin is in any file of this folder",
	}})
}

func (r *Report) note(f *source.File, findings []lint.Finding) {
	for _, found := range findings {
		at := f.Position(found.At)
		severity := severityError
		if found.Warning {
			severity = severityWarning
			r.Warnings++
		} else {
			r.Errors++
		}
		r.Findings = append(r.Findings, Finding{
			f.Name, at.Line, at.Column, severity, found.Kind, found.Path, found.Text,
		})
	}
}

// message returns the path and the text.
func (f *Finding) message() string {
	if f.Path == "" {
		return f.Text
	}
	return f.Path + ": " + f.Text
}

// Formats are the names of formats, and what prints each.
var Formats = []struct {
	Name  string
	Print func(w io.Writer, r *Report, o Options) error
}{
	{"text", text},
	{"json", printJSON},
	{"sarif", sarif},
	{"github", github},
}

// Options are for how a report is printed.
type Options struct {
	Color   bool   // for a terminal
	Version string // of the program
}

// Print prints a report in the format of that name, or returns an error that lists them.
func (r *Report) Print(w io.Writer, format string, o Options) error {
	var names []string
	for _, f := range Formats {
		if f.Name == format {
			return f.Print(w, r, o)
		}
		names = append(names, f.Name)
	}
	return fmt.Errorf("no format %q, want one of %s", format, strings.Join(names, ", "))
}

// Summary returns the report in one line.
func (r *Report) Summary() string {
	return count(r.Configurations, "configuration") + " in " + count(r.Files, "file") + ": " +
		count(r.Errors, severityError) + ", " + count(r.Warnings, severityWarning)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprint(n, " ", noun, "s")
}

// oneLine escapes what would break a message out of its line, or change a terminal.
func oneLine(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsControl(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// text prints a line for each finding, as compilers do.
func text(w io.Writer, r *Report, o Options) error {
	colors := map[string]string{
		severityError: "\x1b[1;31m", severityWarning: "\x1b[1;33m", "place": "\x1b[1m", "": "\x1b[0m",
	}
	if !o.Color {
		clear(colors)
	}
	var out strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&out, "%s%s:%d:%d:%s %s%s:%s %s [%s]\n", colors["place"], oneLine(f.File), f.Line, f.Column,
			colors[""], colors[f.Severity], f.Severity, colors[""], oneLine(f.message()), f.Kind)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// printJSON prints the report as one object.
func printJSON(w io.Writer, r *Report, _ Options) error {
	if r.Findings == nil {
		r.Findings = []Finding{}
	}
	return indented(w, r)
}

func indented(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// github prints workflow commands: GitHub shows each finding beside its line.
func github(w io.Writer, r *Report, _ Options) error {
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	var out strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&out, "::%s file=%s,line=%d,col=%d,title=%s::%s\n", f.Severity, property.Replace(f.File),
			f.Line, f.Column, property.Replace("warmgate: "+f.Kind), data.Replace(f.message()))
	}
	_, err := io.WriteString(w, out.String())
	return err
}
