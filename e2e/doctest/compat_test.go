package doctest

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const compatibility = "docs/compatibility.md"

// TestCompatibility compares the table of layouts with the tests: each row names one that exists or gives the reason
// why it is left to the gateway, and the documents from which users come have a link to it.
func TestCompatibility(t *testing.T) {
	tests, words := testsOf(t)
	d := open(t, compatibility)
	named := regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]*)(?:/(?:\\.\\*/)*([^`]+))?`")
	for _, m := range named.FindAllStringSubmatch(d.text, -1) {
		folders := tests[m[1]]
		if len(folders) == 0 {
			t.Errorf("%s: there is no %s", compatibility, m[1])
		} else if m[2] != "" && !slices.ContainsFunc(folders, func(folder string) bool { return words[folder][m[2]] }) {
			t.Errorf("%s: nothing in %s is called %q", compatibility, folders, m[2])
		}
	}
	rows := 0
	for _, tab := range d.tables {
		if tab.marker != "layouts" {
			continue
		}
		for _, row := range tab.rows[1:] {
			rows++
			if len(row) != 3 || row[0] == "" || row[1] == "" {
				t.Errorf("%s: not a row of three: %q", compatibility, row)
			} else if !named.MatchString(row[2]) && !strings.HasPrefix(row[1], "Left to the gateway: ") {
				t.Errorf("%s: %s: no test, and it is not left to the gateway", compatibility, row[0])
			}
		}
	}
	if rows < 30 {
		t.Errorf("%s: only %d rows", compatibility, rows)
	}
	for _, name := range []string{"README.md", "README_ZH.md", "docs/envoy.md"} {
		if !slices.ContainsFunc(open(t, name).links, func(link string) bool {
			file, _, _ := strings.Cut(link, "#")
			return path.Join(path.Dir(name), file) == compatibility
		}) {
			t.Errorf("%s has no link to %s", name, compatibility)
		}
	}
}

// testsOf returns the folders of each test and fuzz target of the tree, and the strings in the tests of each of these
// folders.
func testsOf(t *testing.T) (tests map[string][]string, words map[string]map[string]bool) {
	t.Helper()
	tests, words = map[string][]string{}, map[string]map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\([tf] \*testing\.[TF]\)`)
	literal := regexp.MustCompile(`"(?:[^"\\\n]|\\.)*"`)
	err := filepath.WalkDir(root(t), func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".go") {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		folder := filepath.Dir(file)
		if words[folder] == nil {
			words[folder] = map[string]bool{}
		}
		for _, m := range function.FindAllSubmatch(text, -1) {
			tests[string(m[1])] = append(tests[string(m[1])], folder)
		}
		for _, m := range literal.FindAll(text, -1) {
			if word, err := strconv.Unquote(string(m)); err == nil {
				words[folder][word] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests, words
}
