package doctest

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/warmgate/warmgate/e2e/harness"
)

// document is a Markdown file, taken apart as far as the tests need it.
type document struct {
	name     string // from the root of the tree, such as docs/envoy.md
	text     string
	headings []heading
	tables   []table
	blocks   []block
	links    []string // targets, in order
	code     []string // inline code
}

type heading struct {
	level int
	text  string
}

// table is a table with its header as the first row and without the line of dashes.
type table struct {
	marker string // name of the <!-- marker --> around it, "" for none
	rows   [][]string
}

// block is a fenced code block.
type block struct {
	language, text string
	line           int
}

var (
	headingLine = regexp.MustCompile(`^(#+) (.+)$`)
	markerLine  = regexp.MustCompile(`^<!-- (/?)([a-z0-9-]+) -->$`)
	dashes      = regexp.MustCompile(`^\|[-| :]+\|$`)
	linkTarget  = regexp.MustCompile(`\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$`)
	inlineCode  = regexp.MustCompile("`([^`]+)`")
)

// parse takes a document apart.
func parse(name, text string) *document {
	d := &document{name: name, text: text}
	marker, open := "", false
	var fence *block
	for i, line := range strings.Split(text, "\n") {
		if language, ok := strings.CutPrefix(line, "```"); ok {
			if fence == nil {
				fence = &block{language: language, line: i + 1}
			} else {
				d.blocks = append(d.blocks, *fence)
				fence = nil
			}
			continue
		}
		if fence != nil {
			fence.text += line + "\n"
			continue
		}
		if m := markerLine.FindStringSubmatch(line); m != nil {
			if marker = m[2]; m[1] == "/" {
				marker = ""
			}
			continue
		}
		if m := headingLine.FindStringSubmatch(line); m != nil {
			d.headings = append(d.headings, heading{len(m[1]), m[2]})
		}
		isRow := strings.HasPrefix(line, "|")
		if isRow && !open {
			d.tables = append(d.tables, table{marker: marker})
		}
		open = isRow
		if isRow && !dashes.MatchString(line) {
			t := &d.tables[len(d.tables)-1]
			t.rows = append(t.rows, cells(line))
		}
		d.inline(line)
	}
	return d
}

// inline collects links and code of one line.
func (d *document) inline(line string) {
	d.code = append(d.code, codes(line)...)
	for _, m := range linkTarget.FindAllStringSubmatch(inlineCode.ReplaceAllString(line, ""), -1) {
		d.links = append(d.links, m[1]+m[2])
	}
}

// codes returns what is written as code in a line.
func codes(line string) (list []string) {
	for _, m := range inlineCode.FindAllStringSubmatch(line, -1) {
		list = append(list, m[1])
	}
	return list
}

// cells splits a row of a table. A bar inside a cell is escaped.
func cells(row string) []string {
	const bar = "\x00"
	row = strings.ReplaceAll(row, `\|`, bar)
	parts := strings.Split(strings.Trim(row, "|"), "|")
	for i := range parts {
		parts[i] = strings.ReplaceAll(strings.TrimSpace(parts[i]), bar, `\|`)
	}
	return parts
}

// marked returns the table between the markers of the given name, nil if there is none.
func (d *document) marked(marker string) *table {
	for i := range d.tables {
		if d.tables[i].marker == marker {
			return &d.tables[i]
		}
	}
	return nil
}

// column returns a column of the table without its header.
func (t *table) column(i int) []string {
	var out []string
	for _, row := range t.rows[1:] {
		out = append(out, row[i])
	}
	return out
}

// anchors returns the fragments that links to the document may end in.
func (d *document) anchors() []string {
	var out []string
	for _, h := range d.headings {
		out = append(out, slug(h.text))
	}
	return out
}

// slug is the anchor that GitHub gives a heading: lower case, blanks as hyphens, no punctuation.
func slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

func root(t *testing.T) string {
	t.Helper()
	return harness.PathT(t, ".")
}

// documents returns all documents of the project, in the order of their names.
func documents(t *testing.T) []*document {
	t.Helper()
	dir := root(t)
	var docs []*document
	const where = "*.md docs/*.md docs/benchmarks/*.md docs/design/*.md envoy-config/*.md " +
		"examples/compose/*.md examples/kind/*.md"
	for _, pattern := range strings.Fields(where) {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range names {
			name, err := filepath.Rel(dir, path)
			if err != nil {
				t.Fatal(err)
			}
			docs = append(docs, open(t, name))
		}
	}
	return docs
}

// open reads one document.
func open(t *testing.T, name string) *document {
	t.Helper()
	return parse(name, string(harness.ReadT(t, name)))
}

// TestInlineCode looks for inline code that is broken over two lines: parse would take what is between two such pieces
// for code, and no test would see a link in it.
func TestInlineCode(t *testing.T) {
	for _, d := range documents(t) {
		fence := false
		for i, line := range strings.Split(d.text, "\n") {
			if strings.HasPrefix(line, "```") {
				fence = !fence
			} else if !fence && strings.Count(line, "`")%2 != 0 {
				t.Errorf("%s:%d: inline code does not end in its line", d.name, i+1)
			}
		}
	}
}

func TestParse(t *testing.T) {
	d := parse("x.md", strings.Join([]string{
		"# Title, *one*", "See [a](b.md#c) and `code [no](link)`.", "<!-- keys -->", "| a | b |", "|---|--:|", `| 1 | x \| y |`,
		"<!-- /keys -->", "", "| c |", "|---|", "```sh", "# not a heading", "| no | table |", "```", "## Two words",
		"[ref]: https://example.com",
	}, "\n"))
	if want := []heading{{1, "Title, *one*"}, {2, "Two words"}}; !slices.Equal(d.headings, want) {
		t.Errorf("headings %v", d.headings)
	}
	if want := []string{"b.md#c", "https://example.com"}; !slices.Equal(d.links, want) {
		t.Errorf("links %v", d.links)
	}
	if keys := d.marked("keys"); len(d.tables) != 2 || keys == nil || !slices.Equal(keys.column(1), []string{`x \| y`}) {
		t.Errorf("tables %v", d.tables)
	}
	if want := []block{{"sh", "# not a heading\n| no | table |\n", 11}}; !slices.Equal(d.blocks, want) {
		t.Errorf("blocks %v", d.blocks)
	}
	if want := []string{"title-one", "two-words"}; !slices.Equal(d.anchors(), want) {
		t.Errorf("anchors %v", d.anchors())
	}
	if want := []string{"code [no](link)"}; !slices.Equal(d.code, want) {
		t.Errorf("code %v", d.code)
	}
}
