package request

import (
	"strings"
	"testing"
)

func TestHasPreference(t *testing.T) {
	for text, want := range map[string]bool{
		"if-available":                          true,
		" If-Available ":                        true,
		"respond-async, wait=10,\tif-available": true,
		"if-available;a=b":                      true,
		"if-available=1, x":                     true,
		"":                                      false,
		"if-availables":                         false,
		"x=if-available":                        false,
		"x;if-available":                        false,
		`x="a, if-available"`:                   false,
		`x="\", if-available"`:                  false,
		`x="\\", if-available`:                  true,
		`x="never closed, if-available`:         false,
		strings.Repeat("a,", 1000) + "if-available": true,
	} {
		if got := hasPreference(text, "if-available"); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
