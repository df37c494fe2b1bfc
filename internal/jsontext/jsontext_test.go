package jsontext_test

import (
	"testing"

	"github.com/warmgate/warmgate/internal/jsontext"
)

func TestSpace(t *testing.T) {
	for text, want := range map[string]int{"": 0, "x": 0, " \t\r\nx": 4, "  ": 2, "\v": 0, "\u00a0": 0} {
		if got := jsontext.Space([]byte(text), 0); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}

func TestLiteral(t *testing.T) {
	for _, c := range []struct {
		text string
		end  int
		st   jsontext.Status
	}{
		{"[true]", 5, jsontext.OK},
		{"[true", 5, jsontext.OK},
		{"[tru", 4, jsontext.Cut},
		{"[", 1, jsontext.Cut},
		{"[truth", 1, jsontext.Invalid},
		{"[trUe", 1, jsontext.Invalid},
		{"[trx", 1, jsontext.Invalid},
		{"[null", 1, jsontext.Invalid},
	} {
		if end, st := jsontext.Literal([]byte(c.text), 1, "true"); end != c.end || st != c.st {
			t.Errorf("%s: got %d, %d, want %d, %d", c.text, end, st, c.end, c.st)
		}
	}
}

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		text  string
		end   int
		whole bool
		st    jsontext.Status
	}{
		{"0", 1, true, jsontext.OK},
		{"-0,", 2, true, jsontext.OK},
		{"1234567890 ", 10, true, jsontext.OK},
		{"1.50]", 4, false, jsontext.OK},
		{"1e5}", 3, false, jsontext.OK},
		{"-1.2E+03", 8, false, jsontext.OK},
		{"1e-7", 4, false, jsontext.OK},
		{"1x", 1, true, jsontext.OK}, // what follows is up to the caller
		{"", 0, true, jsontext.Cut},
		{"-", 1, true, jsontext.Cut},
		{"1.", 2, false, jsontext.Cut},
		{"1e", 2, false, jsontext.Cut},
		{"1.5e+", 5, false, jsontext.Cut},
		{"01", 2, true, jsontext.Invalid},
		{"-007.5", 4, true, jsontext.Invalid},
		{"-x", 1, true, jsontext.Invalid},
		{"+1", 0, true, jsontext.Invalid},
		{".5", 0, true, jsontext.Invalid},
		{"1.x", 2, false, jsontext.Invalid},
		{"1.5e*", 4, false, jsontext.Invalid},
		{"1e+-5", 3, false, jsontext.Invalid},
	} {
		end, whole, st := jsontext.Number([]byte(c.text), 0)
		if end != c.end || whole != c.whole || st != c.st {
			t.Errorf("%s: got %d, %v, %d, want %d, %v, %d", c.text, end, whole, st, c.end, c.whole, c.st)
		}
	}
}

func TestSkipValue(t *testing.T) {
	for _, c := range []struct {
		text               string
		limit, end, tokens int
	}{
		{`"a",1`, 9, 3, 1},
		{`12 ,`, 9, 2, 1},
		{`null}`, 9, 4, 1},
		{`  true`, 9, 6, 1},
		{`{},`, 9, 2, 2},
		{`{"a":[1,{"}]":"]}"}], "b" : null}, 7`, 99, 33, 12},
		{`["\"]",[]] `, 9, 10, 5},
		{`[1,2,3,4]`, 3, 9, 3},
		{`[1,2,3,4]`, 0, 9, 0},
		{`[1,2,3,4]`, -1, 9, 0},
		{`[1,"a`, 9, 5, 3},
		{`{"a`, 9, 3, 2},
		{`{`, 9, 1, 1},
		{``, 9, 0, 0},
		{`]`, 9, 1, 1},
	} {
		end, tokens := jsontext.SkipValue([]byte(c.text), 0, c.limit)
		if end != c.end || tokens != c.tokens {
			t.Errorf("%s, %d: got %d, %d tokens, want %d, %d", c.text, c.limit, end, tokens, c.end, c.tokens)
		}
	}
}

func TestAfterKey(t *testing.T) {
	for text, want := range map[string]int{
		`"k":1`: 4, `"k" :` + "\n" + ` 1`: 7, `"k":`: 4, `"k": `: 5, `"k"`: -1, `"k" `: -1, `"k",1`: -1, `"k"}`: -1,
	} {
		if got := jsontext.AfterKey([]byte(text), 3); got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
		if got := jsontext.IsKey([]byte(text), 3); got != (want >= 0) {
			t.Errorf("%s: a key: %v", text, got)
		}
	}
}

// None of the functions allocates.
func TestNothingIsAllocated(t *testing.T) {
	text := []byte(`{"a\n":["\ud83d\ude00", -1.5e3, true, {"b":null}]}`)
	dst := make([]byte, 0, len(text))
	if n := testing.AllocsPerRun(100, func() {
		jsontext.SkipValue(text, 0, 100)
		jsontext.String(text, 1)
		jsontext.Number(text, 24)
		jsontext.UnescapedLen(text)
		jsontext.OpeningQuote(text, false)
		dst = jsontext.AppendUnescaped(dst[:0], text)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
