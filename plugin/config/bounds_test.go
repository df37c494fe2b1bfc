package config

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/lb/setting"
)

// Every bound is the last value that is accepted.
func TestBoundsAreInclusive(t *testing.T) {
	config := func(policy, members string) string {
		return `{"lb_policy":"` + policy + `","lb_config":{` + members + `}}`
	}
	scraped := func(path string) string { return config("endpoint_metrics", `"metrics":{"path":"`+path+`"}`) }
	least := func(members string) string { return config("global_least_request", members) }
	text := strings.Repeat("x", setting.MaxText)
	name := strings.Repeat("x", 253)
	for _, c := range []struct{ name, good, bad string }{
		{
			"bytes", `{"lb_policy":"global_least_request"` + strings.Repeat(" ", maxBytes-36) + `}`,
			`{"lb_policy":"global_least_request"` + strings.Repeat(" ", maxBytes-35) + `}`,
		},
		{
			"rules", `{"_rules_":[` + strings.Repeat(`{"_match_route_":["a"],"enabled":false},`, maxRules-1) +
				`{"_match_route_":["a"],"enabled":false}]}`,
			`{"_rules_":[` + strings.Repeat(`{"_match_route_":["a"],"enabled":false},`, maxRules) +
				`{"_match_route_":["a"],"enabled":false}]}`,
		},
		{"lowest weight", least(`"weights":{"10.0.0.1:80":0.001}`), least(`"weights":{"10.0.0.1:80":0.0009}`)},
		{"highest weight", least(`"weights":{"10.0.0.1:80":1000}`), least(`"weights":{"10.0.0.1:80":1000.1}`)},
		{"text of Higress's", least(`"username":"` + text + `"`), least(`"username":"` + text + `x"`)},
		{"text", least(`"redis_scope":"` + text + `"`), least(`"redis_scope":"` + text + `x"`)},
		{
			"secret", config("prefix_cache", `"prefix":{"secret":"`+text+`"}`),
			config("prefix_cache", `"prefix":{"secret":"`+text+`x"}`),
		},
		{"service", least(`"serviceFQDN":"` + name + `"`), least(`"serviceFQDN":"` + name + `x"`)},
		{
			"ejection times", least(`"health":{"ejection_time":"10s","max_ejection_time":"10s"}`),
			least(`"health":{"ejection_time":"10s","max_ejection_time":"9999ms"}`),
		},
		{"first printable byte", scraped("/!"), scraped("/ ")},
		{"last printable byte", scraped("/~"), scraped("/\x7f")},
	} {
		if _, err := Parse([]byte(c.good), Higress); err != nil {
			t.Errorf("%s: %.200v", c.name, err)
		}
		if _, err := Parse([]byte(c.bad), Higress); err == nil {
			t.Errorf("%s: above the bound, accepted", c.name)
		}
	}
	if _, err := parseJSON(`[` + strings.Repeat("1,", maxValues-2) + `1]`); err != nil {
		t.Error(err)
	}
	for _, nested := range []string{"[", `{"a":`} {
		end := map[string]string{"[": "]", `{"a":`: "}"}[nested]
		deep := strings.Repeat(nested, maxDepth) + "1" + strings.Repeat(end, maxDepth)
		if _, err := parseJSON(deep); err != nil {
			t.Errorf("%s: %v", nested, err)
		}
		if _, err := parseJSON(nested + deep + end); err == nil {
			t.Errorf("%s deeper than the bound, accepted", nested)
		}
	}
}

// Text that ends inside a number or an escape is refused where it ends.
func TestTextEndsAnywhere(t *testing.T) {
	text := `{"a":[-1.5e+3,"\u0041\ud83d\ude00\n",true,null]}`
	for end := range text {
		if _, err := parseJSON(text[:end]); err == nil {
			t.Errorf("%s is accepted", text[:end])
		}
	}
	for text, want := range map[string]string{
		`"\u0041`: "the string does not end", `"\u004`: "an unknown escape inside a string", `1e`: "not a number",
	} {
		var syntax *syntaxError
		if _, err := parseJSON(text); !errors.As(err, &syntax) || syntax.what != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// What may be written in the keys of Higress's: a value whose meaning differs from its appearance has a warning.
func TestLooseValuesWithWarnings(t *testing.T) {
	for members, want := range map[string]string{
		`"enableDetailLog":0`: "", `"enableDetailLog":1`: "",
		`"enableDetailLog":7`: "lb_config.enableDetailLog got 7, taken as true",
		`"lb_type":""`:        `lb_type got "", taken as "endpoint"`,
		`"timeout":"00"`:      "", // no duration, but a number of milliseconds
	} {
		text := `{"lb_policy":"global_least_request","lb_config":{"serviceFQDN":"r.static",` + members + `}}`
		if rest, ok := strings.CutPrefix(members, `"lb_type"`); ok {
			text = `{"lb_policy":"global_least_request","lb_type"` + rest + `}`
		}
		s, err := Parse([]byte(text), Higress)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := strings.Join(s.Warnings(), "; "); got != want {
			t.Errorf("%s: warnings %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		`{"lb_policy":"endpoint_metrics","lb_config":{"rate_limit":[0.5]}}`:        "want a number from 0 to 1",
		`{"lb_policy":"global_least_request","lb_config":{"maxRequestCount":[5]}}`: "want a whole number",
		`{"lb_policy":"global_least_request","lb_type":[]}`:                        `got an array, want one of "endpoint", "cluster"`,
	} {
		if _, err := Parse([]byte(text), Higress); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// Beside the keys of Higress's, 16 unknown keys are warned of. More of them are refused: so many are hardly those of
// ai-load-balancer, and each is compared with the known keys.
func TestUnknownKeysAreBounded(t *testing.T) {
	text := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(`"qqqqqqqqqq` + strconv.Itoa(i) + `":1,`)
		}
		return `{"lb_policy":"global_least_request","lb_config":{` + b.String() + `"max_inflight":1}}`
	}
	s, err := Parse([]byte(text(maxUnknown)), Higress)
	if err != nil || len(s.Warnings()) != maxUnknown {
		t.Errorf("%d unknown keys: %v, %v", maxUnknown, s, err)
	}
	if _, err := Parse([]byte(text(maxUnknown+1)), Higress); err == nil {
		t.Errorf("%d unknown keys are accepted", maxUnknown+1)
	}
}

func TestWarningsAreBounded(t *testing.T) {
	rule := `{"_match_route_":["a"],"lb_policy":"global_least_request","lb_config":{"enableDetailLog":7}},`
	s, err := Parse([]byte(`{"_rules_":[`+strings.TrimSuffix(strings.Repeat(rule, maxProblems+1), ",")+`]}`), Higress)
	if err != nil || len(s.Warnings()) != maxProblems {
		t.Fatalf("%d warnings, %v", len(s.Warnings()), err)
	}
}

// A refused rule is named by the requests that it would match.
func TestNamesOfRefusedRules(t *testing.T) {
	for conditions, want := range map[string]string{
		`"_match_route_":["a"]`:                                  "_rules_[0] for route a",
		`"_match_route_":["b","a"],"_match_service_":["s"]`:      "_rules_[0] for route a, b and service s",
		`"_match_route_":["a"],"_match_service_":[]`:             "_rules_[0], which matches nothing",
		`"_match_route_":[],"_match_service_":["s"]`:             "_rules_[0], which matches nothing",
		`"_match_domain_":[],"_match_route_prefix_":["r"]`:       "_rules_[0], which matches nothing",
		`"_match_domain_":["d"],"_match_route_prefix_":["r"]`:    "_rules_[0] for domain d",
		`"_match_route_prefix_":["r"]`:                           "_rules_[0] for route prefix r",
		`"_match_route_":["a"],"_match_domain_":[]`:              "_rules_[0] for route a",
		`"_match_domain_":[5],"_match_service_":["s.static:80"]`: "_rules_[0], which matches nothing",
	} {
		s, err := Parse([]byte(rulesOf(globalCap, `{`+conditions+`,"lb_policy":"x"}`)), Higress)
		if s == nil {
			t.Fatalf("%s: %v", conditions, err)
		}
		if want := []Refusal{{want, false}}; !reflect.DeepEqual(s.Refusals(), want) {
			t.Errorf("%s: %v, want %v", conditions, s.Refusals(), want)
		}
	}
}

func TestWithoutPort(t *testing.T) {
	for authority, want := range map[string]string{
		"": "", "a": "a", "a:80": "a", ":80": "", "[::1]": "[::1]", "[::1]:80": "[::1]", "a]:80": "a]",
	} {
		if got := withoutPort(authority); got != want {
			t.Errorf("%q: %q, want %q", authority, got, want)
		}
	}
}

// An address is written as net/netip writes it; these are forms that differ in one point.
func TestCanonicalAddress(t *testing.T) {
	for address, want := range map[string]string{
		"[1:0:0:1:0:0:0:1]:1": "[1:0:0:1::1]:1", "[0:0:0:1:0:0:0:1]:1": "[::1:0:0:0:1]:1",
		"[1:2:3:4:5:6:0:0]:1": "[1:2:3:4:5:6::]:1", "[1:2:3::4:5:6:7]:1": "[1:2:3:0:4:5:6:7]:1",
		"[1:2:3:4::5:6:7:8]:1": "", ":80": "", "80": "", "1.2.3.4:65535": "1.2.3.4:65535", "1.2.3.4:65536": "",
		"255.255.255.255:1": "255.255.255.255:1", "1.2.3.256:1": "",
	} {
		if got, ok := canonicalAddress(address); got != want || ok != (want != "") {
			t.Errorf("%s: %q %v, want %q", address, got, ok, want)
		}
	}
}

// LoRA adapters matter only where they have a weight.
func TestReadsModel(t *testing.T) {
	for weight, want := range map[string]bool{"0": false, "0.5": true} {
		s, err := Parse([]byte(`{"lb_policy":"endpoint_metrics","lb_config":{"metrics":{"weights":{"lora":`+weight+
			`}}}}`), Higress)
		if err != nil || s.Match("", "", "").ReadsModel() != want {
			t.Errorf("lora %s: %v, %v", weight, err, !want)
		}
	}
}

func TestNamesOfStores(t *testing.T) {
	for kind := range StoreKind(len(storeNames)) {
		var got StoreKind
		if err := got.UnmarshalText([]byte(kind.String())); err != nil || got != kind {
			t.Errorf("%q: %v, %v", kind, got, err)
		}
	}
	if err := new(StoreKind).UnmarshalText([]byte("Redis")); err == nil {
		t.Error("an unknown store is accepted")
	}
}
