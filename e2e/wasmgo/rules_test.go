package wasmgo

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/warmgate/warmgate/plugin/config"
)

// warmgateChoice returns the part of the configuration that Warmgate chooses for the request, refused parts included.
// ok is false if the configuration is refused as a whole: then no part of it is in force in Higress either, or the
// text is one that Warmgate reads more strictly.
func warmgateChoice(text string, r request) (part int, ok bool) {
	set, _ := config.Parse([]byte(text), config.Higress)
	if set == nil {
		return noPart, false
	}
	if c := set.Match(r.route, r.cluster, r.authority); c != nil {
		return c.ID, true
	}
	return noPart, true
}

// isPossible reports whether a request can have these names. An authority is never empty, nor dots alone, and has no
// space around it, or before the dots at its end.
func (r request) isPossible() bool {
	host := strings.TrimRight(r.authority, ".")
	return host != "" && strings.TrimSpace(r.authority) == r.authority && strings.TrimSpace(host) == host &&
		!strings.Contains(r.route+r.cluster+r.authority, never)
}

// compare fails the test if Warmgate chooses another part than Higress, but for the differences that are meant. ok is
// false if there was nothing to compare.
func compare(tb testing.TB, text string, r request) (part int, ok bool) {
	tb.Helper()
	if !r.isPossible() {
		return noPart, false
	}
	got, ok := warmgateChoice(text, r)
	if !ok {
		return noPart, false
	}
	if !gjson.Valid(text) {
		tb.Fatalf("Higress refuses what is no JSON: %q", text)
	}
	in, adapted, request := readInput(text, r), text, r
	var why []string
	for _, d := range differences {
		if d.adapt(in) {
			why, adapted, request = append(why, d.name), in.text(tb), in.request
		}
	}
	want, err := higressChoice(tb, adapted, request)
	if err != nil {
		tb.Fatalf("Higress refuses %s: %v", adapted, err)
	}
	if got != want {
		tb.Fatalf("%s, request %q: Warmgate chooses part %d, Higress %d (adapted: %q)", text, r, got, want, why)
	}
	return got, true
}

// Each difference exists: an entry must be removed when Higress's matcher or ours no longer has it.
func TestDifferences(t *testing.T) {
	for _, d := range differences {
		t.Run(d.name, func(t *testing.T) {
			text, r := `{"enabled":false,"_rules_":`+d.rules+`}`, d.request
			if r.authority == "" {
				r.authority = "host"
			}
			if got, ok := warmgateChoice(text, r); !ok || got != d.warmgate {
				t.Errorf("Warmgate chooses %d, %v, want %d", got, ok, d.warmgate)
			}
			got, err := higressChoice(t, text, r)
			if got != d.higress || (err == nil) != (d.refusedBy == "") ||
				err != nil && !strings.Contains(err.Error(), d.refusedBy) {
				t.Errorf("Higress chooses %d, %v, want %d, %q", got, err, d.higress, d.refusedBy)
			}
			compare(t, text, r)
			if d.why == "" || !d.adapt(readInput(text, r)) {
				t.Error("the difference has no reason, or does not apply to its own example")
			}
		})
	}
}

// rulesText makes a configuration of short lines, one for each rule: conditions as "key=name,name", where the key is
// r for routes, p for prefixes of routes, d for domains and s for services.
func rulesText(tb testing.TB, lines string, global bool) string {
	tb.Helper()
	keys := map[string]string{"r": matchRoute, "p": matchPrefix, "d": matchDomain, "s": matchService}
	rules := []map[string]any{}
	for _, line := range strings.Split(lines, "\n") {
		rule := map[string]any{"enabled": false}
		for _, condition := range strings.Fields(line) {
			key, names, _ := strings.Cut(condition, "=")
			if keys[key] != "" {
				rule[keys[key]] = strings.Split(names, ",")
			}
		}
		rules = append(rules, rule)
	}
	whole := map[string]any{rulesKey: rules}
	if global {
		whole["enabled"] = false
	}
	text, err := json.Marshal(whole)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

var someConditions = []struct {
	key   string
	names []string
}{
	{"r", []string{"r1", "r2", "r1-a", "route"}},
	{"p", []string{"r", "r1", "r1-", "x"}},
	{"d", []string{"a.com", "*.a.com", "a.*", "*", "A.com", "*a*", "[::1]", ".com", "a.com:80", "", "a.com.", "*."}},
	{"s", []string{"s.dns", "s.dns:80", "s.dns:", "t.static:8080", ":80", "a:b:80", "s.dns|x"}},
}

var (
	someRoutes   = []string{"", "r1", "r2", "r1-a", "r1-b", "route", "other"}
	someClusters = []string{
		"", "outbound|80||s.dns", "outbound|81||s.dns", "outbound|||s.dns", "outbound|80|v1|t.static", "outbound|80||",
		"outbound|80||a:b", "s.dns", "outbound|80||s.dns|x", "|||",
	}
	someAuthorities = []string{
		"a.com", "a.com:80", "b.a.com", "A.COM", ".com", "a.", "[::1]:80", "[::1]", ":80", "x:y:z", "a.com:", "a.com.",
		"a.com..:80",
	}
)

// Random rules with few names, so that many match: the same part applies as in Higress.
func TestSamePartAsHigress(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func(list []string) string { return list[rng.IntN(len(list))] }
	compared, chosen := 0, map[int]int{}
	for range 3000 {
		var lines []string
		for range 1 + rng.IntN(5) {
			var line []string
			for _, condition := range someConditions {
				if rng.IntN(3) == 0 {
					list := []string{pick(condition.names)}
					for rng.IntN(2) == 0 {
						list = append(list, pick(condition.names))
					}
					line = append(line, condition.key+"="+strings.Join(list, ","))
				}
			}
			lines = append(lines, strings.Join(line, " "))
		}
		text := rulesText(t, strings.Join(lines, "\n"), rng.IntN(2) == 0)
		for range 5 {
			if part, ok := compare(t, text, request{pick(someRoutes), pick(someClusters), pick(someAuthorities)}); ok {
				compared++
				chosen[part]++
			}
		}
	}
	if compared < 10_000 || chosen[noPart] < 500 || chosen[globalPart] < 500 || chosen[1] < 500 || chosen[3] < 100 {
		t.Errorf("only %d compared, parts %v", compared, chosen)
	}
}

// FuzzRules compares rules that are well written.
func FuzzRules(f *testing.F) {
	for _, lines := range []string{
		"r=a,b", "r=a s=s.dns\nr=a", "d=*.a.com\nd=a.* s=s.dns\nd=*", "s=s.dns:80,t.dns p=r", "p=r,x\nr=r1", "\nr=a",
	} {
		for i, authority := range someAuthorities {
			cluster, route := someClusters[i%len(someClusters)], someRoutes[i%len(someRoutes)]
			f.Add(lines, i%2 == 0, route, cluster, authority)
		}
	}
	f.Fuzz(func(t *testing.T, lines string, global bool, route, cluster, authority string) {
		compare(t, rulesText(t, lines, global), request{route, cluster, authority})
	})
}

// FuzzRulesText compares any configuration, and its rules alone beside a global part that is good: then most mistakes
// are not those of the whole.
func FuzzRulesText(f *testing.F) {
	files, err := filepath.Glob("../../plugin/config/testdata/higress-*.json")
	if err != nil || len(files) < 10 {
		f.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text), "a", "outbound|80||llm.static", "www.example.com")
		f.Add(string(text), "chat", "outbound|80||llm.dns", "api.example.com:443")
	}
	for _, d := range differences {
		f.Add(`{"_rules_":`+d.rules+`}`, d.request.route, d.request.cluster, d.request.authority)
	}
	f.Add(`{"_plugin_id_":"","_rules_":[{"_match_route_":["r"],"enabled":false}]}`, "a", "b", "A.com")
	f.Fuzz(func(t *testing.T, text, route, cluster, authority string) {
		r := request{route, cluster, authority}
		compare(t, text, r)
		if rules := gjson.Get(text, rulesKey); rules.IsArray() {
			compare(t, `{"enabled":false,"`+rulesKey+`":`+rules.Raw+`}`, r)
		}
	})
}
