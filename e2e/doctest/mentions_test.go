package doctest

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/lb"
)

// TestMentions follows what code, scripts, configurations and resources say of the documents: each document exists, and
// so does the heading behind a #.
func TestMentions(t *testing.T) {
	mention := regexp.MustCompile(`\b((?:docs|docs/benchmarks|docs/design|envoy-config)/\w[\w-]*\.md)(?:#([\w-]+))?`)
	found := 0
	err := filepath.WalkDir(root(t), func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", ".cache", "out", "testdata"}, entry.Name()) {
			return fs.SkipDir
		}
		kinds := []string{".go", ".lua", ".mk", ".sh", ".tpl", ".txt", ".yaml"}
		if entry.IsDir() || entry.Name() != "Makefile" && !slices.Contains(kinds, filepath.Ext(name)) {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, m := range mention.FindAllStringSubmatch(string(text), -1) {
			found++
			if !exists(t, m[1]) || m[2] != "" && !slices.Contains(open(t, m[1]).anchors(), m[2]) {
				t.Errorf("%s: there is no %s", name, m[0])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 100 {
		t.Errorf("%d mentions found, want at least 100", found)
	}
}

// TestOutsideLinks looks at links that leave the tree. Nobody follows them here; they are complete, and none leads to a
// file of the tree, which TestLinks would follow.
func TestOutsideLinks(t *testing.T) {
	for _, d := range documents(t) {
		for _, target := range d.links {
			if !strings.Contains(target, "://") {
				continue
			}
			u, err := url.Parse(target)
			if err != nil || u.Scheme != "https" || !strings.Contains(u.Host, ".") {
				t.Errorf("%s: link to %s: not https, or no host: %v", d.name, target, err)
			} else if strings.HasPrefix(u.Host+u.Path, "github.com/warmgate/warmgate/blob/") {
				t.Errorf("%s: link to %s: a file of the tree", d.name, target)
			}
		}
	}
}

// TestQueries compares the labels in queries for Prometheus with those that the plugin writes, and the reasons with
// lb.Reasons: each alternative of an expression matches one.
func TestQueries(t *testing.T) {
	labels := append(writtenLabels(t), "le")
	matcher := regexp.MustCompile(`(\w+)[!=]=?~?"([^"]*)"`)
	by := regexp.MustCompile(`\bby \(([^)]*)\)`)
	found := 0
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			if b.language != "promql" {
				continue
			}
			var used []string
			for _, m := range by.FindAllStringSubmatch(b.text, -1) {
				used = append(used, strings.Split(m[1], ", ")...)
			}
			for _, m := range matcher.FindAllStringSubmatch(b.text, -1) {
				used = append(used, m[1])
				if m[1] != "reason" {
					continue
				}
				for _, alternative := range strings.Split(m[2], "|") {
					found++
					whole := regexp.MustCompile("^(?:" + alternative + ")$")
					matches := func(r lb.Reason) bool { return whole.MatchString(r.String()) }
					if !slices.ContainsFunc(lb.Reasons(), matches) {
						t.Errorf("%s:%d: there is no reason %s", d.name, b.line, alternative)
					}
				}
			}
			for _, label := range used {
				if !slices.Contains(labels, label) {
					t.Errorf("%s:%d: no statistic has the label %s", d.name, b.line, label)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("%d reasons in queries, want at least 20", found)
	}
}
