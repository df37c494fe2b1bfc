package source

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// TestPositions counts lines and columns as editors do: in characters.
func TestPositions(t *testing.T) {
	f := NewFile("", []byte("ab\né\tc\r\n\nlast"))
	for offset, want := range map[int]Position{
		-1: {1, 1}, 0: {1, 1}, 2: {1, 3}, 3: {2, 1}, 5: {2, 2}, 6: {2, 3}, 9: {3, 1}, 10: {4, 1}, 14: {4, 5},
		99: {4, 5},
	} {
		if got := f.Position(offset); got != want {
			t.Errorf("%d: %+v, want %+v", offset, got, want)
		}
	}
}

// TestInner reads the same JSON from strings of all styles: each character of it is where it is in the file.
func TestInner(t *testing.T) {
	const want = `{"key": "it's ✓ \" \\ ok", "list": [1, 2]}`
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace
	for name, text := range map[string]string{
		"literal":  "a:\n  value: | # a remark\n    {\"key\": \"it's ✓ \\\" \\\\ ok\",\n\n      \"list\": [1, 2]}\n",
		"folded":   "a:\n  value: >-\n\n    {\"key\": \"it's ✓ \\\" \\\\ ok\",\n    \"list\":\n    [1,\n      2]}\n",
		"single":   "value: '{\"key\": \"it''s ✓ \\\" \\\\ ok\",\n\n  \"list\": [1,   2]}'\n",
		"double":   "value: \"" + escape(want) + "\"\n",
		"two":      "value: \"" + escape(`{"key": "it's ✓ \" \\ ok",`) + "\\\n  \\\n   " + escape(` "list": [1, 2]}`) + "\"\n",
		"tag":      "value: !!str &x\n  '" + strings.ReplaceAll(want, "'", "''") + "'\n",
		"windows":  "a:\r\n  value: |\r\n    {\"key\": \"it's ✓ \\\" \\\\ ok\",\r\n      \"list\": [1, 2]}\r\n",
		"alias":    "x: &x >\n  " + want + "\nvalue: *x\n",
		"merged":   "x: &x\n  value: '" + strings.ReplaceAll(want, "'", "''") + "'\ny:\n  <<: *x\n",
		"indented": "value: |2\n    {\"key\": \"it's ✓ \\\" \\\\ ok\",\n   \"list\": [1, 2]}\n",
		"json":     "{\"value\": \"" + strings.Replace(escape(want), "✓", `\u2713`, 1) + "\"}",
	} {
		t.Run(name, func(t *testing.T) {
			f := NewFile("", []byte(text))
			n := value(t, f)
			inner := f.Inner(n)
			var got, wanted any
			if json.Unmarshal(inner.Bytes, &got) != nil || json.Unmarshal([]byte(want), &wanted) != nil {
				t.Fatalf("no JSON: %s", inner.Bytes)
			}
			for i, c := range inner.Bytes {
				at := inner.At(i)
				if blank(c) {
					continue
				}
				if at >= len(text) || text[at] != c && text[at] != '\\' {
					t.Fatalf("%q, %d of %s, is at %d, where %.20q is", c, i, inner.Bytes, at, text[min(at, len(text)):])
				}
			}
		})
	}
}

// value returns the first string of the key value, at any depth.
func value(t *testing.T, f *File) *Node {
	t.Helper()
	list, err := f.YAML()
	if err != nil {
		t.Fatal(err)
	}
	var find func(n *Node) *Node
	find = func(n *Node) *Node {
		if v := n.Get("value"); v.Is(String) {
			return v
		}
		for _, item := range n.Items {
			if v := find(item); v != nil {
				return v
			}
		}
		return nil
	}
	return find(list[0])
}

// TestJSON makes JSON of YAML, as control planes do, and knows where each key and value of it is.
func TestJSON(t *testing.T) {
	const text = `# é
a: &a {b: on, c: "on", d: 0x10, e: 1.50, f: ~, g: .inf, h: 2001-01-01}
list:
- <<: *a
  b: 'é'
- *a
`
	const want = `{"a":{"b":true,"c":"on","d":16,"e":1.5,"f":null,"g":".inf","h":"2001-01-01"},"list":[` +
		`{"b":"é","c":"on","d":16,"e":1.5,"f":null,"g":".inf","h":"2001-01-01"},` +
		`{"b":true,"c":"on","d":16,"e":1.5,"f":null,"g":".inf","h":"2001-01-01"}]}`
	f := NewFile("", []byte(text))
	list, err := f.YAML()
	if err != nil {
		t.Fatal(err)
	}
	made, err := list[0].JSON()
	if err != nil || string(made.Bytes) != want {
		t.Fatalf("%s, %v", made.Bytes, err)
	}
	for key, begins := range map[string]string{
		`"a"`: "a: &a", `true`: "on, c", `16`: "0x10", `"é"`: "'é'", `"list"`: "list:", `"2001`: "2001",
	} {
		if at := made.At(strings.Index(want, key)); !strings.HasPrefix(text[at:], begins) {
			t.Errorf("%s is at %.10q", key, text[at:])
		}
	}
}

// TestSyntaxErrors finds where a file stops being YAML or JSON.
func TestSyntaxErrors(t *testing.T) {
	for text, line := range map[string]int{
		"a: 1\nb: [\n": 2, "a: 1\n\tb: 2\n": 2, "a: &a [*a]": 1, "? [a]\n: b\n": 1, "a: *b": 1,
		"a:\n - b\n c: d\n": 3, `{"a": 1,}`: 1, "{\n\"a\": 1\n\"b\": 2}": 3, `{"a": `: 1, "": 1,
		strings.Repeat("[", 2*maxDepth): 1,
	} {
		f := NewFile("", []byte(text))
		_, err := f.YAML()
		if strings.HasPrefix(text, "{") || text == "" {
			_, err = f.JSON()
		}
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || f.Position(syntax.At).Line != line {
			t.Errorf("%.20q: %v, %+v, want line %d", text, err, syntax, line)
		}
	}
}

// TestAliasesAreBounded renders what is short in the file and endless as JSON.
func TestAliasesAreBounded(t *testing.T) {
	text := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'n'; c++ {
		before := string(c - 1)
		text += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+before+", ", 10) + "]\n"
	}
	list, err := NewFile("", []byte(text)).YAML()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := list[0].JSON(); !errors.Is(err, errTooLarge) {
		t.Error(err)
	}
}
