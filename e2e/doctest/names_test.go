package doctest

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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
const folders = `(?:\.ci|build|deploy|docs|e2e|envoy-config|internal|lb|metrics|plugin|redisclient)`

var (
	absolutePath = regexp.MustCompile(`(^|[\s"'(=` + "`" + `])/(home|root|work|tmp|Users|opt|etc|var|usr|mnt|srv|build)/`)
	sourcePath   = regexp.MustCompile(`^` + folders + `/[\w./*-]*$`)
	plainPath    = regexp.MustCompile(`\b` + folders + `/[\w./*-]*\w`)
	plainFile    = regexp.MustCompile(`(?:^|[\s(|` + "`" + `])([\w-]+\.(?:go|lua))\b`)
	testName     = regexp.MustCompile(`\b((?:Test|Fuzz)[A-Z]\w*)(…?)`)
	statName     = regexp.MustCompile(`warmgate(_[a-z]+)+`)
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
	wire := read(t, "plugin/*.go") + read(t, "plugin/core/*.go") + read(t, "envoy-config/*.yaml") +
		read(t, "deploy/*/*.yaml")
	for _, d := range documents(t) {
		if m := absolutePath.FindString(d.text); m != "" {
			t.Errorf("%s: absolute path: %s", d.name, m)
		}
		for _, name := range statName.FindAllString(d.text, -1) {
			if !slices.ContainsFunc(stats, func(s string) bool { return name == s || strings.HasPrefix(name, s+"_") }) {
				t.Errorf("%s: there is no statistic %s", d.name, name)
			}
		}
		for _, name := range headerName.FindAllString(d.text, -1) {
			if !strings.Contains(wire, name) {
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

// TestPlainNames looks for paths and files that do not exist in ARCHITECTURE.md, also without backticks, and in all
// documents for tests that do not exist.
func TestPlainNames(t *testing.T) {
	text := open(t, "ARCHITECTURE.md").text
	paths, files := plainPath.FindAllString(text, -1), plainFile.FindAllStringSubmatch(text, -1)
	for _, name := range paths {
		if !exists(t, name) {
			t.Errorf("ARCHITECTURE.md: there is no %s", name)
		}
	}
	for _, m := range files {
		// A file without a folder is one of the parts of a VM, or a script.
		if !exists(t, "plugin/core/"+m[1]) && !exists(t, "redisclient/lua/"+m[1]) {
			t.Errorf("ARCHITECTURE.md: there is no %s", m[1])
		}
	}
	if len(paths) < 60 || len(files) < 20 {
		t.Errorf("%d paths and %d files found, want at least 60 and 20", len(paths), len(files))
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

// exists reports whether there is a file or folder that matches the pattern, from the root of the tree.
func exists(t *testing.T, pattern string) bool {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root(t), pattern))
	return err == nil && len(found) > 0
}

// limit is one that a document names, with the constant behind it.
type limit struct{ doc, text, file, constant string }

// foreignLimits are those of Chinese documents that TestLimits has no room for.
var foreignLimits = []limit{
	{"docs/metrics_ZH.md", "最多定义 8192 个", "plugin/core/gauges.go", `maxNames += 8192\b`},
	{"docs/metrics_ZH.md", "早于 10 秒", "plugin/core/admin.go", `staleAfter += 10 \* time.Second`},
	{"docs/higress_ZH.md", "64 KiB 及以上的列表", "plugin/core/higress.go", `bigHostList += 64 << 10`},
	{"docs/higress_ZH.md", "最多每 250 ms", "plugin/core/higress.go", `hostListAge += 250 \* time.Millisecond`},
}

// TestLimits compares the limits in the documents with the constants behind them.
func TestLimits(t *testing.T) {
	for _, c := range append(foreignLimits, []limit{
		{"docs/features.md", "At most 256 clusters", "lb/memstore/keys.go", `tableSlots += 256\b`},
		{"docs/features_ZH.md", "最多 256 个集群", "lb/memstore/keys.go", `tableSlots += 256\b`},
		{"docs/features.md", "4096 endpoints in a cluster", "lb/memstore/table.go", `maxRows += 4096\b`},
		{"docs/features_ZH.md", "最多 4096 个端点", "lb/memstore/table.go", `maxRows += 4096\b`},
		{"docs/features.md", "At most 64 endpoints of a cluster have gauges", "plugin/core/gauges.go", `maxGauges += 64\b`},
		{"docs/features_ZH.md", "最多有 64 个端点拥有自己的 gauge", "plugin/core/gauges.go", `maxGauges += 64\b`},
		{"docs/metrics.md", "at most 8192 over its life", "plugin/core/gauges.go", `maxNames += 8192\b`},
		{"docs/metrics.md", "older than 10 seconds", "plugin/core/admin.go", `staleAfter += 10 \* time.Second`},
		{"docs/features.md", "returned within 6 seconds", "plugin/core/stores.go", `leaseTTL += 5 \* time.Second`},
		{"docs/features_ZH.md", "6 秒内收回", "plugin/core/stores.go", `leaseTTL += 5 \* time.Second`},
		{"docs/higress.md", "lists of 64 KiB and more", "plugin/core/higress.go", `bigHostList += 64 << 10`},
		{"docs/higress.md", "every 250 ms", "plugin/core/higress.go", `hostListAge += 250 \* time.Millisecond`},
		{"ARCHITECTURE.md", "at most 160 leases of dead owners", "redisclient/lua/heartbeat.lua", `BATCH, REPORT, OWNER = 160, 320\b`},
		{"ARCHITECTURE.md", "about 320 of the owner's own", "redisclient/lua/heartbeat.lua", `BATCH, REPORT, OWNER = 160, 320\b`},
		{"ARCHITECTURE.md", "TTL of 100 ms", "redisclient/lua/heartbeat.lua", `'NX', 'PX', 100\b`},
		{"ARCHITECTURE.md", "50 leases at a time", "redisclient/heartbeat.go", `leasesPerCommand = 50\b`},
		{"ARCHITECTURE.md", "more than 128 endpoints", "redisclient/candidates.go", `endpointsPerCommand = 128\b`},
		{"ARCHITECTURE.md", "by 4 ms", "plugin/core/ticks.go", `maxLate = 4 \* time.Millisecond`},
		{"docs/overload.md", "yet gets 16 requests", "lb/push_limits.go", `firstPush = 16\b`},
		{"docs/overload_ZH.md", "先得到 16 个请求", "lb/push_limits.go", `firstPush = 16\b`},
		{"docs/overload.md", "checked every five minutes", "lb/push_search.go", `checkEvery = 5 \* time.Minute`},
		{"docs/overload_ZH.md", "每五分钟检验一次", "lb/push_search.go", `checkEvery = 5 \* time.Minute`},
		{"docs/overload.md", "from a half to an eighth", "lb/push_search.go", `= 1.0 / 2, 1.0 / 4, 1.0 / 8\b`},
		{"docs/overload_ZH.md", "从一半缩小到八分之一", "lb/push_search.go", `= 1.0 / 2, 1.0 / 4, 1.0 / 8\b`},
		{"docs/overload.md", "more than three times that", "lb/queue/turn.go", `maxPassed = 3\b`},
		{"docs/overload_ZH.md", "不超过该数的三倍", "lb/queue/turn.go", `maxPassed = 3\b`},
		{"docs/overload.md", "5 s or three times an answer", "lb/push_search.go", `= 5 \* time.Second, 8, 3\b`},
		{"docs/overload_ZH.md", "持续 5 秒或三个应答的时间", "lb/push_search.go", `= 5 \* time.Second, 8, 3\b`},
		{"docs/overload.md", "three in ten seconds", "plugin/core/retries.go", `retrySeconds = 10\b[\s\S]*freeRetries = 3\b`},
		{"docs/overload_ZH.md", "每十秒三个", "plugin/core/retries.go", `retrySeconds = 10\b[\s\S]*freeRetries = 3\b`},
		{"docs/overload.md", "less than 30 s ago", "plugin/core/retries.go", `endedMemory += 30 \* time.Second`},
		{"docs/overload_ZH.md", "最近 30 秒", "plugin/core/retries.go", `endedMemory += 30 \* time.Second`},
		{"docs/overload.md", "up to 25 ms later", "lb/wait.go", `PollPeriod = 25 \* time.Millisecond`},
		{"docs/overload_ZH.md", "最多晚 25 ms", "lb/wait.go", `PollPeriod = 25 \* time.Millisecond`},
		{"docs/overload.md", "free within 6 s", "plugin/core/stores.go", `leaseTTL += 5 \* time.Second`},
		{"docs/overload_ZH.md", "在 6 秒内空出", "plugin/core/stores.go", `leaseTTL += 5 \* time.Second`},
		{"ARCHITECTURE.md", "72 bytes a ticket", "lb/queue/ticket.go", `recordSize, listAt = 72\b`},
		{"redisclient/lua/queue_turn.lua", "passed >= 3 * skip", "lb/queue/turn.go", `maxPassed = 3\b`},
		{"redisclient/lua/queue_grant.lua", "60000 * q.places / q.time, 4 *", "lb/queue/pace.go", `= 60_000, 4\b`},
		{"redisclient/lua/enqueue.lua", "math.max(inflight, 8)", "lb/queue/pace.go", `MinPace = 8\b`},
		{"redisclient/lua/queue_grant.lua", "- c.odd) / 16", "lb/queue/aging.go", `oddMemory = 16\b`},
		{"redisclient/lua/poll.lua", "up to 16", "plugin/config/queue.go", `maxClasses   = 16\b`},
		{"redisclient/lua/queue_turn.lua", "tokens / 9 /", "lb/queue/aging.go", `perAged = 9\b`},
		{"docs/overload.md", "a tenth of what is granted", "lb/queue/aging.go", `perAged = 9\b`},
		{"docs/overload_ZH.md", "所授予总量的十分之一", "lb/queue/aging.go", `perAged = 9\b`},
		{"CONTRIBUTING.md", "under 6 MiB", "build/wasm.sh", `6 \* 1024 \* 1024`},
		{"CONTRIBUTING.md", "at most 400 lines, functions at most 60", "build/check/lengths.go", `400[\s\S]*60`},
	}...) {
		says(t, c.doc, c.text)
		if !regexp.MustCompile(c.constant).MatchString(read(t, c.file)) {
			t.Errorf("%s has %q, but %s has no %s", c.doc, c.text, c.file, c.constant)
		}
	}
}

// says checks that a document has a text, however its lines are broken.
func says(t *testing.T, doc, text string) {
	t.Helper()
	if !strings.Contains(strings.Join(strings.Fields(open(t, doc).text), " "), text) {
		t.Errorf("%s lacks %q", doc, text)
	}
}

// TestDrainTime compares what the documents say of the drain time on Envoy Gateway with the file that sets it.
func TestDrainTime(t *testing.T) {
	const file = "deploy/envoy-gateway/gateway.yaml"
	m := regexp.MustCompile(`drainTimeout: (\d+)s`).FindStringSubmatch(read(t, file))
	if m == nil {
		t.Fatalf("%s sets no drain time in seconds", file)
	}
	seconds, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	for doc, text := range map[string]string{
		"README.md":             fmt.Sprintf("within %d minutes", seconds/60),
		"README_ZH.md":          fmt.Sprintf("在 %d 分钟内", seconds/60),
		"docs/upgrade.md":       m[1] + " s as shipped",
		"docs/envoy-gateway.md": "That is " + m[1] + " s in gateway.yaml",
	} {
		says(t, doc, text)
	}
}

// TestBenchmarkNames compares docs/benchmarks.md with the fields of JSON that the benchmarks write and with their
// flags.
func TestBenchmarkNames(t *testing.T) {
	programs := read(t, "e2e/bench/*/*.go")
	field := regexp.MustCompile(`^(cpu|p99|herd|reserve_vs|request_vs|reserve_us|release_us|script_ms|round_trips|bytes_vs|requests_per_core)(_[a-z0-9_]+)?$`)
	found := 0
	for _, code := range open(t, "docs/benchmarks.md").code {
		if field.MatchString(code) {
			found++
			if !regexp.MustCompile(`json:"` + code + `[",]`).MatchString(programs) {
				t.Errorf("no benchmark writes %s", code)
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
