package config

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/lb/setting"
)

// This file reads the keys that are Higress's as its ai-load-balancer does. That takes nearly anything, by the
// rules of gjson: text for a number, a number for text, what it cannot read for 0. A value whose meaning differs from
// its appearance is accepted with a warning. Lists and objects are errors where a single value is expected.

// takenAs warns of a value whose meaning differs from its appearance. The value must not be a secret.
func (p *parser) takenAs(at string, v value, as string) { p.warn(at, got(v)+", taken as "+as) }

func (v value) single() bool { return v.kind != kindArray && v.kind != kindObject }

// number returns the number that gjson reads from the value. plain reports whether it is written as one.
func (v value) number() (f float64, plain bool) {
	switch v.kind {
	case kindNumber, kindString:
		if f, plain = parseFloat(v.text); math.IsNaN(f) { // within no bounds
			return 0, false
		}
		return f, plain
	case kindBool:
		if v.text == "true" {
			return 1, false
		}
	}
	return 0, false
}

// whole is number for a whole number: gjson truncates a fraction, but accepts text only if it consists of digits.
func (v value) whole() (f float64, plain bool) {
	if v.kind == kindString && strings.Trim(strings.TrimPrefix(v.text, "-"), "0123456789") != "" {
		return 0, false
	}
	f, plain = v.number()
	return math.Trunc(f), plain && f == math.Trunc(f)
}

// looseNumber decodes a number as gjson does. What is out of bounds counts as the nearest bound, unless the key is
// exact.
func (p *parser) looseNumber(k *setting.Key, at string, v value) (float64, bool) {
	if !v.single() {
		want := "a whole number"
		if k.Type == setting.Number {
			want = wanted(k)
		}
		p.badValue(at, v, ", want "+want)
		return 0, false
	}
	f, plain := v.whole()
	if k.Type == setting.Number {
		f, plain = v.number()
	}
	if d, ok := v.duration(); ok && v.kind == kindString && (k.Type == setting.Seconds || k.Millis) {
		unit := time.Second
		if k.Millis {
			unit = time.Millisecond
		}
		f, plain = float64(d/unit), d%unit == 0
	}
	n := min(max(f, k.Min), k.Max)
	if k.Exact && n != f {
		p.bad(at, "got "+clip(short(f))+", want "+wanted(k))
		return 0, false
	}
	if !plain || n != f {
		p.takenAs(at, v, short(n))
	}
	return n, true
}

// looseDuration decodes a number of milliseconds, or a string with its unit, which Higress takes for 0.
func (p *parser) looseDuration(lo, hi time.Duration, at string, v value) (time.Duration, bool) {
	if !v.single() {
		p.badValue(at, v, ", want milliseconds")
		return 0, false
	}
	d, plain := v.duration()
	if !plain {
		ms, ok := v.whole()
		d, plain = time.Duration(min(max(ms, 0), 1e12))*time.Millisecond, ok && ms >= 0
	}
	taken := min(max(d, lo), hi)
	if !plain || taken != d {
		p.takenAs(at, v, brief(taken))
	}
	return taken, true
}

func (p *parser) looseBoolean(at string, v value) (is, ok bool) {
	if !v.single() {
		p.badValue(at, v, ", want true or false")
		return false, false
	}
	is, plain := v.kind == kindBool && v.text == "true", v.kind == kindBool
	switch v.kind {
	case kindString:
		var err error
		is, err = strconv.ParseBool(strings.ToLower(v.text))
		plain = err == nil
	case kindNumber:
		f, _ := v.number()
		is, plain = f != 0, f == 0 || f == 1
	}
	if !plain {
		p.takenAs(at, v, strconv.FormatBool(is))
	}
	return is, true
}

// string returns the text that gjson reads from the value.
func (v value) string() string {
	switch {
	case v.kind == kindNull:
		return ""
	case v.kind == kindNumber && strings.Trim(strings.TrimPrefix(v.text, "-"), "0123456789") != "":
		f, _ := v.number()
		return short(f)
	}
	return v.text
}

// looseText decodes a text. It may be a secret, so it is never repeated.
func (p *parser) looseText(at string, v value) (string, bool) {
	if !v.single() || len(v.text) > setting.MaxText {
		p.bad(at, "got "+v.kind.String()+", want a string of at most "+strconv.Itoa(setting.MaxText)+" bytes")
		return "", false
	}
	switch v.kind {
	case kindNull:
		p.warn(at, "is null, taken as empty")
	case kindNumber, kindBool:
		p.warn(at, "is "+v.kind.String()+", taken as text: in quotes it is what was written, zeros in front included")
	}
	return v.string(), true
}

// looseChoice decodes a choice: an unknown name counts as the default.
func (p *parser) looseChoice(k *setting.Key, at string, v value) (string, bool) {
	if !v.single() {
		p.badValue(at, v, ", want "+oneOf(k.Choices))
		return "", false
	}
	if i := slices.Index(k.Choices, v.string()); i >= 0 {
		return k.Choices[i], true
	}
	p.warn(at, got(v)+", taken as "+k.Default+DidYouMean(v.string(), k.Choices))
	name, err := strconv.Unquote(k.Default)
	return name, err == nil
}
