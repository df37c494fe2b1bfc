package config

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/push"
	"github.com/warmgate/warmgate/lb/setting"
)

func TestLimits(t *testing.T) {
	policy := `"lb_policy":"global_least_request"`
	tests := []struct {
		name, text, want string
	}{
		{
			"too long", `{` + policy + `,"a":"` + strings.Repeat("x", maxBytes) + `"}`,
			"config: 1048619 bytes, want at most 1048576",
		},
		{"too deep", `{"a":` + strings.Repeat("[", 1e5), "nested deeper than 32 levels"},
		{"too many values", `{"a":[` + strings.Repeat("1,", maxValues) + `1]}`, "more than 65536 values"},
		{
			"too many rules", `{"_rules_":[` + strings.Repeat("{},", maxRules) + `{}]}`,
			"config: 1 problem\n  _rules_: got 4097 rules, want at most 4096",
		},
		{
			"long string",
			`{` + policy + `,"lb_config":{"username":"` + strings.Repeat("u", setting.MaxText+1) + `"}}`,
			"lb_config.username: got a string, want a string of at most 1024 bytes",
		},
		{
			"long key", `{"lb_config":{"health":{"` + strings.Repeat("k", 1000) + `":1}}}`,
			"lb_config.health." + strings.Repeat("k", 64-len("lb_config.health.")) + "...: unknown key",
		},
		{"NaN", `{` + policy + `,"lb_config":{"bytes_per_token":NaN}}`, "not the beginning of a value"},
		{
			"not a finite number", `{` + policy + `,"lb_config":{"bytes_per_token":1e999}}`,
			"lb_config.bytes_per_token: got 1e999",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(tt.text), Higress)
			if err == nil || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 4096 {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestSyntaxErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1} x`:        "line 1, column 9: text after the end of the object",
		"{\n\t\"a\"\n:\n}": "line 4, column 1: not the beginning of a value",
		`{"é" 1}`:          "line 1, column 6: a colon is missing after the key",
		`{"a":1 "b":2}`:    "line 1, column 8: a comma or } is missing",
		`{"a":[1 2]}`:      "line 1, column 9: a comma or ] is missing",
		`{"a":1,}`:         "line 1, column 8: a key in double quotes is missing",
		`{a:1}`:            "line 1, column 2: a key in double quotes is missing",
		`{"a`:              "line 1, column 4: the string does not end",
		"{\"a\nb\":1}":     "line 1, column 4: a control character inside a string",
		`{"a":"\x"}`:       "line 1, column 7: an unknown escape inside a string",
		`{"a":"\u12"}`:     "line 1, column 7: an unknown escape inside a string",
		`{"a":"\`:          "line 1, column 7: an unknown escape inside a string",
		`{"a":01}`:         "line 1, column 8: not a number",
		`{"a":1.}`:         "line 1, column 8: not a number",
		`{"a":1e+}`:        "line 1, column 9: not a number",
		`{"a":`:            "line 1, column 6: a value is missing",
		`{"a":nul}`:        "line 1, column 6: not the beginning of a value",
		"\ufeff{}":         "line 1, column 1: not the beginning of a value",
	} {
		_, err := Parse([]byte(text), Higress)
		if err == nil || err.Error() != "config: not valid JSON at "+want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func TestStrings(t *testing.T) {
	for text, want := range map[string]string{
		`"plain"`: "plain", `"\"\\\/\b\f\n\r\t"`: "\"\\/\b\f\n\r\t", `"\u00e9x"`: "éx", `"\ud83d\ude00"`: "😀",
		`"\ud83d\u0041"`: "\ufffdA", `"\ude00"`: "\ufffd", `"a\ud83d"`: "a\ufffd",
	} {
		v, err := parseJSON(text)
		if err != nil || v.text != want {
			t.Errorf("%s: got %q, %v, want %q", text, v.text, err, want)
		}
	}
}

func TestProblemsAreCountedBeyondThoseShown(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, `"unknown%d":1,`, i)
	}
	text := `{"lb_policy":"global_least_request","lb_config":{"health":{` + b.String() + `"slow_start":0}}}`
	_, err := Parse([]byte(text), Higress)
	if err == nil || !strings.HasPrefix(err.Error(), "config: 1000 problems\n") ||
		!strings.HasSuffix(err.Error(), "\n  and 950 more") {
		t.Fatalf("got %v", err)
	}
	if lines := strings.Count(err.Error(), "\n"); lines != maxProblems+1 {
		t.Errorf("%d lines", lines)
	}
}

// A password must not appear in any message, wherever it was put and whatever else is wrong.
func TestSecretsStayOut(t *testing.T) {
	const canary = "canary-7351"
	texts := []string{
		`{"lb_config":{"password":"` + canary + `"}}`,
		`{"lb_config":{"password":["` + canary + `"]}}`,
		`{"lb_config":{"password":"` + canary + `","password":"` + canary + `"}}`,
		`{"lb_config":{"password":"` + canary + strings.Repeat("x", setting.MaxText) + `"}}`,
		`{"lb_config":{"passwd":"` + canary + `"}}`,
		`{"password":"` + canary + `"}`,
		`{"lb_config":{"serviceFQDN":"redis://:` + canary + `@h"},"x":1}`,
		`{"lb_config":{"username":["` + canary + `"]}}`,
		`{"lb_config":{"password":"` + canary + `"`,
		`{"lb_config":{"password":` + canary + `}}`,
		`{"lb_config":{"password":{"a":"` + canary + `"}}}`,
		`{"lb_config":"` + canary + `"}`,
		`{"lb_config":{"password":"` + canary + "\n" + `"}}`,
	}
	for _, text := range texts {
		_, err := Parse([]byte(text), Higress)
		if err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: got %v", text, err)
		}
	}
	text := `{"lb_policy":"global_least_request","lb_config":{"serviceFQDN":"r","username":"u",` +
		`"password":"` + canary + `"}}`
	s, err := Parse([]byte(text), Higress)
	if err != nil {
		t.Fatal(err)
	}
	if c := s.Match("", "", ""); c.Redis.Password != canary ||
		strings.Contains(fmt.Sprintf("%v %+v %#v", *c, *c, *c), canary) {
		t.Errorf("password lost or printed: %+v", *c)
	}
	if strings.Contains(strings.Join(s.Warnings(), ""), canary) {
		t.Error("password in a warning")
	}
}

func TestNearest(t *testing.T) {
	names := []string{"max_inflight", "unit", "shadow", "weights", "store", strings.Repeat("n", 64)}
	for written, want := range map[string]string{
		"maxInflight": "max_inflight", "max-inflight": "max_inflight", "units": "unit", "Shadow": "shadow",
		"weigth":                "weights",
		strings.Repeat("n", 64): strings.Repeat("n", 64), strings.Repeat("n", 65): "",
		"sotre": "", "colour": "", "": "", strings.Repeat("unit", 100): "",
	} {
		if got := nearest(written, names); got != want {
			t.Errorf("%q: got %q, want %q", written, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"a", "", 1},
		{"", "ab", 2},
		{"abc", "abc", 0},
		{"abc", "abd", 1},
		{"abc", "xabc", 1},
		{"kitten", "sitting", 3},
	} {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("%q, %q: got %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

// FuzzParse checks that nothing breaks Parse, and that what it accepts is within the bounds it promises.
func FuzzParse(f *testing.F) {
	for name, tt := range keyCases {
		text, h := document(name, tt.good)
		f.Add([]byte(text), h == Envoy)
		for _, bad := range tt.bad {
			text, h := document(name, bad)
			f.Add([]byte(text), h == Envoy)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte, envoy bool) {
		h := Higress
		if envoy {
			h = Envoy
		}
		s, err := Parse(raw, h)
		if s == nil && err == nil {
			t.Fatal("neither a set nor a problem")
		}
		if err != nil && (!strings.HasPrefix(err.Error(), "config: ") || len(err.Error()) > 20000) {
			t.Fatalf("message of %d bytes: %.200s", len(err.Error()), err)
		}
		if s == nil {
			return
		}
		if (len(s.Refusals()) > 0) != (err != nil) || len(s.All()) == 0 {
			t.Fatalf("refused: %v, in force: %d, with %v", s.Refusals(), len(s.All()), err)
		}
		for _, c := range s.All() {
			if c.Enabled {
				checkSane(t, c, h)
			}
		}
	})
}

func checkSane(t *testing.T, c *Config, h Host) {
	t.Helper()
	if c.Type != "endpoint" || !slices.Contains(policy.Names(), c.Policy) || c.Policy == "prefix_cache" &&
		c.Unit != lb.Tokens {
		t.Errorf("type %q, policy %q, unit %q", c.Type, c.Policy, c.Unit)
	}
	if c.MaxInflight < 0 || c.Overload.Status < 400 || c.Overload.Status > 599 || c.Overload.RetryAfter < 0 {
		t.Errorf("cap %d, overload %+v", c.MaxInflight, c.Overload)
	}
	if min(c.MaxInspectBytes, c.MaxScanBytes) < 1<<10 || c.BodyTimeout <= 0 || c.BytesPerToken < 0.1 ||
		c.OutputTokens < 0 {
		t.Errorf("%+v", *c)
	}
	if c.Health.MaxEjectionTime < c.Health.EjectionTime || c.Health.EjectionTime <= 0 || c.Health.PanicThreshold > 100 {
		t.Errorf("health %+v", c.Health)
	}
	if h == Envoy && (c.EnvoyCfg.AdminCluster == "") == (len(c.EnvoyCfg.Endpoints) == 0) {
		t.Errorf("source of endpoints %+v", c.EnvoyCfg)
	}
	checkSaneQueue(t, &c.Queue)
	if c.Push == push.Outstanding && c.MaxInflight == 0 {
		t.Errorf("push %v without a cap", c.Push)
	}
	weights := []float64{1}
	for _, class := range c.Queue.Classes {
		weights = append(weights, class.Weight)
	}
	for _, w := range c.Weights {
		weights = append(weights, w)
	}
	for _, e := range c.EnvoyCfg.Endpoints {
		weights = append(weights, e.Weight)
	}
	for _, w := range weights {
		if !(w >= minWeight && w <= maxWeight) {
			t.Errorf("weight %v", w)
		}
	}
}

// FuzzJSON compares the reader with encoding/json, within its limits.
func FuzzJSON(f *testing.F) {
	for _, text := range []string{
		`{"a":[1,-2.5e+3,true,false,null,"x\u00e9\ud83d\ude00\n"]}`, `[]`, `{}`, `"\ud800x"`, "\"\xff\"", `01`,
		`[1,]`, `{"a":1,}`, `{} x`, `"\`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := parseJSON(text)
		if err != nil {
			if json.Valid([]byte(text)) && !strings.Contains(err.Error(), "deeper") &&
				!strings.Contains(err.Error(), "values") {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		var want any
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&want); err != nil || !json.Valid([]byte(text)) {
			t.Fatalf("%q accepted, but %v", text, err)
		}
		if got := v.plain(); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: got %#v, want %#v", text, got, want)
		}
	})
}

// plain returns a value in the types of encoding/json.
func (v value) plain() any {
	switch v.kind {
	case kindBool:
		return v.text == "true"
	case kindNumber:
		return json.Number(v.text)
	case kindString:
		return string([]rune(v.text))
	case kindArray:
		list := make([]any, len(v.items))
		for i, item := range v.items {
			list[i] = item.plain()
		}
		return list
	case kindObject:
		m := make(map[string]any, len(v.items))
		for i, name := range v.names {
			m[string([]rune(name))] = v.items[i].plain()
		}
		return m
	}
	return nil
}

// FuzzAddress compares canonicalAddress with net/netip.
func FuzzAddress(f *testing.F) {
	for _, s := range []string{
		"10.0.0.1:80", "[::]:1", "[::1]:65535", "[2001:DB8:0:0:1::1]:80", "[1:2:3:4:5:6:7:8]:1",
		"[::ffff:1.2.3.4]:80", "[1::8]:1",
		"[1:2:3:4:5:6:1.2.3.4]:9", "[0:0:1:0:0:0:1:0]:2", "[1:0:2:3:4:5:6:7]:3", "1.2.3:4", "[::1%a]:5",
		"[1:2:3:4:5:6:7::]:1", "[:1]:1", "[::1:]:1",
		"1.2.3.4:080", "[::1.2.3.4]:1", "[1.2.3.4]:1", "[::1.2.3.4:5]:1", "[1:2:3:4:5:6:7:1.2.3.4]:1", "[12345::]:1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := canonicalAddress(s)
		want, err := netip.ParseAddrPort(s)
		valid := err == nil && want.Port() > 0 && want.Addr().Zone() == "" &&
			!strings.HasPrefix(s[strings.LastIndexByte(s, ':')+1:], "0")
		if ok != valid || ok && got != want.String() {
			t.Fatalf("%q: got %q, %v, want %v, %v", s, got, ok, want, err)
		}
	})
}
