// Package configtest has configurations with mistakes, for tests of everything that takes configurations.
package configtest

import (
	_ "embed"
	"strings"
	"testing"
)

//go:embed mistakes.txt
var mistakes string

// Mistake is one of mistakes.txt, which says what its parts are.
type Mistake struct{ Form, Verdict, Message, Text string }

// Mistakes returns those of a form, "" for all.
func Mistakes(t testing.TB, form string) (list []Mistake) {
	t.Helper()
	for _, block := range strings.Split(strings.TrimSpace(mistakes), "\n\n")[1:] {
		head, text, _ := strings.Cut(block, "\n")
		what, message, _ := strings.Cut(head, ": ")
		of, verdict, ok := strings.Cut(what, " ")
		if !ok || message == "" || text == "" || verdict != "refused" && verdict != "warned" {
			t.Fatalf("%q", head)
		}
		if form == "" || of == form {
			list = append(list, Mistake{of, verdict, message, text})
		}
	}
	return list
}
