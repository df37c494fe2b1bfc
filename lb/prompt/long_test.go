package prompt

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Chains do not depend on which ends of strings are known from reading the body: with more strings than there is room
// for, roles behind the content, escapes, fields in any order, and a body that is cut off anywhere.
func TestChainWithoutPositions(t *testing.T) {
	text := rapid.Custom(func(t *rapid.T) string {
		part := rapid.SampledFrom([]string{"a", "words and more words ", "\\n", `\"`, "\u4f60", "\xff", "é", "\\u00e9"})
		return strings.Repeat(part.Draw(t, "part"), rapid.IntRange(0, 200).Draw(t, "times")) + part.Draw(t, "end")
	})
	rapid.Check(t, func(t *rapid.T) {
		quoted := func(name string) string {
			s := text.Draw(t, name)
			if rapid.Bool().Draw(t, "escaped") {
				b, _ := json.Marshal(s)
				return string(b)
			}
			return `"` + strings.NewReplacer(`"`, `\"`, "\n", `\n`, "\\", `\\`).Replace(s) + `"`
		}
		var messages []string
		for range rapid.IntRange(0, 160).Draw(t, "messages") {
			role, content := `"role":"user"`, `"content":`+quoted("content")
			if rapid.Bool().Draw(t, "role last") {
				role, content = content, role
			}
			messages = append(messages, "{"+role+","+content+"}")
		}
		fields := []string{
			`"system":` + quoted("system"), `"messages":[` + strings.Join(messages, ", ") + `]`,
			`"tools":[{"description":` + quoted("tool") + `}]`, `"prompt":` + quoted("prompt"),
		}
		body := "{" + strings.Join(rapid.Permutation(fields).Draw(t, "fields"), ",") + "}"
		body = body[:rapid.IntRange(1, len(body)).Draw(t, "length")]
		_, parts, err := Read([]byte(body), body[len(body)-1] == '}' && json.Valid([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		c := NewChainer(testSecret, 64)
		blocks, length := c.Chain([]byte(body), &parts)
		known := slices.Clone(blocks)
		parts.long = longStrings{}
		if searched, n := c.Chain([]byte(body), &parts); !slices.Equal(searched, known) || n != length {
			t.Fatalf("%d blocks of %d bytes, without positions %d of %d", len(known), length, len(searched), n)
		}
	})
}

// All long strings are noted while there is room, and found in any order.
func TestLongStrings(t *testing.T) {
	var l longStrings
	at := 0
	var want []int // positions, ends
	for i := range 2 * len(l.list) {
		length := minLong << (i % 6)
		l.note(at, at+length, i%3 == 0)
		if l.n > len(want)/2 {
			want = append(want, at, at+length)
		}
		at += length
	}
	if l.n != len(l.list) || want[2] != minLong {
		t.Fatalf("%d strings, the second at %d", l.n, want[2])
	}
	next := 0
	for _, i := range []int{0, 2, 2, 1, l.n - 1, 5, 0} {
		if end, _ := l.find(want[2*i], &next); end != want[2*i+1] {
			t.Errorf("string %d ends at %d, not at %d", i, end, want[2*i+1])
		}
		if end, _ := l.find(want[2*i]+1, &next); end != 0 {
			t.Errorf("one begins inside of string %d", i)
		}
	}
	l = longStrings{}
	l.note(0, minLong-1, false)
	l.note(longest-10, longest+minLong, false)
	if l.n != 0 {
		t.Error("a short string, or one too far behind, was noted")
	}
}
