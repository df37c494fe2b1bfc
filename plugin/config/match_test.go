package config

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/lb"
)

// parseRules returns a Set with the given rules, each switched off to keep it short.
func parseRules(t *testing.T, h Host, global bool, rules ...string) *Set {
	t.Helper()
	text := `{`
	if global {
		text += `"enabled":false,`
	}
	text += `"_rules_":[`
	for i, r := range rules {
		if i > 0 {
			text += ","
		}
		text += `{"enabled":false,` + r + `}`
	}
	s, err := Parse([]byte(text+`]}`), h)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const outbound = "outbound|8000||llm.models.svc.cluster.local"

var matchTests = []struct {
	name                      string
	rule                      string
	host                      Host
	route, cluster, authority string
	want                      bool
}{
	{"route", `"_match_route_":["a","b"]`, Higress, "b", "", "", true},
	{"other route", `"_match_route_":["a","b"]`, Higress, "ab", "", "", false},
	{"no route", `"_match_route_":["a"]`, Higress, "", "", "", false},
	{"route prefix", `"_match_route_prefix_":["x","ab"]`, Higress, "abc", "", "", true},
	{"whole route as prefix", `"_match_route_prefix_":["abc"]`, Higress, "abc", "", "", true},
	{"longer prefix", `"_match_route_prefix_":["abcd"]`, Higress, "abc", "", "", false},

	{"domain", `"_match_domain_":["a.com"]`, Higress, "", "", "a.com", true},
	{"domain with a port", `"_match_domain_":["a.com"]`, Higress, "", "", "a.com:8080", true},
	{"domain is exact", `"_match_domain_":["a.com"]`, Higress, "", "", "b.a.com", false},
	{"case of the host", `"_match_domain_":["a.com"]`, Higress, "", "", "A.coM:80", true},
	{"case of the first and the last letter", `"_match_domain_":["az.com"]`, Higress, "", "", "AZ.com", true},
	{"case of the domain", `"_match_domain_":["A.Com"]`, Higress, "", "", "a.com", true},
	{"case of an end", `"_match_domain_":["*.A.com"]`, Higress, "", "", "B.a.COM", true},
	{"case of a beginning", `"_match_domain_":["API.*"]`, Higress, "", "", "api.b.com", true},
	{"only letters have case", `"_match_domain_":["a@com"]`, Higress, "", "", "a`com", false},
	{"a letter whose small form is in ASCII", `"_match_domain_":["k.com"]`, Higress, "", "", "\u212a.com", true},
	{"dot of the root", `"_match_domain_":["a.com"]`, Higress, "", "", "a.com.", true},
	{"dot of the root and a port", `"_match_domain_":["a.com"]`, Higress, "", "", "A.com.:8080", true},
	{"dots", `"_match_domain_":["a.com"]`, Higress, "", "", "a.com..", true},
	{"a port left out", `"_match_domain_":["a.com"]`, Higress, "", "", "a.com:", true},
	{"dot of the root in the rule", `"_match_domain_":["a.com."]`, Higress, "", "", "a.com", true},
	{"dot of the root behind an end", `"_match_domain_":["*.com."]`, Higress, "", "", "a.com.:1", true},
	{"a beginning keeps its dot", `"_match_domain_":["api.*"]`, Higress, "", "", "apia.com", false},
	{"IDN in the rule", `"_match_domain_":["Bücher.example"]`, Higress, "", "", "XN--bcher-kva.example.", true},
	{"IDN in the request", `"_match_domain_":["xn--bcher-kva.example"]`, Higress, "", "", "BÜCHER。example:80", true},
	{"end of an IDN", `"_match_domain_":["*.例え.jp"]`, Higress, "", "", "a.xn--r8jz45g.jp", true},
	{"beginning of an IDN", `"_match_domain_":["例え.*"]`, Higress, "", "", "xn--r8jz45g.jp", true},
	{"another IDN", `"_match_domain_":["bücher.example"]`, Higress, "", "", "bucher.example", false},
	{"form of an IPv6 address", `"_match_domain_":["[2001:DB8::1]"]`, Higress, "", "", "[2001:db8:0:0::0001]:80", true},
	{"other IPv6 address", `"_match_domain_":["[2001:db8::1]"]`, Higress, "", "", "[2001:db8::2]", false},
	{"host shorter than an end", `"_match_domain_":["*.a.com"]`, Higress, "", "", ".com", false},
	{"host shorter than a beginning", `"_match_domain_":["api.*"]`, Higress, "", "", "api", false},
	{"end of domain", `"_match_domain_":["*.a.com"]`, Higress, "", "", "b.c.a.com", true},
	{"end of domain needs the dot", `"_match_domain_":["*.a.com"]`, Higress, "", "", "a.com", false},
	{"beginning of domain", `"_match_domain_":["api.*"]`, Higress, "", "", "api.b.com:1", true},
	{"other beginning", `"_match_domain_":["api.*"]`, Higress, "", "", "www.api.com", false},
	{"any domain", `"_match_domain_":["*"]`, Higress, "", "", "", true},
	{"IPv6", `"_match_domain_":["[::1]"]`, Higress, "", "", "[::1]:80", true},
	{"IPv6 without a port", `"_match_domain_":["[::1]"]`, Higress, "", "", "[::1]", true},

	{"service", `"_match_service_":["llm.models.svc.cluster.local"]`, Higress, "", outbound, "", true},
	{"service and port", `"_match_service_":["llm.models.svc.cluster.local:8000"]`, Higress, "", outbound, "", true},
	{"other port", `"_match_service_":["llm.models.svc.cluster.local:8001"]`, Higress, "", outbound, "", false},
	{"port begins alike", `"_match_service_":["llm.models.svc.cluster.local:80"]`, Higress, "", outbound, "", false},
	{"other service", `"_match_service_":["models.svc.cluster.local"]`, Higress, "", outbound, "", false},
	{"service with a subset", `"_match_service_":["a.dns"]`, Higress, "", "outbound|80|v1|a.dns", "", true},
	{"empty cluster", `"_match_service_":["a.dns"]`, Envoy, "", "", "", false},
	{"no service in the cluster's name", `"_match_service_":["a.dns"]`, Higress, "", "outbound|80||", "", false},
	{"service with an empty port", `"_match_service_":["a.dns:"]`, Higress, "", "outbound|80||a.dns", "", false},
	{"service and cluster with an empty port", `"_match_service_":["a.dns:"]`, Higress, "", "outbound|||a.dns", "", true},
	{"service without a port", `"_match_service_":["a.dns"]`, Higress, "", "outbound|||a.dns", "", true},
	{"port without a service", `"_match_service_":[":80"]`, Higress, "", "outbound|80||", "", true},
	{"too many parts", `"_match_service_":["a.dns"]`, Higress, "", "outbound|80|v1|a.dns|x", "", false},
	{"plain cluster on Higress", `"_match_service_":["llm"]`, Higress, "", "llm", "", false},
	{"plain cluster on Envoy", `"_match_service_":["llm"]`, Envoy, "", "llm", "", true},
	{"other cluster on Envoy", `"_match_service_":["llm"]`, Envoy, "", "llm2", "", false},
	{"Higress's names on Envoy", `"_match_service_":["a.dns:80"]`, Envoy, "", "outbound|80||a.dns", "", true},
	{
		"whole cluster name on Envoy", `"_match_service_":["outbound|80||a.dns"]`, Envoy, "", "outbound|80||a.dns",
		"", true,
	},

	{
		"route and service", `"_match_route_":["a"],"_match_service_":["s.dns"]`, Higress, "a", "outbound|1||s.dns",
		"", true,
	},
	{
		"route without service", `"_match_route_":["a"],"_match_service_":["s.dns"]`, Higress, "a",
		"outbound|1||t.dns", "", false,
	},
	{
		"service without route", `"_match_route_":["a"],"_match_service_":["s.dns"]`, Higress, "b",
		"outbound|1||s.dns", "", false,
	},
	{"route outranks domain", `"_match_route_":["a"],"_match_domain_":["a.com"]`, Higress, "a", "", "b.com", true},
	{"domain beside route", `"_match_route_":["a"],"_match_domain_":["a.com"]`, Higress, "b", "", "a.com", false},
	{
		"domain outranks service", `"_match_domain_":["a.com"],"_match_service_":["s.dns"]`, Higress, "",
		"outbound|1||t.dns", "a.com", true,
	},
	{
		"service outranks prefix", `"_match_service_":["s.dns"],"_match_route_prefix_":["a"]`, Higress, "a",
		"outbound|1||t.dns", "", false,
	},
}

func TestMatch(t *testing.T) {
	for _, tt := range matchTests {
		t.Run(tt.name, func(t *testing.T) {
			with, without := parseRules(t, tt.host, true, tt.rule), parseRules(t, tt.host, false, tt.rule)
			got := with.Match(tt.route, tt.cluster, tt.authority)
			bare := without.Match(tt.route, tt.cluster, tt.authority)
			if tt.want && (got == nil || got.ID != 1 || bare == nil || bare.ID != 1) {
				t.Errorf("got %+v and %+v, want the rule", got, bare)
			}
			if !tt.want && (got == nil || got.ID != 0 || bare != nil) {
				t.Errorf("got %+v and %+v, want the global part and none", got, bare)
			}
		})
	}
}

// The first rule that matches applies, whether it is found by the index of routes or by scanning.
func TestMatchFirstRule(t *testing.T) {
	const service = "outbound|1||s.dns"
	begins := strings.HasPrefix
	rules := map[string]func(route, cluster, authority string) bool{
		`"_match_route_":["r1","r2"]`: func(r, _, _ string) bool { return r == "r1" || r == "r2" },
		`"_match_route_":["r2","r3"]`: func(r, _, _ string) bool { return r == "r2" || r == "r3" },
		`"_match_route_":["r1"],"_match_service_":["s.dns"]`: func(r, c, _ string) bool {
			return r == "r1" && c == service
		},
		`"_match_domain_":["a.*"]`:     func(_, _, a string) bool { return begins(a, "a.") },
		`"_match_service_":["s.dns"]`:  func(_, c, _ string) bool { return c == service },
		`"_match_route_prefix_":["r"]`: func(r, _, _ string) bool { return begins(r, "r") },
	}
	texts := make([]string, 0, len(rules))
	for text := range rules {
		texts = append(texts, text)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		rng.Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
		chosen := texts[:1+rng.IntN(len(texts))]
		s := parseRules(t, Higress, true, chosen...)
		for _, route := range []string{"", "r1", "r2", "r3", "r4", "x"} {
			for _, cluster := range []string{"", service, "outbound|1||t.dns"} {
				for _, authority := range []string{"", "a.com", "b.com"} {
					want := 0
					for i, text := range chosen {
						if rules[text](route, cluster, authority) {
							want = i + 1
							break
						}
					}
					if got := s.Match(route, cluster, authority); got == nil || got.ID != want {
						t.Fatalf("%v: %q %q %q got %+v, want rule %d", chosen, route, cluster, authority, got, want)
					}
				}
			}
		}
	}
}

func TestRulesDoNotInherit(t *testing.T) {
	s, err := Parse([]byte(`{"lb_policy":"global_least_request","lb_config":{"max_inflight":5,"unit":"tokens"},
		"_rules_":[{"_match_route_":["r"],"lb_policy":"global_least_request","lb_config":{"shadow":true}}]}`), Higress)
	if err != nil {
		t.Fatal(err)
	}
	if c := s.Match("r", "", ""); c.MaxInflight != 0 || c.Unit != lb.Requests || !c.Shadow {
		t.Errorf("rule %+v", *c)
	}
	if c := s.Match("x", "", ""); c.MaxInflight != 5 || c.Unit != lb.Tokens || c.Shadow {
		t.Errorf("global part %+v", *c)
	}
}

func TestAdminSource(t *testing.T) {
	part := func(match, envoy string) string {
		return match + `"lb_policy":"global_least_request","lb_config":{"envoy":{` + envoy + `}}`
	}
	const route, fixed = `"_match_route_":["r"],`, `"endpoints":["10.0.0.1:80"]`
	admin := func(name, interval string) string {
		return `"admin_cluster":"` + name + `","poll_interval":` + interval
	}
	for _, tt := range []struct{ text, cluster string }{
		{`{` + part("", admin("a", "1000")) + `}`, "a"},
		{`{` + part("", fixed) + `}`, ""},
		{`{"_rules_":[{` + part(route, fixed) + `},{` + part(route, admin("b", "1000")) + `}]}`, "b"},
		{`{` + part("", fixed) + `,"_rules_":[{` + part(route, admin("b", "1000")) + `}]}`, "b"},
	} {
		s, err := Parse([]byte(tt.text), Envoy)
		if err != nil {
			t.Fatal(err)
		}
		if src, ok := s.AdminSource(); src.AdminCluster != tt.cluster || ok != (tt.cluster != "") {
			t.Errorf("%s: got %+v, %v", tt.text, src, ok)
		}
	}
	text := `{` + part("", admin("a", "1000")) + `,"_rules_":[{` + part(route, admin("b", "1000")) + `}]}`
	_, err := Parse([]byte(text), Envoy)
	if err == nil || !strings.Contains(err.Error(), `_rules_[0].lb_config.envoy.admin_cluster: got "b", want "a"`) {
		t.Errorf("two admin clusters: got %v", err)
	}
}

func TestHasRules(t *testing.T) {
	if parseRules(t, Higress, true).HasRules() {
		t.Error("an empty list has rules")
	}
	if !parseRules(t, Higress, false, `"_match_route_":["a"]`).HasRules() {
		t.Error("a rule is none")
	}
}

// manyRules returns a Set with n rules of the kind, of which none matches a request for route r, cluster c and host h.
func manyRules(tb testing.TB, n int, kind string) *Set {
	rules := make([]string, n)
	for i := range rules {
		rules[i] = `{"enabled":false,"` + kind + `":["name-` + strconv.Itoa(i) + `"]}`
	}
	s, err := Parse([]byte(`{"enabled":false,"_rules_":[`+strings.Join(rules, ",")+`]}`), Higress)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func TestMatchAllocatesNothing(t *testing.T) {
	for _, kind := range conditionKeys {
		s := manyRules(t, 20, kind)
		match := func() { s.Match("route", "outbound|80||service.dns", "host.com:80") }
		if n := testing.AllocsPerRun(100, match); n != 0 {
			t.Errorf("%s: %v allocations", kind, n)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	for _, kind := range conditionKeys {
		s := manyRules(b, 100, kind)
		b.Run(kind, func(b *testing.B) {
			for b.Loop() {
				s.Match("route", "outbound|80||service.dns", "host.com:80")
			}
		})
	}
}
