package config

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// apiPart is a configuration with an admission API, without its last brace.
func apiPart(members string) string {
	return `{"lb_policy":"token_budget","lb_type":"cluster","lb_config":{"targets":{"m":{"weight":1}},` +
		`"api":{` + members + `}}`
}

const testToken = `"token":"0123456789abcdef"`

func init() {
	add := func(name, good string, want func(*Config), bad ...string) {
		c := keyCases[name]
		c.good, c.want, c.bad = good, want, bad
		keyCases[name] = c
	}
	add(keyAPIPath, `"/v2/a.b-c_d~e"`, nil, `""`, `1`, `"/"`, `"v1"`, `"/v1/"`, `"//v1"`, `"/a/../b"`, `"/."`, `"/a b"`,
		`"/a?b"`, `"/%61"`, `"/é"`, `"/`+strings.Repeat("x", maxAPIPath)+`"`)
	add(keyAPIToken, `"`+testSecret+`"`, nil, `""`, `"0123456789abcde"`, `1`, `"`+strings.Repeat("x", 1025)+`"`)
	add(keyInspectPath, `"/warmgate/inspect"`, func(c *Config) {
		c.Inspect = Inspect{"/warmgate/inspect", testSecret}
	}, `""`, `1`, `"/"`, `"/x/"`)
	add(keyInspectToken, `"`+testSecret+`"`, func(c *Config) { c.Inspect.Token = testSecret },
		`""`, `"0123456789abcde"`, `1`)
	add(keyMaxHint, `"250ms"`, func(c *Config) { c.API.MaxHint = 250 * time.Millisecond }, `99`, `"61m"`, `"5"`)
	add(keyCallers, `{"batch":{"token":"`+testSecret+`0"}}`, nil, `1`, `[]`, `{}`, `{"batch":1}`, `{"batch":{}}`,
		`{"Batch":{"token":"`+testSecret+`"}}`, `{"batch":{"token":"short"}}`,
		`{"batch":{"token":"`+testSecret+`","share":0}}`, `{"batch":{"token":"`+testSecret+`","share":1.1}}`,
		`{"batch":{"token":"`+testSecret+`","more":1}}`, `{"batch":{"token":"`+testSecret+`","class":1}}`)
	add(keyAPIOnly, `true`, nil, `1`, `"true"`)
	add(keyLeaseTTL, `"2m"`, func(c *Config) { c.API.LeaseTTL = 2 * time.Minute }, `999`, `"61m"`, `"30"`)
}

func TestAPI(t *testing.T) {
	rule := apiPart(`"path":"/admission",` + testToken + `,"lease_ttl":"5s","only":true`)
	text := apiPart(`"path":"/warmgate/v1",` + testToken)
	text += `,"_rules_":[{"_match_route_":["r"],` + rule[1:] + `}]}`
	set, err := Parse([]byte(text), Higress)
	if err != nil {
		t.Fatal(err)
	}
	if !set.HasAPI() || len(set.Warnings()) > 0 {
		t.Errorf("has an API: %v, warnings %q", set.HasAPI(), set.Warnings())
	}
	for path, want := range map[string]string{
		"/warmgate/v1": "30s false ", "/warmgate/v1/": "30s false /", "/warmgate/v1?a=/b": "30s false ",
		"/warmgate/v1/schedule": "30s false /schedule", "/warmgate/v1/schedule?x": "30s false /schedule",
		"/admission/models": "5s true /models", "/warmgate/v1/a/b": "30s false /a/b",
		"/warmgate": "", "/warmgate/v10": "", "/": "", "": "", "/x/warmgate/v1": "", "/Warmgate/v1": "",
	} {
		got := ""
		if c, below := set.API(path); c != nil {
			got = fmt.Sprint(c.API.LeaseTTL.Round(time.Second), " ", c.API.Only, " ", below)
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	off, err := Parse([]byte(`{"enabled":false,`+apiPart(`"path":"/a",` + testToken)[1:]+"}"), Higress)
	if err != nil || off.HasAPI() {
		t.Errorf("switched off: %v, has an API: %v", err, off.HasAPI())
	}
}

func TestAPIChecks(t *testing.T) {
	const tokenMissing = "want a string of 16 bytes or more that callers of the API send"
	twice := func(a, b string) string {
		rule := apiPart(`"path":"` + b + `",` + testToken)
		return apiPart(`"path":"`+a+`",`+testToken) + `,"_rules_":[{"_match_route_":["r"],` + rule[1:] + `}]}`
	}
	beside := func(path, other string) string {
		return `_rules_[0].lb_config.api.path: got "` + path + `" beside "` + other +
			`" elsewhere, want paths of which none begins with another one`
	}
	for text, want := range map[string]string{
		apiPart(`"path":"/a"`) + "}": "lb_config.api.token: missing, " + tokenMissing,
		apiPart(`"path":"/a","token":"x"`) + "}": "lb_config.api.token: got a string of 1 bytes, " +
			"want a string of 16 to 1024 bytes, random",
		twice("/a", "/a"):   beside("/a", "/a"),
		twice("/a/b", "/a"): beside("/a", "/a/b"),
		twice("/a", "/a/b"): beside("/a/b", "/a"),
	} {
		if _, err := Parse([]byte(text), Higress); err == nil || err.Error() != "config: 1 problem\n  "+want {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
	if _, err := Parse([]byte(twice("/a", "/ab")), Higress); err != nil {
		t.Errorf("paths of which none is below another: %v", err)
	}
	inner := apiPart(`"path":"/a",`+testToken) + "}"
	nested := strings.Replace(inner, `"api"`,
		`"endpoint":{"lb_policy":"global_least_request","lb_config":{"api":{"path":"/b"}}},"api"`, 1)
	const from = "is taken from the configuration around lb_config.endpoint, want it there"
	if _, err := Parse([]byte(nested), Higress); err == nil ||
		err.Error() != "config: 1 problem\n  lb_config.endpoint.lb_config.api.path: "+from {
		t.Errorf("inside endpoint: %v", err)
	}
	for text, want := range map[string]string{
		apiPart(testToken) + "}": "lb_config.api.token has no effect without api.path",
		strings.Replace(inner, `"cluster"`, `"endpoint"`, 1): `lb_config.api.path has no effect without ` +
			`lb_type "cluster"` + "\n" + `lb_config.api.token has no effect without lb_type "cluster"`,
	} {
		text = strings.Replace(text, `"targets":{"m"`, `"targets":{"10.0.0.1:80"`, strings.Count(text, `"endpoint"`))
		set, err := Parse([]byte(text), Higress)
		if err != nil || strings.Join(set.Warnings(), "\n") != want || set.HasAPI() {
			t.Errorf("%s: %v, warnings %q, has an API: %v", text, err, set.Warnings(), set.HasAPI())
		}
	}
	for _, text := range []string{
		apiPart(`"path":5,` + testToken), apiPart(`"path":"/a","token":["0123456789abcdef"]`),
	} {
		if _, err := Parse([]byte(text+"}"), Higress); err == nil || strings.Contains(err.Error(), "0123456789abcdef") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A gateway has one place where it shows what it knows, which is the same in all parts, and beside the admission API.
func TestInspect(t *testing.T) {
	const rule = `{"lb_policy":"global_least_request","lb_config":{"inspect":{"path":"%s","token":"%s"}}`
	in := func(path, token string) string { return fmt.Sprintf(rule, path, token) }
	two := func(a, b string) string { return a + `,"_rules_":[{"_match_route_":["r"],` + b[1:] + "}]}" }
	good := in("/warmgate/inspect", testSecret)
	set, err := Parse([]byte(two(good, good)), Higress)
	if err != nil || !set.HasInspect() {
		t.Fatalf("has one: %v, %v", set != nil, err)
	}
	for path, want := range map[string]string{
		"/warmgate/inspect/state?since=1": "/state", "/warmgate/inspect": "", "/warmgate/inspector": "none",
	} {
		got := "none"
		if c, below := set.Inspect(path); c != nil {
			got = below
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	const differs = "_rules_[0].lb_config.inspect: got another path or token than elsewhere, want the same: " +
		"a gateway has one"
	const beside = `_rules_[0].lb_config.inspect.path: got "/a/b" beside "/a" of the admission API, ` +
		"want paths of which none begins with the other one"
	const behind = `_rules_[0].lb_config.api.path: got "/a/b" beside "/a" elsewhere, ` +
		"want paths of which none begins with another one"
	for text, want := range map[string]string{
		two(good, in("/other", testSecret)):                            differs,
		two(good, in("/warmgate/inspect", "fedcba9876543210")):         differs,
		two(apiPart(`"path":"/a",`+testToken), in("/a/b", testSecret)): beside,
		two(in("/a", testSecret), apiPart(`"path":"/a/b",`+testToken)): behind,
		in("/a", "change-me-0123456789") + "}":                         "lb_config.inspect.token: " + everybodyKnows,
	} {
		if _, err := Parse([]byte(text), Higress); err == nil || err.Error() != "config: 1 problem\n  "+want {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
	if got := RefusedAPIs([]byte(good)); len(got) != 1 || got[0] != "/warmgate/inspect" {
		t.Errorf("of a refused configuration: %q", got)
	}
}
