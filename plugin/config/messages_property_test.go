package config

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/setting"
)

// drawHostile draws a text that could break a log: long, with line ends, control characters, and bytes that are no
// UTF-8.
func drawHostile(rt *rapid.T) string {
	piece := rapid.SampledFrom([]string{
		"a", "\n", "\r\n", "\t", "\x00", "\x1b[31m", "\"", "\\", "é", "\u2028", "😀", "config: ", "\n  lb_policy: ok",
		strings.Repeat("x", 300), "%s", "\u202e",
	})
	return strings.Join(rapid.SliceOfN(piece, 0, 6).Draw(rt, "text"), "")
}

// drawAnything draws a JSON value of any type with hostile texts in it.
func drawAnything(rt *rapid.T, depth int) string {
	switch n := rapid.IntRange(0, 4+2*min(depth, 1)).Draw(rt, "kind"); n {
	case 0, 1:
		return jsonText(rt, drawHostile(rt))
	case 2:
		return rapid.SampledFrom([]string{"null", "true", "false"}).Draw(rt, "literal")
	case 3, 4:
		return rapid.StringMatching(`-?[1-9][0-9]{0,90}(\.[0-9]{1,9})?(e[0-9]{1,3})?`).Draw(rt, "number")
	case 5:
		return "[" + drawAnything(rt, depth-1) + "," + drawAnything(rt, depth-1) + "]"
	}
	return "{" + jsonText(rt, drawHostile(rt)) + ":" + drawAnything(rt, depth-1) + "}"
}

// drawName draws the name of a key at the top or in a section: a known one, or anything.
func drawName(rt *rapid.T) string {
	if rapid.IntRange(0, 3).Draw(rt, "unknown") == 0 {
		section := rapid.SampledFrom([]string{"", "lb_config.", "lb_config.health."}).Draw(rt, "section")
		return section + strings.ReplaceAll(drawHostile(rt), ".", "")
	}
	return rapid.SampledFrom(keys[:len(keys)-len(ruleKeys)]).Draw(rt, "key").Name
}

// drawGarbage draws a configuration in which anything may be wrong, except that it is JSON.
func drawGarbage(rt *rapid.T) string {
	var list []member
	if rapid.Bool().Draw(rt, "policy") {
		policy := rapid.SampledFrom(policiesFor(policy.Endpoints)).Draw(rt, "policy")
		list = append(list, member{"lb_policy", strconv.Quote(policy)})
	}
	for range rapid.IntRange(0, 5).Draw(rt, "members") {
		list = append(list, member{drawName(rt), drawAnything(rt, 2)})
	}
	var b strings.Builder
	writeGarbage(rt, &b, list)
	return b.String()
}

// writeGarbage is writeSection for names that need escapes.
func writeGarbage(rt *rapid.T, b *strings.Builder, members []member) {
	b.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		parts := strings.Split(m.name, ".")
		for _, part := range parts[:len(parts)-1] {
			b.WriteString(strconv.Quote(part) + ":{")
		}
		b.WriteString(jsonText(rt, parts[len(parts)-1]) + ":" + m.value + strings.Repeat("}", len(parts)-1))
	}
	b.WriteByte('}')
}

// checkLine checks that a line of a message can be printed as it is, and is short.
func checkLine(rt *rapid.T, line string) {
	if len(line) > 1200 {
		rt.Fatalf("a line of %d bytes: %.100q", len(line), line)
	}
	for _, r := range line {
		if unicode.IsControl(r) {
			rt.Fatalf("a control character in %q", line)
		}
	}
}

// Whatever is written, an error has one line for each problem that it counts, and neither errors nor warnings nor the
// names of refused parts contain line ends or control characters of the configuration.
func TestMessagesAreLines(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := rapid.SampledFrom([]Host{Higress, Envoy}).Draw(rt, "gateway")
		text := drawGarbage(rt)
		if rapid.Bool().Draw(rt, "in a rule") {
			condition := rapid.SampledFrom(conditionKeys).Draw(rt, "condition")
			text = `{"_rules_":[{` + strconv.Quote(condition) + `:` + drawAnything(rt, 2)
			if more := drawGarbage(rt); more != "{}" {
				text += "," + more[1:len(more)-1]
			}
			text += `}]}`
		}
		set, err := Parse([]byte(text), h)
		if err != nil {
			lines := strings.Split(err.Error(), "\n")
			count, noun, _ := strings.Cut(strings.TrimPrefix(lines[0], "config: "), " ")
			if n, bad := strconv.Atoi(count); bad != nil || n != len(lines)-1 || !strings.HasPrefix(noun, "problem") {
				rt.Fatalf("%s: %v", text, err)
			}
			for _, line := range lines {
				checkLine(rt, line)
			}
		}
		if set == nil {
			return
		}
		for _, warning := range set.Warnings() {
			checkLine(rt, warning)
		}
		for _, r := range set.Refusals() {
			checkLine(rt, r.Part)
		}
	})
}

// A text that is no JSON is refused as a whole with the place, and never repeated.
func TestSyntaxErrorsRepeatNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		end := rapid.SampledFrom([]string{"\n", "\x01", `\q`, "", "\\"}).Draw(rt, "end")
		text := `{"lb_config":{"password":"canary` + end
		set, err := Parse([]byte(text), Higress)
		if set != nil || err == nil || strings.Contains(err.Error(), "canary") ||
			!strings.HasPrefix(err.Error(), "config: not valid JSON at line ") {
			rt.Fatalf("%q: %v", text, err)
		}
	})
}

// A secret is in no message, whatever else is wrong with the configuration and wherever the secret is a value of a key
// for secrets.
func TestSecretsAreInNoMessage(t *testing.T) {
	const canary = "canary-7351"
	var secrets []*key
	for i := range keys {
		if k := &keys[i]; k.Type == setting.Secret || k.Name == "lb_config.password" || k.Name == "lb_config.username" {
			secrets = append(secrets, k)
		}
	}
	if len(secrets) < 3 {
		t.Fatalf("only %d keys for secrets", len(secrets))
	}
	rapid.Check(t, func(rt *rapid.T) {
		k := rapid.SampledFrom(secrets).Draw(rt, "key")
		value := rapid.SampledFrom([]string{
			`"%s"`, `["%s"]`, `{"%s":1}`, `{"a":"%s"}`, `"` + strings.Repeat("x", 1020) + `%s"`, `[[["%s"]]]`,
		}).Draw(rt, "form")
		garbage := drawGarbage(rt)
		text := writeConfig(member{k.Name, fmt.Sprintf(value, canary)})
		if garbage != "{}" {
			text = text[:len(text)-1] + "," + garbage[1:]
		}
		set, err := Parse([]byte(text), Higress)
		if err != nil && strings.Contains(err.Error(), canary) {
			rt.Fatalf("%s: %v", text, err)
		}
		if set != nil && strings.Contains(strings.Join(set.Warnings(), "\n"), canary) {
			rt.Fatalf("%s: warnings %q", text, set.Warnings())
		}
		if set != nil && strings.Contains(fmt.Sprintf("%v %+v", set.Match("", "", ""), set.Refusals()), canary) &&
			k.Type == setting.Secret {
			rt.Fatalf("%s: the secret is printed", text)
		}
	})
}

// The same text gives the same messages in the same order, so that a log does not change from push to push.
func TestMessagesAreStable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := []byte(drawGarbage(rt))
		a, errA := Parse(text, Higress)
		b, errB := Parse(text, Higress)
		if fmt.Sprint(errA) != fmt.Sprint(errB) || (a == nil) != (b == nil) {
			rt.Fatalf("%s: %v, and again %v", text, errA, errB)
		}
		if a != nil && fmt.Sprint(a.Warnings(), a.Refusals()) != fmt.Sprint(b.Warnings(), b.Refusals()) {
			rt.Fatalf("%s: warnings %q, and again %q", text, a.Warnings(), b.Warnings())
		}
	})
}

// However much is wrong, no more than maxProblems problems and warnings are kept, and the problems are counted.
func TestMessagesAreBounded(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		bad, taken := rapid.IntRange(0, 120).Draw(rt, "problems"), rapid.IntRange(0, 120).Draw(rt, "warnings")
		var rules []string
		for i := range bad {
			rules = append(rules, fmt.Sprintf(`{"_match_route_":"b%d","lb_policy":"x"}`, i))
		}
		for i := range taken {
			rules = append(rules, fmt.Sprintf(
				`{"_match_route_":"w%d","lb_policy":"global_least_request","lb_config":{"maxRequestCount":-1}}`, i))
		}
		set, err := Parse([]byte(rulesOf(globalCap, rules...)), Higress)
		if (err != nil) != (bad > 0) || len(set.Warnings()) != min(taken, maxProblems) || len(set.Refusals()) != bad {
			rt.Fatalf("%d problems: %v; %d warnings, kept %d", bad, err, taken, len(set.Warnings()))
		}
		if bad == 0 {
			return
		}
		head := fmt.Sprintf("config: %d problem", bad)
		more := fmt.Sprintf("\n  and %d more", bad-maxProblems)
		lines := 1 + min(bad, maxProblems+1)
		if bad <= maxProblems {
			more = ""
		}
		if !strings.HasPrefix(err.Error(), head) || !strings.HasSuffix(err.Error(), more) ||
			strings.Count(err.Error(), "\n")+1 != lines {
			rt.Fatalf("%d problems: %v", bad, err)
		}
	})
}
