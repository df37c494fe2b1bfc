//lint:file-ignore SA1019 as in build.go

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// TestGenerated compares the files with what is made of this folder, and reads them by Grafana's types.
func TestGenerated(t *testing.T) {
	plugins.RegisterDefaultPlugins()
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		have, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(have, want) {
			t.Errorf("%s is not what `go run .` makes in build/dashboards", name)
		}
		if err := strict(have); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	have, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(have) != len(files) {
		t.Errorf("%d files, of which %d are made here, %v", len(have), len(files), err)
	}
}

// strict reads a dashboard by Grafana's types. The library returns an empty list of mistakes as an error.
func strict(text []byte) error {
	err := new(dashboard.Dashboard).UnmarshalJSONStrict(text)
	if none, ok := err.(cog.BuildErrors); ok && len(none) == 0 {
		return nil
	}
	return err
}

// TestStrict checks that the comparison with Grafana's types finds what it has not.
func TestStrict(t *testing.T) {
	plugins.RegisterDefaultPlugins()
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	for _, mistake := range []string{`"descriptoin"`, `"description": 1, "x"`} {
		wrong := bytes.Replace(files["overview.json"], []byte(`"description"`), []byte(mistake), 1)
		if strict(wrong) == nil {
			t.Errorf("%s is accepted", mistake)
		}
	}
}

// Units of Grafana that panels use.
var units = []string{"reqps", "cps", "ms", "µs", "s", "percentunit", "percent", "short", "none", "si:tok/s", sinceThen}

// TestPanels checks that each panel says all that it should, and fills its row.
func TestPanels(t *testing.T) {
	names := map[string]bool{}
	for _, b := range boards() {
		for _, r := range b.rows {
			width := uint32(0)
			titles := map[string]bool{}
			for _, p := range r.panels {
				where := b.name + ", " + p.title
				if p.title == "" || titles[p.title] {
					t.Errorf("%s: there is another one of that title", where)
				}
				titles[p.title] = true
				width += p.span()
				for what, text := range map[string]string{"question": p.ask, "normal": p.normal, "action": p.act} {
					if text == "" || !strings.HasSuffix(text, ".") && !strings.HasSuffix(text, "?") {
						t.Errorf("%s: no %s: %q", where, what, text)
					}
				}
				if !strings.Contains(p.ask, "?") {
					t.Errorf("%s: no question: %s", where, p.ask)
				}
				if !slices.Contains(units, p.unit) {
					t.Errorf("%s: unit %q", where, p.unit)
				}
				if (p.kind == tile) != (p.well != "") || p.kind == tile && p.needs != "" || len(p.queries) == 0 {
					t.Errorf("%s: %+v", where, p)
				}
				checkQueries(t, b, &p)
			}
			if width%24 != 0 {
				t.Errorf("%s: the panels of row %s are %d wide", b.name, r.title, width)
			}
		}
		if names[b.name] || b.title == "" || b.about == "" {
			t.Errorf("%+v", b)
		}
		names[b.name] = true
	}
}

// checkQueries checks that queries use the variables of their dashboard and no others, and times that fit: Grafana's
// where there is a graph, and fixed ones in tiles.
func checkQueries(t *testing.T, b *board, p *panel) {
	t.Helper()
	for _, q := range p.all() {
		where := b.name + ", " + p.title + ": " + q.expr
		for _, m := range regexp.MustCompile(`"\$(\w+)"`).FindAllStringSubmatch(q.expr, -1) {
			if !slices.Contains(b.vars, m[1]) {
				t.Errorf("%s: there is no variable %s", where, m[1])
			}
		}
		for _, m := range regexp.MustCompile(`\[([^\]]*)\]`).FindAllStringSubmatch(q.expr, -1) {
			if (m[1] == "$__rate_interval") == (p.kind == tile) {
				t.Errorf("%s: over %s", where, m[1])
			}
		}
		if q.legend == "" {
			t.Errorf("%s: no legend", where)
		}
		for _, label := range q.labels() {
			if strings.Contains(q.expr, " by (") && !regexp.MustCompile(`by \([^)]*\b`+label+`\b`).MatchString(q.expr) {
				t.Errorf("%s: the legend has %s", where, label)
			}
		}
		if strings.Contains(variables.Replace(q.expr), "$") {
			t.Errorf("%s: a variable that -queries does not replace", where)
		}
	}
	if slices.Contains(b.vars, "policy") {
		t.Errorf("%s: no query has a variable policy", b.name)
	}
}

// TestPages checks that links lead to headings that are there.
func TestPages(t *testing.T) {
	anchors := map[string][]string{}
	for _, b := range boards() {
		for _, r := range b.rows {
			for _, p := range r.panels {
				page, anchor, has := strings.Cut(p.page, "#")
				if anchors[page] == nil {
					anchors[page] = headings(t, page)
				}
				if has && !slices.Contains(anchors[page], anchor) {
					t.Errorf("%s, %s: %s has no heading %s", b.name, p.title, page, anchor)
				}
			}
		}
	}
	if len(anchors) < 3 {
		t.Errorf("only %d pages", len(anchors))
	}
}

// headings returns the anchors of a page.
func headings(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", page))
	if err != nil {
		t.Fatal(err)
	}
	anchors := []string{""}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(text), -1) {
		plain := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		anchors = append(anchors, strings.ReplaceAll(plain, " ", "-"))
	}
	return anchors
}

// TestNative compares the reasons of native balancing with those of the queries in docs/metrics.md, which also have the
// two that somebody configures.
func TestNative(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	left := regexp.MustCompile(`sum by \(reason\) \(rate\(warmgate_decisions_total\{\s*reason=~"(disabled[^"]*)"`)
	m := left.FindSubmatch(text)
	if m == nil {
		t.Fatal("docs/metrics.md does not ask for reasons of native balancing")
	}
	want := strings.Split(string(m[1]), "|")
	want = slices.DeleteFunc(want, func(r string) bool { return r == "disabled" || r == "shadow" })
	if have := strings.Split(native, "|"); !slices.Equal(have, want) {
		t.Errorf("%q, in docs/metrics.md %q", have, want)
	}
}
