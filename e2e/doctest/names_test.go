package doctest

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/plugin/config"
)

// TestLinks follows every link inside the tree, to files and to headings.
func TestLinks(t *testing.T) {
	for _, d := range documents(t) {
		for _, target := range d.links {
			if strings.HasPrefix(target, "https://") {
				continue
			}
			file, fragment, _ := strings.Cut(target, "#")
			name := d.name
			if file != "" {
				name = path.Join(path.Dir(d.name), file)
			}
			if _, err := os.Stat(filepath.Join(root(t), name)); err != nil || path.IsAbs(target) {
				t.Errorf("%s: link to %s: no such file", d.name, target)
				continue
			}
			if fragment != "" && !slices.Contains(open(t, name).anchors(), fragment) {
				t.Errorf("%s: link to %s: no such heading", d.name, target)
			}
			if twin := strings.Replace(name, ".md", chineseEnd, 1); strings.HasSuffix(d.name, chineseEnd) &&
				twin != d.name && twin != name && strings.HasSuffix(twin, chineseEnd) && exists(t, twin) {
				t.Errorf("%s: link to %s: it is there in Chinese, too", d.name, target)
			}
		}
	}
}

// folders matches the folders of the tree that contain source files.
const folders = `(?:\.ci|build|cmd|deploy|docs|e2e|envoy-config|internal|lb|metrics|plugin|redisclient)`

var (
	absolutePath = regexp.MustCompile(`(^|[\s"'(=` + "`" + `])/(home|root|work|tmp|Users|opt|etc|var|usr|mnt|srv|build)/`)
	sourcePath   = regexp.MustCompile(`^` + folders + `/[\w./*-]*$`)
	plainPath    = regexp.MustCompile(`\b` + folders + `/[\w./*-]*\w`)
	plainFile    = regexp.MustCompile(`(?:^|[\s(|` + "`" + `])([\w-]+\.(?:go|lua))\b`)
	testName     = regexp.MustCompile(`\b((?:Test|Fuzz)[A-Z]\w*)(…?)`)
	statName     = regexp.MustCompile(`warmgate(_[a-z0-9]+)+`)
	headerName   = regexp.MustCompile(`x-(warmgate|gateway)(-[a-z]+)+`)
	keyName      = regexp.MustCompile(`^lb_config(\.[A-Za-z_]+)+$`)
)

// TestNames looks for names that do not exist: paths, statistics, headers and keys that the documents mention.
func TestNames(t *testing.T) {
	stats := statistics(t)
	var keys strings.Builder
	for _, k := range config.Keys() {
		keys.WriteString(k.Name + ".")
	}
	wire := read(t, "plugin/*.go") + read(t, "plugin/*/*.go") + read(t, "envoy-config/*.yaml") +
		read(t, "deploy/*/*.yaml")
	for _, d := range documents(t) {
		if m := absolutePath.FindString(d.text); m != "" {
			t.Errorf("%s: absolute path: %s", d.name, m)
		}
		for _, name := range statName.FindAllString(d.text, -1) {
			if name == "warmgate_fields" && strings.Contains(wire, `= "`+name+`"`) { // the property
				continue
			}
			if !slices.ContainsFunc(stats, func(s string) bool { return name == s || strings.HasPrefix(name, s+"_") }) {
				t.Errorf("%s: there is no statistic %s", d.name, name)
			}
		}
		for _, name := range headerName.FindAllString(d.text, -1) {
			if !strings.Contains(wire, name) && !strings.HasPrefix(name, "x-gateway-inference-") &&
				name != "x-gateway-model-name-rewrite" && name != "x-gateway-destination-endpoint-served" {
				// those are of the Inference Extension
				t.Errorf("%s: there is no header %s", d.name, name)
			}
		}
		for _, code := range d.code {
			if keyName.MatchString(code) && !strings.Contains(keys.String(), code+".") {
				t.Errorf("%s: there is no key %s", d.name, code)
			}
			if sourcePath.MatchString(code) && !strings.HasPrefix(code, "build/out/") && !exists(t, code) {
				t.Errorf("%s: there is no %s", d.name, code)
			}
		}
	}
}

// isDesign reports whether a document says how the code is built.
func isDesign(d *document) bool {
	return d.name == "ARCHITECTURE.md" || path.Dir(d.name) == "docs/design"
}

// TestPlainNames looks for paths and files that do not exist in documents of the design, also without backticks, and in
// all documents for tests that do not exist.
func TestPlainNames(t *testing.T) {
	paths, files := 0, 0
	for _, d := range documents(t) {
		if !isDesign(d) {
			continue
		}
		for _, name := range plainPath.FindAllString(d.text, -1) {
			paths++
			if !exists(t, name) {
				t.Errorf("%s: there is no %s", d.name, name)
			}
		}
		for _, m := range plainFile.FindAllStringSubmatch(d.text, -1) {
			files++
			// A file without a folder is one of plugin/core, or a script.
			if !exists(t, "plugin/core/"+m[1]) && !exists(t, "redisclient/lua/"+m[1]) {
				t.Errorf("%s: there is no %s", d.name, m[1])
			}
		}
	}
	if paths < 400 || files < 10 {
		t.Errorf("%d paths and %d files found, want at least 400 and 10", paths, files)
	}
	tests, _ := testsOf(t)
	known := slices.Collect(maps.Keys(tests))
	for _, d := range documents(t) {
		for _, m := range testName.FindAllStringSubmatch(d.text, -1) {
			named := func(test string) bool { return test == m[1] || m[2] != "" && strings.HasPrefix(test, m[1]) }
			if !slices.ContainsFunc(known, named) {
				t.Errorf("%s: there is no %s", d.name, m[0])
			}
		}
	}
}

// TestDesignWords looks for names in the code of documents of the design that no file of the tree has.
func TestDesignWords(t *testing.T) {
	word, name := regexp.MustCompile(`[A-Za-z_]\w*`), regexp.MustCompile(`^[A-Za-z_][\w.]*$`)
	known := map[string]bool{}
	for _, folder := range strings.Fields("build deploy e2e envoy-config internal lb metrics plugin redisclient") {
		err := filepath.WalkDir(filepath.Join(root(t), folder), func(file string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() && slices.Contains([]string{"doctest", "out", "testdata"}, entry.Name()) {
				return fs.SkipDir
			}
			if entry.IsDir() || !slices.Contains([]string{".go", ".lua", ".sh", ".yaml"}, path.Ext(file)) {
				return nil
			}
			text, err := os.ReadFile(file)
			for _, w := range word.FindAll(text, -1) {
				known[string(w)] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	found := 0
	for _, d := range documents(t) {
		for _, code := range d.code {
			if !isDesign(d) || !name.MatchString(code) || testName.MatchString(code) || code == "go.mod" {
				continue
			}
			found++
			for _, part := range strings.Split(code, ".") {
				if !known[part] {
					t.Errorf("%s: nothing is called %s in %s", d.name, part, code)
				}
			}
		}
	}
	if found < 300 {
		t.Errorf("%d names found, want at least 300", found)
	}
}

// exists reports whether there is a file or folder that matches the pattern, from the root of the tree.
func exists(t *testing.T, pattern string) bool {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root(t), pattern))
	return err == nil && len(found) > 0
}

// TestBenchmarkNames compares docs/benchmarks with the fields of JSON that the benchmarks write and with their flags.
func TestBenchmarkNames(t *testing.T) {
	programs := read(t, "e2e/bench/*.go") + read(t, "e2e/bench/*/*.go")
	field := regexp.MustCompile(`^(cpu|p99|herd|reserve_vs|request_vs|reserve_us|release_us|script_ms|round_trips|bytes_vs|requests_per_core)(_[a-z0-9_]+)?$`)
	found := 0
	for _, d := range documents(t) {
		if !strings.HasPrefix(d.name, "docs/benchmarks") {
			continue
		}
		for _, code := range d.code {
			if field.MatchString(code) {
				found++
				if !regexp.MustCompile(`"` + code + `[",]`).MatchString(programs) {
					t.Errorf("%s: no benchmark writes %s", d.name, code)
				}
			}
		}
	}
	if found < 18 || !strings.Contains(programs, `"markdown"`) {
		t.Errorf("%d fields of JSON found, want at least 18; and a flag -markdown", found)
	}
}

// read returns the text of all files that match.
func read(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root(t), pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(files), err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// TestTranslation compares all Chinese documents with the English ones: they have the same sections, tables, code and
// links in the same order.
func TestTranslation(t *testing.T) {
	compared := 0
	for _, d := range documents(t) {
		if name, ok := strings.CutSuffix(d.name, chineseEnd); ok {
			compared++
			t.Run(name, func(t *testing.T) { translation(t, open(t, name+".md"), d) })
		}
	}
	if compared < 15 {
		t.Errorf("only %d Chinese documents", compared)
	}
}

// chineseEnd is how the names of Chinese documents end, in place of ".md".
const chineseEnd = "_ZH.md"

func translation(t *testing.T, english, foreign *document) {
	t.Helper()
	for i := range max(len(english.headings), len(foreign.headings)) {
		if i >= len(english.headings) || i >= len(foreign.headings) ||
			english.headings[i].level != foreign.headings[i].level {
			t.Errorf("headings differ from the %d. on:\n%v\n%v", i+1, english.headings, foreign.headings)
			break
		}
	}
	if !slices.Equal(languages(english), languages(foreign)) {
		t.Error("code blocks differ")
	}
	if len(english.tables) != len(foreign.tables) {
		t.Fatalf("%d tables, want %d", len(foreign.tables), len(english.tables))
	}
	for i, e := range english.tables {
		f := foreign.tables[i]
		if len(e.rows) != len(f.rows) || len(e.rows[0]) != len(f.rows[0]) {
			t.Errorf("table %q: %d×%d, want %d×%d", e.rows[0], len(f.rows), len(f.rows[0]), len(e.rows), len(e.rows[0]))
			continue
		}
		for j := range e.rows {
			if have, want := codesOf(f.rows[j]), codesOf(e.rows[j]); !isKeyTable(e) && !slices.Equal(have, want) {
				t.Errorf("table %q: code in the row of %s\n%q\nwant\n%q", e.rows[0], e.rows[j][0], have, want)
			}
		}
	}
	if e, f := targetsOf(english), targetsOf(foreign); !slices.Equal(e, f) {
		t.Errorf("links\n%v\nwant\n%v", f, e)
	}
	if e, f := mentions(english), mentions(foreign); !slices.Equal(e, f) {
		t.Errorf("inline code, sorted\n%q\nwant\n%q", f, e)
	}
}

// isKeyTable reports whether a table is one of keys, which are described in each language by themselves.
func isKeyTable(t table) bool {
	return slices.ContainsFunc(keyTables, func(k keyTable) bool { return k.marker == t.marker })
}

// codesOf returns the code in the first cell of a row, and then that in all of the row, each sorted and once.
func codesOf(row []string) []string {
	first, all := codes(row[0]), codes(strings.Join(row, " "))
	slices.Sort(first)
	slices.Sort(all)
	return slices.Concat(slices.Compact(first), slices.Compact(all))
}

// languages returns the languages of the code blocks, without their lines.
func languages(d *document) []string {
	var out []string
	for _, b := range d.blocks {
		out = append(out, b.language+"\n"+b.text)
	}
	return out
}

// targetsOf returns the files that a document links to, sorted, a Chinese one under its English name.
func targetsOf(d *document) []string {
	var out []string
	for _, target := range d.links {
		file, _, _ := strings.Cut(target, "#")
		out = append(out, strings.Replace(file, chineseEnd, ".md", 1))
	}
	slices.Sort(out)
	return out
}

// mentions returns the inline code of a document outside of the tables of keys, each once, sorted.
func mentions(d *document) []string {
	text := d.text
	for i := range keyTables {
		head, rest, _ := strings.Cut(text, "<!-- "+keyTables[i].marker+" -->")
		_, tail, _ := strings.Cut(rest, "<!-- /"+keyTables[i].marker+" -->")
		text = head + tail
	}
	out := parse(d.name, text).code
	slices.Sort(out)
	return slices.Compact(out)
}
