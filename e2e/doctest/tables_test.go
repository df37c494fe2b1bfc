package doctest

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/redisclient"
)

var update = flag.Bool("update", false, "rewrite the tables that are made of code and of golden files")

// keyTables are the tables of keys, each with those that no table before it has. Each policy with keys of its own has
// one; endpoint_metrics has the keys that policies share, too.
var keyTables = slices.Concat(
	[]keyTable{
		{marker: "config-rules", has: named(`^_rules_`)},
		{marker: "config-queue", has: named(`^lb_config\.queue\.`)},
		{marker: "config-regions", has: named(`^lb_config\.regions\.`)},
		{marker: "config-redis", has: named(`^lb_config\.(store|reserve_timeout|redis_scope|envoy\.redis_cluster|` +
			`serviceFQDN|servicePort|username|password|timeout|database|cleanInterval)$`)},
	},
	policyTables(),
	[]keyTable{
		{"config-endpoint-metrics", "endpoint_metrics", func(k config.Key) bool { return k.Policies != nil }},
		{marker: "config", has: func(config.Key) bool { return true }},
	},
)

type keyTable struct {
	marker string
	policy string // "" for a table of other keys
	has    func(config.Key) bool
}

// policyTables returns the tables of all policies with keys but endpoint_metrics.
func policyTables() []keyTable {
	var tables []keyTable
	for _, d := range policy.All() {
		if len(d.Keys) > 0 && d.Name != "endpoint_metrics" {
			has := only(d.Name)
			if d.Needs.Session == policy.SessionRequired {
				has = func(k config.Key) bool { return only(d.Name)(k) || k.Name == "lb_config."+policy.KeySession }
			}
			tables = append(tables, keyTable{"config-" + strings.ReplaceAll(d.Name, "_", "-"), d.Name, has})
		}
	}
	return tables
}

func named(pattern string) func(config.Key) bool {
	names := regexp.MustCompile(pattern)
	return func(k config.Key) bool { return names.MatchString(k.Name) }
}

func only(policy string) func(config.Key) bool {
	return func(k config.Key) bool { return len(k.Policies) == 1 && k.Policies[0] == policy }
}

// tableOf returns the index of the table that has the key.
func tableOf(key config.Key) int {
	return slices.IndexFunc(keyTables, func(t keyTable) bool { return t.has(key) })
}

// TestConfigTables compares the tables of keys with config.Keys, in both languages.
func TestConfigTables(t *testing.T) {
	english, foreign := make([][]string, len(keyTables)), make([][]string, len(keyTables))
	for i := range keyTables {
		english[i] = []string{"| Key | Type | Default | Meaning |", "|---|---|---|---|"}
		foreign[i] = []string{"| 键 | 类型 | 默认值 | 含义 |", "|---|---|---|---|"}
	}
	for _, k := range config.Keys() {
		at := tableOf(k)
		if k.Name == "lb_policy" { // a line for each
			k.Meaning = strings.ReplaceAll(k.Meaning, "; `", ";<br>`")
			k.Chinese.Meaning = strings.ReplaceAll(k.Chinese.Meaning, "；`", "；<br>`")
		}
		if k.Setting.NoEffect != "" {
			k.Meaning, k.Chinese.Meaning = "**No effect.** "+k.Meaning, "**无作用。**"+k.Chinese.Meaning
		}
		english[at] = append(english[at], row(k.Name, k.Type, k.Default, k.Meaning))
		if k.Chinese.Type == "" || k.Chinese.Meaning == "" {
			t.Errorf("%s is not described in Chinese", k.Name)
		}
		foreign[at] = append(foreign[at], row(k.Name, k.Chinese.Type, k.Default, k.Chinese.Meaning))
	}
	for i := range keyTables {
		addSection(t, "docs/configuration.md", "\n## Rules\n", keyTables[i])
		addSection(t, "docs/configuration_ZH.md", "\n## 规则\n", keyTables[i])
		compare(t, "docs/configuration.md", keyTables[i].marker, english[i])
		compare(t, "docs/configuration_ZH.md", keyTables[i].marker, foreign[i])
	}
}

// addSection adds a section for a new policy to a document, with an empty table, in front of another section.
func addSection(t *testing.T, name, before string, table keyTable) {
	t.Helper()
	path, begin := filepath.Join(root(t), name), "<!-- "+table.marker+" -->\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !*update || table.policy == "" || strings.Contains(string(text), begin) {
		return
	}
	section := "\n## `" + table.policy + "`\n\n" + begin + "<!-- /" + table.marker + " -->\n"
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), before, section+before, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

func row(name, kind, def, meaning string) string {
	if def != "" {
		def = "`" + def + "`"
	}
	return "| `" + name + "` | " + kind + " | " + def + " | " + strings.ReplaceAll(meaning, "|", `\|`) + " |"
}

// compare compares the lines between the markers of a document with want, or rewrites them.
func compare(t *testing.T, name, marker string, want []string) {
	t.Helper()
	begin, end := "<!-- "+marker+" -->\n", "<!-- /"+marker+" -->\n"
	path := filepath.Join(root(t), name)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	have, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s: no %s ... %s; for a new policy, run with -update", name, strings.TrimSpace(begin),
			strings.TrimSpace(end))
	}
	table := strings.Join(want, "\n") + "\n"
	if have == table {
		return
	}
	if !*update {
		t.Errorf("%s: the table %s is old; run: go test ./e2e/doctest -run %s -update", name, marker, t.Name())
		return
	}
	if err := os.WriteFile(path, []byte(head+begin+table+end+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestCompatTable compares the tables of configurations of Higress's plugins with their results in the test of
// plugin/config.
func TestCompatTable(t *testing.T) {
	for _, c := range [][3]string{
		{"ai-load-balancer", "docs/higress", "compat"}, {"ai-endpoint-picker", "docs/inference-pool", "compat-picker"},
	} {
		want, foreign := compatTable(t, "plugin/config/testdata/compat/"+c[0]+".golden")
		compare(t, c[1]+".md", c[2], want)
		compare(t, c[1]+"_ZH.md", c[2], foreign)
	}
}

func compatTable(t *testing.T, golden string) (want, foreign []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), golden))
	if err != nil {
		t.Fatal(err)
	}
	want, foreign = []string{"| Configuration | Here |", "|---|---|"}, []string{"| 配置 | Warmgate |", "|---|---|"}
	for _, c := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
		name, verdict, ok := strings.Cut(c, "\n")
		if !ok {
			t.Fatalf("%q: nothing becomes of it", name)
		}
		verdict = strings.ReplaceAll(verdict, "|", `\|`)
		want = append(want, "| "+name+" | "+verdict+" |")
		for _, v := range [][2]string{
			{"accepted, with a warning: ", "接受，并有警告："}, {"accepted", "接受"}, {"refused: ", "拒绝："},
		} {
			if logged, ok := strings.CutPrefix(verdict, v[0]); ok {
				foreign = append(foreign, "| "+compatNames.Replace(name)+" | "+v[1]+logged+" |")
				break
			}
		}
	}
	return want, foreign
}

// compatNames translates the names of configurations of Higress's plugins.
var compatNames = strings.NewReplacer(
	"Of an InferencePool", "InferencePool 的", "README: all keys", "README：所有的键", "` of a route", "`，用于一条路由",
	": balanced", "：balanced", "`: 0", "`：0", ", requests in flight alone", "，只有在途请求", ", all 0", "，全部为 0",
	", a key of this plugin", "，本插件的键", "A rule without keys beside one with keys of this plugin",
	"与写有本插件的键的规则并列的无键规则",
	", a text", "，文本", ", a key misspelt", "，一个拼错的键", ", unknown", "，未知", ", no object", "，不是对象",
	"README of 2.1.5: ", "2.1.5 的 README：", "README: ", "README：", "Announcement: ", "公告：",
	"metrics_based, least waiting", "metrics_based，least，等待的请求",
	"metrics_based, least running", "metrics_based，least，运行的请求",
	"metrics_based, default", "metrics_based，default",
	"every key of `global_least_request`", "`global_least_request` 的每个键",
	"no `lb_type`, no `username`", "没有 `lb_type` 和 `username`", "no `lb_config`", "没有 `lb_config`",
	", a number", "，数字", ", a key of nobody", "，不属于任何一方的键", ", a week", "，一周", ", proposed", "，提案",
	" without a key", "，没有任何键", " without `target_metric`", "，没有 `target_metric`",
	" with keys of Redis", "，带有 Redis 的键", " beside `lb_policy`", "，与 `lb_policy` 并列", "` in `", "`，用于 `",
	"`, `", "`、`",
)

// TestReasonTables compares the tables of reasons with lb.Reasons, in their order.
func TestReasonTables(t *testing.T) {
	var want []string
	for _, r := range lb.Reasons() {
		want = append(want, "`"+r.String()+"`")
	}
	for _, name := range []string{
		"docs/reasons.md", "docs/reasons_ZH.md", "docs/metrics-reference.md", "docs/metrics-reference_ZH.md",
	} {
		tab := open(t, name).marked("reasons")
		if tab == nil {
			t.Errorf("%s: no table of reasons", name)
			continue
		}
		if have := tab.column(0); !slices.Equal(have, want) {
			t.Errorf("%s: reasons\n%v\nwant\n%v", name, have, want)
		}
	}
}

// TestCausesTable compares the table of causes with redisclient.Causes, in their order.
func TestCausesTable(t *testing.T) {
	tab := open(t, "docs/metrics-reference.md").marked("causes")
	if tab == nil {
		t.Fatal("docs/metrics-reference.md: no table of causes")
	}
	var want []string
	for _, c := range redisclient.Causes() {
		want = append(want, "`"+c+"`")
	}
	if have := tab.column(0); !slices.Equal(have, want) {
		t.Errorf("docs/metrics-reference.md: causes\n%v\nwant\n%v", have, want)
	}
}

// TestResultsTable compares the table of results with those that plugin/endpoints/endpoints.go counts, in their order.
func TestResultsTable(t *testing.T) {
	tab := open(t, "docs/metrics-reference.md").marked("results")
	if tab == nil {
		t.Fatal("docs/metrics-reference.md: no table of results")
	}
	var want []string
	for _, result := range constants(t, "endpoints/endpoints.go", "Scrape") {
		want = append(want, "`"+result+"`")
	}
	if have := tab.column(0); !slices.Equal(have, want) {
		t.Errorf("docs/metrics-reference.md: results\n%v\nwant\n%v", have, want)
	}
}

// TestStatsTable compares docs/metrics-reference.md with the constants in plugin/stats/names.go and the labels that the
// plugin writes.
func TestStatsTable(t *testing.T) {
	tab := open(t, "docs/metrics-reference.md").marked("stats")
	if tab == nil {
		t.Fatal("docs/metrics-reference.md: no table of statistics")
	}
	var have []string
	for _, name := range tab.column(0) {
		have = append(have, strings.Trim(name, "`"))
	}
	want := statistics(t)
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("documented\n%v\nin plugin/stats/names.go\n%v", have, want)
	}
	for _, r := range tab.rows[1:] {
		counter := strings.HasSuffix(r[0], "_total`")
		if counter != (r[1] == "counter") {
			t.Errorf("%s is called a %s: counters, and only they, end in _total", r[0], r[1])
		}
	}
	documented := regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(strings.Join(tab.column(2), " "), -1)
	var labels []string
	for _, m := range documented {
		labels = append(labels, m[1])
	}
	slices.Sort(labels)
	if labels, want := slices.Compact(labels), writtenLabels(t); !slices.Equal(labels, want) {
		t.Errorf("documented labels %v, the plugin writes %v", labels, want)
	}
}

// statistics returns the values of the constants in plugin/stats/names.go.
func statistics(t *testing.T) []string {
	t.Helper()
	return constants(t, "stats/names.go", "")
}

// constants returns the values of the constants of a file of the plugin whose names begin with prefix.
func constants(t *testing.T, file, prefix string) []string {
	t.Helper()
	var values []string
	for _, decl := range source(t, filepath.Join(root(t), "plugin", file)).Decls {
		constants, ok := decl.(*ast.GenDecl)
		if !ok || constants.Tok != token.CONST {
			continue
		}
		for _, spec := range constants.Specs {
			v := spec.(*ast.ValueSpec)
			if !strings.HasPrefix(v.Names[0].Name, prefix) {
				continue
			}
			value, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
		}
	}
	return values
}

// writtenLabels returns the labels in the plugin's calls of statname.With, sorted.
func writtenLabels(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root(t), "plugin", "*", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var labels []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		ast.Inspect(source(t, file), func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if f, ok := call.Fun.(*ast.SelectorExpr); !ok || f.Sel.Name != "With" {
				return true
			}
			for i := 1; i < len(call.Args); i += 2 {
				name, ok := call.Args[i].(*ast.BasicLit)
				if !ok {
					t.Errorf("%s: a label has no constant name", file)
					continue
				}
				labels = append(labels, strings.Trim(name.Value, `"`))
			}
			return true
		})
	}
	slices.Sort(labels)
	return slices.Compact(labels)
}

func source(t *testing.T, file string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
