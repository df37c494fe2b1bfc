package setting

import (
	"strings"
	"testing"
	"testing/quick"
	"unicode/utf8"
)

// Each type has a name in both languages, and only that of a number of Higress's mentions text.
func TestTypeNames(t *testing.T) {
	for kind := Boolean; kind <= Array; kind++ {
		for _, loose := range []bool{false, true} {
			name := (&Key{Type: kind, Loose: loose}).TypeName()
			if name.EN == "" || name.ZH == "" {
				t.Errorf("type %d has no name", kind)
			}
			if text := strings.Contains(name.EN, "or string"); text != (kind == Number && loose) {
				t.Errorf("type %d, loose %v: %q", kind, loose, name.EN)
			}
		}
	}
}

// What a message repeats is bounded, and a short text is repeated as it is.
func TestClip(t *testing.T) {
	bounded := func(s string) bool {
		clipped := Clip(s)
		return len(clipped) <= maxQuoted+3 && (len(s) > maxQuoted || clipped == s) &&
			strings.HasPrefix(s, strings.TrimSuffix(clipped, "..."))
	}
	if err := quick.Check(bounded, nil); err != nil {
		t.Error(err)
	}
	for _, n := range []int{0, 1, maxQuoted - 1, maxQuoted, maxQuoted + 1, 10 * maxQuoted} {
		if s := strings.Repeat("x", n); !bounded(s) {
			t.Errorf("%d bytes become %q", n, Clip(s))
		}
	}
}

// A quoted text is one line that can be printed, also where it is cut within a character.
func TestQuote(t *testing.T) {
	printable := func(s string) bool {
		q := Quote(s)
		return strings.HasPrefix(q, `"`) && strings.HasSuffix(q, `"`) && utf8.ValidString(q) &&
			!strings.ContainsAny(q, "\n\r\x00\x1b")
	}
	if err := quick.Check(printable, nil); err != nil {
		t.Error(err)
	}
	for _, s := range []string{
		"", "\n", "\x1b[31m", strings.Repeat("é", maxQuoted), strings.Repeat("x", maxQuoted-1) + "é",
	} {
		if !printable(s) {
			t.Errorf("%q becomes %s", s, Quote(s))
		}
	}
}

// The field of a key without effect is a new one each time: what is decoded into it is forgotten.
func TestNowhere(t *testing.T) {
	first := Nowhere(nil).(*int)
	*first = 5
	if second := Nowhere(nil).(*int); *second != 0 || first == second {
		t.Errorf("%d is remembered", *second)
	}
}
