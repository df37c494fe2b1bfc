package metrics

import (
	"strings"
	"testing"
)

// TestLabel finds a label behind others, whatever these are.
func TestLabel(t *testing.T) {
	for labels, want := range map[string]string{
		`a="b"`: "b", `a = "b"`: "b", `x="a=",a="b"`: "b", `="x",a="b"`: "b", `x="\\",a="b"`: "b", `a=""`: "",
		`a="b\""`: `b\"`,
		``:        "none", `a`: "none", `a=`: "none", `a=b`: "none", `a="b`: "none", `aa="b"`: "none", `="a"`: "none",
	} {
		got := label([]byte(labels), "a")
		if want == "none" {
			if got != nil {
				t.Errorf("%s: %q, want none", labels, got)
			}
		} else if got == nil || string(got) != want {
			t.Errorf("%s: %q, want %q", labels, got, want)
		}
	}
}

// TestDecimal reads short numbers without an exponent; those of any other form are left to strconv.
func TestDecimal(t *testing.T) {
	for text, want := range map[string]float64{
		"0": 0, "9": 9, "19.05": 19.05, "9999999999999999": 9999999999999999, ".000000000000009": 9e-15, "5.": 5,
	} {
		if got, ok := decimal([]byte(text)); !ok || got != want {
			t.Errorf("%s: %v %v", text, got, ok)
		}
	}
	for _, text := range []string{"", ".", "..5", "1.2.3", "-1", "+1", "1e3", "x", ":", "/", strings.Repeat("1", 17)} {
		if got, ok := decimal([]byte(text)); ok {
			t.Errorf("%q: %v, want none", text, got)
		}
	}
}

// A list that breaks off behind a backslash, which no label does, has it at the end of its last name.
func TestAdaptersWithALoneBackslash(t *testing.T) {
	var a Adapters
	a.parse([]byte(`a,b\`))
	if a.N != 2 || !a.Has(AdapterID("a")) || !a.Has(AdapterID(`b\`)) {
		t.Errorf("%d adapters: %v", a.N, a.IDs[:a.N])
	}
}
