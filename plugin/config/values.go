package config

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// A setter checks v and puts it into c. It reports what is wrong to p, under the path at.
type setter func(p *parser, c *Config, at string, v value)

func boolean(field func(*Config) *bool) setter {
	return func(p *parser, c *Config, at string, v value) {
		if v.kind != kindBool {
			p.bad(at, got(v)+", want true or false")
			return
		}
		*field(c) = v.text == "true"
	}
}

func number(lo, hi float64, field func(*Config) *float64) setter {
	want := ", want a number from " + short(lo) + " to " + short(hi)
	return func(p *parser, c *Config, at string, v value) {
		f, ok := v.float()
		if !ok || f < lo || f > hi {
			p.bad(at, got(v)+want)
			return
		}
		*field(c) = f
	}
}

func integer(lo, hi float64, field func(*Config) *int) setter {
	want := ", want a whole number from " + short(lo) + " to " + short(hi)
	return func(p *parser, c *Config, at string, v value) {
		f, ok := v.float()
		if !ok || f < lo || f > hi || f != math.Trunc(f) {
			p.bad(at, got(v)+want)
			return
		}
		*field(c) = int(f)
	}
}

// maxText is the longest string accepted anywhere, in bytes.
const maxText = 1024

func text(field func(*Config) *string) setter {
	return func(p *parser, c *Config, at string, v value) {
		if v.kind != kindString || v.text == "" || len(v.text) > maxText {
			p.bad(at, got(v)+", want a string of 1 to "+strconv.Itoa(maxText)+" bytes")
			return
		}
		*field(c) = strings.Clone(v.text)
	}
}

// secret is text that may be empty and is never repeated in an error.
func secret(field func(*Config) *string) setter {
	return func(p *parser, c *Config, at string, v value) {
		if v.kind != kindString || len(v.text) > maxText {
			p.bad(at, "got "+v.kind.String()+", want a string of at most "+strconv.Itoa(maxText)+" bytes")
			return
		}
		*field(c) = strings.Clone(v.text)
	}
}

func choice(field func(*Config) *string, known ...string) setter {
	return func(p *parser, c *Config, at string, v value) {
		for _, name := range known {
			if v.kind == kindString && v.text == name {
				*field(c) = name
				return
			}
		}
		p.bad(at, got(v)+", want "+oneOf(known)+didYouMean(v.text, known))
	}
}

// duration accepts a number of milliseconds, Higress's unit, or a string with its unit.
func duration(lo, hi time.Duration, field func(*Config) *time.Duration) setter {
	want := ", want a duration from " + brief(lo) + " to " + brief(hi) + `, as milliseconds or a string like "20ms"`
	return func(p *parser, c *Config, at string, v value) {
		d, ok := v.duration()
		if !ok || d < lo || d > hi {
			p.bad(at, got(v)+want)
			return
		}
		*field(c) = d
	}
}

// size accepts a number of bytes or a string with its unit.
func size(lo, hi float64, field func(*Config) *int) setter {
	want := ", want a size from " + short(lo) + " to " + short(hi) + ` bytes, as a number or a string like "256KiB"`
	return func(p *parser, c *Config, at string, v value) {
		f, ok := v.size()
		if !ok || f < lo || f > hi || f != math.Trunc(f) {
			p.bad(at, got(v)+want)
			return
		}
		*field(c) = int(f)
	}
}

// float returns a finite number.
func (v value) float() (float64, bool) {
	if v.kind != kindNumber {
		return 0, false
	}
	return parseFloat(v.text)
}

func parseFloat(s string) (float64, bool) {
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}

func (v value) duration() (time.Duration, bool) {
	if v.kind == kindString {
		d, err := time.ParseDuration(v.text)
		return d, err == nil
	}
	ms, ok := v.float()
	if !ok || math.Abs(ms) > 1e12 {
		return 0, false
	}
	return time.Duration(ms * float64(time.Millisecond)), true
}

var sizeUnits = []struct {
	suffix string
	bytes  float64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"KB", 1e3}, {"MB", 1e6}, {"B", 1}}

func (v value) size() (float64, bool) {
	if v.kind != kindString {
		return v.float()
	}
	for _, u := range sizeUnits {
		if digits, ok := strings.CutSuffix(v.text, u.suffix); ok {
			f, ok := parseFloat(strings.TrimRight(digits, " "))
			return f * u.bytes, ok
		}
	}
	return 0, false
}

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

// clip keeps messages short, whatever was sent.
func clip(s string) string {
	const limit = 64
	if len(s) > limit {
		return s[:limit] + "..."
	}
	return s
}

func quote(s string) string { return strconv.Quote(clip(s)) }

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
