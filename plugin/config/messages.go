package config

import (
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/lb/setting"
)

// got describes a refused value.
func got(v value) string {
	switch v.kind {
	case kindString:
		return "got " + quote(v.text)
	case kindNumber, kindBool:
		return "got " + clip(v.text)
	}
	return "got " + v.kind.String()
}

// noObject describes a value in the place of an object. A text in its place is often what YAML makes of keys and values
// without blanks between them. It is not repeated, as a password may be in it.
func noObject(v value) string {
	const want = ", want an object"
	if v.kind != kindString {
		return got(v) + want
	}
	what := "got " + v.kind.String() + want
	if strings.Contains(v.text, ":") {
		what += blankMissing
	}
	return what
}

const blankMissing = `; in YAML a blank follows a colon, as in "key: value"`

// clip keeps messages short, whatever was sent.
func clip(s string) string { return setting.Clip(s) }

// quote, like some other functions of this package, is not inlined, for the size of the artifacts.
//
//go:noinline
func quote(s string) string { return setting.Quote(s) }

func short(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// brief is Duration.String without the zero units at its end.
func brief(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// printable escapes what would break a message out of its line.
func printable(s string) string {
	q := strconv.Quote(s)
	if len(q) == len(s)+2 {
		return s
	}
	return q
}
