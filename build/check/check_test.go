package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/plugin/config"
)

func TestLengths(t *testing.T) {
	// function returns a file whose only function is n lines long, comment not counted.
	function := func(n int) string {
		return "package x\n\n// f has a comment.\nfunc f() {\n" + strings.Repeat("\tg()\n", n-2) + "}\n"
	}
	for _, c := range []struct{ name, text, want string }{
		{"longest file", "package x\n" + strings.Repeat("\n", maxFileLines-1), ""},
		{"file one line longer", "package x\n" + strings.Repeat("\n", maxFileLines), "a.go: 401 lines, limit 400"},
		{"longest function", function(maxFunctionLines), ""},
		{"function one line longer", function(maxFunctionLines + 1), "a.go:4: f has 61 lines, limit 60"},
		{"no Go", "packag x", "a.go:1:1: expected 'package', found packag"},
	} {
		if got := strings.Join(lengths("a.go", []byte(c.text)), "; "); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestDocumentLength(t *testing.T) {
	for pattern, limit := range maxDocumentLines {
		found, err := filepath.Glob("../../" + pattern)
		if err != nil || len(found) == 0 {
			t.Errorf("%s is no document: %v", pattern, err)
		}
		name := strings.Replace(pattern, "*", "a", 1)
		longest := strings.Repeat("\n", limit)
		if got := documentLength(name, []byte(longest)); got != nil {
			t.Errorf("%s of %d lines: %q", name, limit, got)
		}
		want := fmt.Sprintf("%s: %d lines, limit %d", name, limit+1, limit)
		if got := strings.Join(documentLength(name, []byte(longest+"\n")), "; "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := documentLength("other.md", []byte(strings.Repeat("\n", 1000))); got != nil {
		t.Errorf("a document without a limit: %q", got)
	}
}

// The golden files of the repository end in ".golden", and one that is a line too long is found.
func TestGoldenLength(t *testing.T) {
	if found, err := filepath.Glob("../../*/*/testdata/*.golden"); err != nil || len(found) == 0 {
		t.Errorf("%d golden files, %v", len(found), err)
	}
	longest := strings.Repeat("\n", maxGoldenLines)
	for _, c := range []struct{ name, text, want string }{
		{"a/testdata/longest.golden", longest, ""},
		{"a/testdata/x.golden", longest + "\n", "a/testdata/x.golden: 201 lines, limit 200"},
		{"a/testdata/page.prom", longest + "\n", ""},
	} {
		if got := strings.Join(goldenLength(c.name, []byte(c.text)), "; "); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestLayers(t *testing.T) {
	const sdkPackage = sdk + "/proxywasm"
	for _, c := range []struct {
		folder        string
		imports, deps []string
		want          string
	}{
		{"lb", []string{"fmt", "time"}, []string{"fmt", "os", "time"}, ""}, // fmt itself needs os
		{"lb", []string{"os"}, nil, "lb imports os: it must do no I/O"},
		{"lb/storetest", []string{"net/http"}, nil, "lb/storetest imports net/http: it must do no I/O"},
		{"plugin/config", []string{sdkPackage}, []string{sdkPackage}, "plugin/config imports " + sdkPackage +
			": only " + strings.Join(sdkFolders, ", ") + " may"},
		{"plugin/core", []string{sdkPackage}, []string{sdkPackage}, "plugin/core imports " + sdkPackage + ": only " +
			strings.Join(sdkFolders, ", ") + " may"},
		{"plugin/core", []string{"os"}, nil, "plugin/core imports os: it must do no I/O"},
		{"plugin/discovery", []string{module + "/lb"}, []string{sdkPackage}, "plugin/discovery depends on " +
			sdkPackage},
		{"plugin", []string{sdkPackage, "os"}, []string{sdkPackage}, ""},
		{"e2e/bench/probe", []string{sdkPackage, "os"}, []string{sdkPackage}, ""},
		{"lbx", []string{"os"}, nil, ""}, // not below lb
		{"plugin", []string{"errors", "fmt"}, nil, "plugin imports fmt: too big for the artifacts"},
		{"lb", []string{"encoding/binary"}, nil, "lb imports encoding/binary: internal/wire packs its values"},
		{"plugin/core", []string{"encoding/binary"}, nil, "plugin/core imports encoding/binary: internal/wire packs " +
			"its values"},
		{"lb/prompt", []string{"encoding/binary"}, nil, ""}, // hashes are no packed values
		{"metrics", []string{"bytes", "unsafe"}, nil, ""},
		{"metrics", []string{module + "/internal/wire"}, nil, ""},
		{"metrics", []string{"os"}, nil, "metrics imports os: it must do no I/O"},
		{"e2e/demo", []string{"os", "net/http"}, nil, ""},
		{"e2e/demo", []string{sdkPackage}, nil, "e2e/demo imports " + sdkPackage + ": only " +
			strings.Join(sdkFolders, ", ") + " may"},
		{"e2e/demo", []string{"os"}, []string{"os", wasmGo + "/pkg/matcher"}, "e2e/demo depends on " + wasmGo +
			"/pkg/matcher: only tests in e2e/wasmgo may"},
		{"plugin/config", nil, []string{wasmGo}, "plugin/config depends on " + wasmGo +
			": only tests in e2e/wasmgo may"},
		{"plugin/config", nil, []string{wasmGo + "x"}, ""},
	} {
		p := pkg{ImportPath: module + "/" + c.folder, Imports: c.imports, Deps: c.deps}
		// Twice, as a package that is listed for both builds: reported once.
		if got := strings.Join(layers([]pkg{p, p}), "; "); got != c.want {
			t.Errorf("%s imports %v: got %q, want %q", c.folder, c.imports, got, c.want)
		}
	}
}

func TestMayImport(t *testing.T) {
	for _, c := range []struct{ folder, imported, want string }{
		{"lb", "time", ""},
		{"lb", "math/rand/v2", ""},
		{"lb/engines", module + "/metrics", ""},
		{"lb", "github.com/cespare/xxhash/v2", ""},
		{"lb", module + "/redisclient", "lb imports redisclient: it may import the standard library, internal/order, " +
			"internal/recent, internal/wire, lb/budget, lb/prompt, " + xxhash},
		{"lb/setting", module + "/lb/prompt", "lb/setting imports lb/prompt: it may import the standard library alone"},
		{"lb/prefixindex", module + "/internal/wire", "lb/prefixindex imports internal/wire: it may import the " +
			"standard library alone"},
		{"metrics", siphash, "metrics imports " + siphash + ": it may import the standard library, internal/wire"},
		{"redisclient", module + "/plugin/discovery", "redisclient imports plugin/discovery: it may import the " +
			"standard library, internal/order, internal/wire, lb, lb/budget, lb/prefixindex, lb/prompt, " +
			"lb/queue, redisclient/lua, " + xxhash},
		{"redisclient", module + "/lb/promptx", "redisclient imports lb/promptx: it may import the standard library, " +
			"internal/order, internal/wire, lb, lb/budget, lb/prefixindex, lb/prompt, lb/queue, redisclient/lua, " +
			xxhash},
		{"lb/new", "time", "lb/new has no row in mayImport of build/check/layers.go"},
		{"plugin", sdk + "/proxywasm", ""},
		{"e2e/bench/probe", sdk + "/proxywasm", ""},
		{"e2e/demo", module + "/redisclient", ""}, // no part of the product
		{"lbx", module + "/redisclient", ""},
	} {
		if got := strings.Join(outsideTable(c.folder, []string{c.imported}), "; "); got != c.want {
			t.Errorf("%s imports %s: got %q, want %q", c.folder, c.imported, got, c.want)
		}
		if c.want == "" {
			continue
		}
		p := pkg{ImportPath: module + "/" + c.folder, Imports: []string{c.imported}}
		if got := layers([]pkg{p}); !slices.Contains(got, c.want) {
			t.Errorf("%s imports %s: layers returned %q, without %q", c.folder, c.imported, got, c.want)
		}
	}
}

// TestRowsOfMayImport checks that every folder in the table exists.
func TestRowsOfMayImport(t *testing.T) {
	for folder, allowed := range mayImport {
		for _, name := range append([]string{folder}, allowed...) {
			if !below(name, product) {
				continue // a library
			}
			if info, err := os.Stat("../../" + name); err != nil || !info.IsDir() {
				t.Errorf("%s is no folder", name)
			}
		}
	}
}

// TestFoldersInTheDocument checks that ARCHITECTURE.md has a row for each folder in the table, and none for another.
func TestFoldersInTheDocument(t *testing.T) {
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, begun := strings.Cut(string(text), "<!-- folders -->\n")
	rows, _, ended := strings.Cut(rest, "<!-- /folders -->\n")
	if !begun || !ended {
		t.Fatal("ARCHITECTURE.md has no table of folders")
	}
	var have []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(.+)` \\| \\S").FindAllStringSubmatch(rows, -1) {
		have = append(have, strings.Split(m[1], "`, `")...) // folders that have one row together
	}
	slices.Sort(have)
	if want := slices.Sorted(maps.Keys(mayImport)); !slices.Equal(have, want) {
		t.Errorf("ARCHITECTURE.md has the folders\n%q, build/check/layers.go has\n%q", have, want)
	}
}

func TestHeavyImports(t *testing.T) {
	packages := []pkg{
		{ImportPath: module + "/lb", Imports: []string{"fmt"}},
		{ImportPath: module + "/lb/storetest", Imports: []string{"fmt"}},
		{ImportPath: module + "/plugin", Deps: []string{"fmt", module + "/lb"}},
	}
	if got := strings.Join(layers(packages), "; "); got != "lb imports fmt: too big for the artifacts" {
		t.Errorf("got %q", got)
	}
}

func TestBuildTags(t *testing.T) {
	const problem = ": a build constraint: this folder is the same in every build"
	for _, c := range []struct{ name, text, want string }{
		{"plugin/core/a.go", "package core\n", ""},
		{"plugin/core/a_test.go", "package core\n", ""},
		{"plugin/core/a.go", "//go:build envoy\n\npackage core\n", "plugin/core/a.go" + problem},
		{"plugin/core/a.go", "//go:build !envoy\n\npackage core\n", "plugin/core/a.go" + problem},
		{"plugin/core/a.go", "//go:build wasm\n\npackage core\n", "plugin/core/a.go" + problem},
		{"plugin/core/a_wasip1.go", "package core\n", "plugin/core/a_wasip1.go" + problem},
		{"plugin/a.go", "//go:build envoy\n\npackage main\n", ""},
		{"plugin/core/b/a.go", "//go:build envoy\n\npackage b\n", ""},
	} {
		if got := strings.Join(buildTags(c.name, []byte(c.text)), "; "); got != c.want {
			t.Errorf("%s, %q: got %q, want %q", c.name, c.text, got, c.want)
		}
	}
}

func TestClockReads(t *testing.T) {
	file := func(body string) []byte {
		return []byte("package lb\n\nimport \"time\"\n\nfunc f(now time.Time) {\n" + body + "\n}\n")
	}
	for _, c := range []struct{ body, want string }{
		{"_ = now.Add(time.Second)", ""},
		{"_ = now.After(now)", ""}, // a method, not the function
		{"_ = time.Now()", "lb/a.go:6: time.Now in lb: time is an argument here"},
		{"f(time.Now())\n\t<-time.After(1)", "lb/a.go:6: time.Now in lb: time is an argument here; lb/a.go:7: " +
			"time.After in lb: time is an argument here"},
		{"var clock = time.Now", "lb/a.go:6: time.Now in lb: time is an argument here"},
	} {
		if got := strings.Join(clockReads("lb/a.go", file(c.body)), "; "); got != c.want {
			t.Errorf("%s: got %q, want %q", c.body, got, c.want)
		}
	}
}

func TestSyntax(t *testing.T) {
	for _, c := range []struct {
		name, text string
		ok         bool
	}{
		{"a.json", `{"a": [1]}`, true},
		{"a.json", `{"a": [1}`, false},
		{"a.json", `{"a": 1} x`, false},
		{"lb/testdata/bad.json", `{`, true},
		{"a.yaml", "a: 1\n---\nb: [1, 2]\n", true},
		{"a.yaml", "a: 1\n---\nb: [1, 2\n", false},
		{"a.yml", "a: b: c\n", false},
	} {
		if got := syntax(c.name, []byte(c.text)); (got == nil) != c.ok {
			t.Errorf("%s with %q: %q", c.name, c.text, got)
		}
	}
}

func TestArtifact(t *testing.T) {
	for _, c := range []struct {
		host             string
		imports, exports []string
		problems         int
	}{
		{"envoy", []string{"proxy_log"}, []string{envoyABI, higressABI}, 0},
		{"envoy", []string{"proxy_log", "proxy_redis_call"}, []string{envoyABI}, 1},
		{"envoy", nil, []string{higressABI}, 1},
		{"higress", []string{"proxy_get_upstream_hosts"}, []string{higressABI}, 0},
		{"higress", nil, []string{higressABI, envoyABI}, 1},
		{"higress", nil, nil, 1},
	} {
		if got := artifact(c.host, "m", c.imports, c.exports); len(got) != c.problems {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestSymbols reads a module written by hand: it imports env.proxy_log and exports its own function as "run".
func TestSymbols(t *testing.T) {
	section := func(id byte, content ...byte) []byte { return append([]byte{id, byte(len(content))}, content...) }
	name := func(s string) []byte { return append([]byte{byte(len(s))}, s...) }
	module := slices.Concat(
		[]byte("\x00asm\x01\x00\x00\x00"),
		section(1, 1, 0x60, 0, 0), // one type: func()
		section(2, slices.Concat([]byte{1}, name("env"), name("proxy_log"), []byte{0, 0})...), // import
		section(3, 1, 0), // one function of that type
		section(7, slices.Concat([]byte{1}, name("run"), []byte{0, 1})...), // export
		section(10, 1, 2, 0, 0x0b), // its code: end
	)
	imports, exports, err := symbols(module)
	if err != nil || fmt.Sprint(imports, exports) != "[proxy_log] [run]" {
		t.Errorf("imports %v, exports %v, %v", imports, exports, err)
	}
	if _, _, err := symbols(module[:20]); err == nil {
		t.Error("half a module was read")
	}
}

func TestDocumented(t *testing.T) {
	k := config.Keys()[0]
	want := "a.wasm: contains the meaning of " + k.Name
	if got := documented("a.wasm", []byte("code "+k.Chinese.Meaning+" data")); len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := documented("a.wasm", []byte(k.Name)); got != nil {
		t.Errorf("got %q for a name", got)
	}
}
