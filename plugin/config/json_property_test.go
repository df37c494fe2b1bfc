package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// jsonTree is a JSON value with its text, which is written with blanks and escapes that a generator of JSON may use.
type jsonTree struct {
	text  string
	value any // as in encoding/json, numbers as json.Number
}

// drawJSON draws a value of at most depth levels below it.
func drawJSON(rt *rapid.T, depth int) jsonTree {
	kinds := []string{"null", "boolean", "number", "string"}
	if depth > 0 {
		kinds = append(kinds, "array", "object")
	}
	switch rapid.SampledFrom(kinds).Draw(rt, "kind") {
	case "boolean":
		b := rapid.Bool().Draw(rt, "boolean")
		return jsonTree{fmt.Sprint(b), b}
	case "number":
		s := rapid.StringMatching(`-?(0|[1-9][0-9]{0,3})(\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?`).Draw(rt, "number")
		return jsonTree{s, json.Number(s)}
	case "string":
		s := drawText(rt)
		return jsonTree{jsonText(rt, s), s}
	case "array":
		list, texts := []any{}, []string{}
		for range rapid.IntRange(0, 3).Draw(rt, "elements") {
			item := drawJSON(rt, depth-1)
			list, texts = append(list, item.value), append(texts, blank(rt)+item.text+blank(rt))
		}
		return jsonTree{"[" + blankIf(rt, texts) + strings.Join(texts, ",") + "]", list}
	case "object":
		object, texts := map[string]any{}, []string{}
		for range rapid.IntRange(0, 3).Draw(rt, "members") {
			name, item := drawText(rt), drawJSON(rt, depth-1)
			object[name] = item.value
			texts = append(texts, blank(rt)+jsonText(rt, name)+blank(rt)+":"+blank(rt)+item.text+blank(rt))
		}
		return jsonTree{"{" + blankIf(rt, texts) + strings.Join(texts, ",") + "}", object}
	}
	return jsonTree{"null", nil}
}

func drawText(rt *rapid.T) string {
	return rapid.StringOfN(rapid.RuneFrom([]rune("ab\"\\/\n\t\x00é😀{}[]:,")), 0, 5, -1).Draw(rt, "text")
}

func blank(rt *rapid.T) string {
	return rapid.SampledFrom([]string{"", "", " ", "\n", "\t\r\n "}).Draw(rt, "blank")
}

// blankIf returns blanks for the inside of an empty list.
func blankIf(rt *rapid.T, texts []string) string {
	if len(texts) > 0 {
		return ""
	}
	return blank(rt)
}

// Each JSON text is read as the value that it means, and the place of each part is its own.
func TestJSONIsReadAsItIsMeant(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tree := drawJSON(rt, 4)
		text := blank(rt) + tree.text + blank(rt)
		v, err := parseJSON(text)
		if err != nil {
			rt.Fatalf("%q: %v", text, err)
		}
		if got := v.plain(); !reflect.DeepEqual(got, tree.value) {
			rt.Fatalf("%q: got %#v, want %#v", text, got, tree.value)
		}
		checkPlaces(rt, text, v)
	})
}

// checkPlaces checks that the source of each value is the value again, without what is around it.
func checkPlaces(rt *rapid.T, text string, v value) {
	source := text[v.from:v.to]
	again, err := parseJSON(source)
	if err != nil || strings.TrimSpace(source) != source || !reflect.DeepEqual(again.plain(), v.plain()) {
		rt.Fatalf("%q: the value at %d to %d is %q, which is %v, %v", text, v.from, v.to, source, again.plain(), err)
	}
	for _, item := range v.items {
		if item.from < v.from || item.to > v.to {
			rt.Fatalf("%q: %d to %d is outside of %d to %d", text, item.from, item.to, v.from, v.to)
		}
		checkPlaces(rt, text, item)
	}
}

// A text that is cut anywhere is an error, and so is one with something behind it.
func TestJSONThatIsCut(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := `{"k":` + drawJSON(rt, 3).text + `}`
		at := rapid.IntRange(0, len(text)-1).Draw(rt, "cut")
		if _, err := parseJSON(text[:at]); err == nil {
			rt.Fatalf("%q is accepted", text[:at])
		}
		behind := rapid.SampledFrom([]string{"x", "{}", ",", "}", "0", "\x00", "//"}).Draw(rt, "behind")
		if _, err := parseJSON(text + behind); err == nil {
			rt.Fatalf("%q is accepted", text+behind)
		}
	})
}

// Whatever bytes are changed, the reader agrees with encoding/json on what is JSON, and an error has a place within the
// text.
func TestJSONThatIsDamaged(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := []byte(drawJSON(rt, 3).text)
		for range rapid.IntRange(1, 3).Draw(rt, "damages") {
			i := rapid.IntRange(0, len(text)-1).Draw(rt, "place")
			text[i] = rapid.SampledFrom([]byte("{}[]\",:\\ 01-eu\n\x00\x80t")).Draw(rt, "byte")
		}
		_, err := parseJSON(string(text))
		if json.Valid(text) != (err == nil) {
			rt.Fatalf("%q: %v, valid: %v", text, err, json.Valid(text))
		}
		if err == nil {
			return
		}
		var line, column int
		if _, err := fmt.Sscanf(err.Error(), "not valid JSON at line %d, column %d: ", &line, &column); err != nil {
			rt.Fatalf("%q: no place", text)
		}
		lines := strings.Split(string(text), "\n")
		if line < 1 || line > len(lines) || column < 1 || column > len([]rune(lines[line-1]))+1 {
			rt.Fatalf("%q: line %d, column %d", text, line, column)
		}
	})
}

// The place of a syntax error counts lines, and characters in a line, as an editor does.
func TestPlaceOfASyntaxError(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		lines := rapid.IntRange(0, 5).Draw(rt, "lines before")
		before := strings.Repeat("\"ä😀\",\n", lines)
		indent := strings.Repeat(" ", rapid.IntRange(0, 20).Draw(rt, "indent"))
		_, err := parseJSON("[" + before + indent + "?]")
		column := len(indent) + 1
		if lines == 0 {
			column++ // behind the bracket
		}
		want := fmt.Sprintf("not valid JSON at line %d, column %d: not the beginning of a value", lines+1, column)
		if err == nil || err.Error() != want {
			rt.Fatalf("got %v, want %s", err, want)
		}
	})
}

// Each limit accepts what is at it and refuses the next step.
func TestJSONLimitsAreSharp(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	mixed := func(n int) string { return strings.Repeat(`{"a":[`, n/2) + strings.Repeat("]}", n/2) }
	list := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("0,", n-1), ",") + "]" }
	for _, c := range []struct {
		name, inside, outside, what string
	}{
		{"arrays", nested(maxDepth + 1), nested(maxDepth + 2), "nested deeper than 32 levels"},
		{"objects and arrays", mixed(maxDepth), mixed(maxDepth + 2), "nested deeper than 32 levels"},
		{"values", list(maxValues), list(maxValues + 1), "more than 65536 values"},
	} {
		if _, err := parseJSON(c.inside); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := parseJSON(c.outside); err == nil || !strings.HasSuffix(err.Error(), c.what) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.what)
		}
	}
}

// The limits of a whole configuration are sharp, too: its bytes, and its rules.
func TestConfigLimitsAreSharp(t *testing.T) {
	of := func(n int) []byte { // bytes
		text := `{"enabled":false}`
		return []byte(strings.Repeat(" ", n-len(text)) + text)
	}
	if _, err := Parse(of(maxBytes), Higress); err != nil {
		t.Error(err)
	}
	if _, err := Parse(of(maxBytes+1), Higress); err == nil ||
		err.Error() != "config: 1048577 bytes, want at most 1048576" {
		t.Errorf("got %v", err)
	}
	const rule = `{"_match_route_":"r","enabled":false}`
	rules := func(n int) []byte {
		return []byte(rulesOf("", strings.Split(strings.Repeat(rule+";", n-1)+rule, ";")...))
	}
	s, err := Parse(rules(maxRules), Higress)
	if err != nil || len(s.All()) != maxRules {
		t.Errorf("%v", err)
	}
	if s, err := Parse(rules(maxRules+1), Higress); s != nil || err == nil {
		t.Errorf("%d rules are accepted", maxRules+1)
	}
}
