package config

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/setting"
)

// kindSamples has a value of each JSON type, with what messages call it.
var kindSamples = []struct {
	kind   kind
	text   string
	called string
}{
	{kindNull, `null`, "got null"},
	{kindBool, `true`, "got true"},
	{kindNumber, `12`, "got 12"},
	{kindString, `"12"`, `got "12"`},
	{kindArray, `[12]`, "got an array"},
	{kindObject, `{"12":12}`, "got an object"},
}

// kindsOf are the JSON types in which a value of a key's type can be written.
var kindsOf = map[setting.Type][]kind{
	setting.Boolean: {kindBool}, setting.Integer: {kindNumber}, setting.Number: {kindNumber},
	setting.Duration: {kindNumber, kindString}, setting.Size: {kindNumber, kindString},
	setting.Text: {kindString}, setting.Secret: {kindString}, setting.Choice: {kindString},
}

// A value of a JSON type that a key does not accept is an error that contains what was written, and what would be
// accepted. The value is not converted to the key's type.
func TestWrongTypesAreRefused(t *testing.T) {
	tested := 0
	for _, k := range strictKeys() {
		accepted := map[kind]bool{}
		for _, kind := range kindsOf[k.Type] {
			accepted[kind] = true
		}
		for _, sample := range kindSamples {
			if accepted[sample.kind] {
				continue
			}
			tested++
			what := refused(t, withKey(k, sample.text), k.host(), k.Name)
			called := sample.called
			if k.Type == setting.Secret {
				called = "got " + sample.kind.String()
			}
			if !strings.HasPrefix(what, called+", want ") {
				t.Errorf("%s %s: %q", k.Name, sample.text, what)
			}
		}
	}
	if tested < 100 {
		t.Errorf("only %d wrong types", tested)
	}
}

// A section must be an object, on both gateways, except that ai-load-balancer takes a single lb_config for an empty
// one. A text is not repeated.
func TestSectionsAreObjects(t *testing.T) {
	sections := map[string]bool{}
	for i := range keys {
		name := keys[i].Name
		for dot := strings.LastIndexByte(name, '.'); dot > 0; dot = strings.LastIndexByte(name, '.') {
			if name = name[:dot]; !strings.Contains(name, "[]") {
				sections[name] = true
			}
		}
	}
	for section := range sections {
		for _, sample := range kindSamples[:5] {
			text := writeConfig(member{"lb_policy", `"global_least_request"`}, member{section, sample.text})
			set, err := Parse([]byte(text), Higress)
			if section == "lb_config" && sample.kind != kindArray && sample.kind != kindString {
				if err != nil || len(set.Warnings()) != 1 {
					t.Errorf("%s: %v", text, err)
				}
				continue
			}
			called := sample.called
			if sample.kind == kindString {
				called = "got a string"
			}
			if what := refused(t, []byte(text), Higress, section); what != called+", want an object" {
				t.Errorf("%s: %q", text, what)
			}
		}
	}
	if len(sections) < 6 {
		t.Errorf("only the sections %v", sections)
	}
}

// Both truth values are stored, and nothing else passes for one.
func TestBooleans(t *testing.T) {
	for _, k := range strictKeys() {
		if k.Type != setting.Boolean {
			continue
		}
		for _, want := range []bool{true, false} {
			if got := k.stored(mustParse(t, withKey(k, strconv.FormatBool(want)), k.host())); got != want {
				t.Errorf("%s %v: stored %v", k.Name, want, got)
			}
		}
		for _, text := range []string{`0`, `1`, `"true"`, `"false"`, `""`} {
			if what := refused(t, withKey(k, text), k.host(), k.Name); !strings.HasSuffix(what, "want true or false") {
				t.Errorf("%s %s: %q", k.Name, text, what)
			}
		}
	}
}

// Each choice is accepted exactly as it is documented; another case is an error that suggests it.
func TestChoices(t *testing.T) {
	for _, k := range strictKeys() {
		if k.Type != setting.Choice {
			continue
		}
		for _, name := range k.Choices {
			if k.Name == "lb_policy" && (policy.Describe(name).Among == policy.Clusters || name == clusterHash) {
				continue
			}
			list := append(needed(k), member{k.Name, strconv.Quote(name)})
			if k.Name == "lb_policy" {
				list = append(list, policyNeeds(name)...)
			}
			c := mustParse(t, []byte(writeConfig(list...)), k.host())
			want := name
			if k.Name == "lb_policy" {
				want = policy.Describe(name).Name // of an alias
			}
			if got := fmt.Sprint(k.stored(c)); got != want {
				t.Errorf("%s %q: stored %q", k.Name, name, got)
			}
			upper := strings.ToUpper(name)
			what := refused(t, withKey(k, strconv.Quote(upper)), k.host(), k.Name)
			if !strings.HasPrefix(what, "got "+strconv.Quote(upper)+", want ") ||
				!strings.HasSuffix(what, "; did you mean "+strconv.Quote(name)+"?") {
				t.Errorf("%s %q: %q", k.Name, upper, what)
			}
			for _, choice := range k.Choices {
				if !strings.Contains(what, strconv.Quote(choice)) {
					t.Errorf("%s: %q does not mention the choice %q", k.Name, what, choice)
				}
			}
		}
	}
}

// Texts are accepted up to their limit and stored unchanged, whatever they contain; an empty one is an error unless it
// is a secret.
func TestTexts(t *testing.T) {
	for _, k := range strictKeys() {
		if k.Type != setting.Text && k.Type != setting.Secret {
			continue
		}
		for _, n := range []int{1, 2, setting.MaxText} {
			text := "/" + strings.Repeat("x", n-1) // a path, which metrics.path must be
			if got := k.stored(mustParse(t, withKey(k, strconv.Quote(text)), k.host())); got != text {
				t.Errorf("%s: %d bytes stored as %.20q", k.Name, n, got)
			}
		}
		long := "/" + strings.Repeat("x", setting.MaxText)
		if what := refused(t, withKey(k, strconv.Quote(long)), k.host(), k.Name); len(what) > 200 ||
			!strings.Contains(what, "1024 bytes") {
			t.Errorf("%s: %q", k.Name, what)
		} else if k.Type == setting.Secret && strings.Contains(what, "x") {
			t.Errorf("%s: the message repeats the secret: %q", k.Name, what)
		}
		if k.Type == setting.Secret {
			mustParse(t, withKey(k, `""`), k.host())
		} else if what := refused(t, withKey(k, `""`), k.host(), k.Name); !strings.HasPrefix(what, `got "", want `) {
			t.Errorf("%s: %q", k.Name, what)
		}
	}
}

// jsonText returns a string in JSON in which some characters are escaped that need not be.
func jsonText(rt *rapid.T, s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r < ' ' || r < 0x10000 && rapid.IntRange(0, 4).Draw(rt, "escape") == 0:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// What a text contains is stored as it is meant, with escapes or without, and outlives the text of the configuration.
func TestTextsKeepTheirContent(t *testing.T) {
	k := find("lb_config.redis_scope")
	rapid.Check(t, func(rt *rapid.T) {
		want := rapid.StringOfN(rapid.Rune().Filter(func(r rune) bool { return r != '\ufffd' }), 1, 40, 1024).
			Draw(rt, "text")
		raw := withKey(k, jsonText(rt, want))
		c := mustParse(rt, raw, Higress)
		for i := range raw {
			raw[i] = '#'
		}
		if got := k.stored(c); got != want {
			rt.Fatalf("stored %q, want %q", got, want)
		}
	})
}

// A duration means the same as a number of milliseconds and with any unit of time.ParseDuration.
func TestUnitsOfDurations(t *testing.T) {
	k := find("lb_config.health.slow_start")
	for text, want := range map[string]time.Duration{
		`1500`: 1500 * time.Millisecond, `1.5e3`: 1500 * time.Millisecond, `0.25`: 250 * time.Microsecond,
		`"1.5s"`: 1500 * time.Millisecond, `"1500ms"`: 1500 * time.Millisecond, `"250us"`: 250 * time.Microsecond,
		`"1m30s"`: 90 * time.Second, `"0.5h"`: 30 * time.Minute, `"0"`: 0, `"0s"`: 0, `0`: 0, `-0`: 0,
		`"+5s"`: 5 * time.Second, `"-0s"`: 0,
	} {
		if got := k.stored(mustParse(t, withKey(k, text), Higress)); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{
		`""`, `"5000"`, `"s"`, `"5 s"`, `"5sec"`, `"5S"`, `"1d"`, `"1,5s"`, `"five seconds"`, `"5s "`, `"1e3ms"`, `1e300`,
		`"9999999999999h"`,
	} {
		if what := refused(t, withKey(k, text), Higress, k.Name); !strings.HasSuffix(what,
			`, want a duration from 0s to 1h, as milliseconds or a string like "20ms"`) {
			t.Errorf("%s: %q", text, what)
		}
	}
}

// Sizes have decimal and binary units, with a space before them or without.
func TestUnitsOfSizes(t *testing.T) {
	k := find("lb_config.max_inspect_bytes")
	for text, want := range map[string]int{
		`2048`: 2048, `2.048e3`: 2048, `"2048B"`: 2048, `"2KiB"`: 2048, `"2 KiB"`: 2048, `"2KB"`: 2000, `"2  KB"`: 2000,
		`"1MiB"`: 1 << 20, `"1MB"`: 1e6, `"0.5MiB"`: 1 << 19, `"1.5KiB"`: 1536, `"2e3B"`: 2000,
		`"0.00390625GiB"`: 4 << 20, `"0.004GB"`: 4e6,
	} {
		if got := k.stored(mustParse(t, withKey(k, text), Higress)); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{
		`"2048"`, `""`, `"KiB"`, `"2kib"`, `"2K"`, `"2GiB"`, `"2 KiB "`, `" 2KiBs"`, `"0x800B"`, `"NaNB"`, `"InfB"`,
		`"-2KiB"`, `"2KiBKiB"`, `"1e999B"`,
	} {
		if what := refused(t, withKey(k, text), Higress, k.Name); !strings.HasSuffix(what,
			`, want a size from 1024 to 8388608 bytes, as a number or a string like "256KiB"`) {
			t.Errorf("%s: %q", text, what)
		}
	}
}
