package config

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// This file reads the keys that are Higress's as its ai-load-balancer does. That takes nearly anything, by the
// rules of gjson: text for a number, a number for text, what it cannot read for 0. A value that means something
// else than it looks like is taken with a warning. Lists and objects are refused where a single value belongs.

// takenAs warns of a value that is not what it looks like. The value must not be a secret.
func (p *parser) takenAs(at string, v value, as string) { p.warn(at, got(v)+", taken as "+as) }

func (v value) single() bool { return v.kind != kindArray && v.kind != kindObject }

// number returns the number that gjson takes the value for. plain says that it looks like one.
func (v value) number() (f float64, plain bool) {
	switch v.kind {
	case kindNumber, kindString:
		if f, plain = parseFloat(v.text); math.IsNaN(f) { // no bound holds for it
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

// whole is number for a whole one: gjson cuts a fraction off, but takes text for one only if it is nothing but
// digits.
func (v value) whole() (f float64, plain bool) {
	if v.kind == kindString && strings.Trim(strings.TrimPrefix(v.text, "-"), "0123456789") != "" {
		return 0, false
	}
	f, plain = v.number()
	return math.Trunc(f), plain && f == math.Trunc(f)
}

// looseInteger takes what is out of bounds for the nearest bound.
func looseInteger(lo, hi float64, field func(*Config) *int) setter {
	return func(p *parser, c *Config, at string, v value) {
		if !v.single() {
			p.bad(at, got(v)+", want a whole number")
			return
		}
		f, plain := v.whole()
		n := min(max(f, lo), hi)
		if !plain || n != f {
			p.takenAs(at, v, short(n))
		}
		*field(c) = int(n)
	}
}

// looseName is an integer that names something, so that no other one can take its place.
func looseName(lo, hi float64, field func(*Config) *int) setter {
	strict, loose := integer(lo, hi, field), looseInteger(lo, hi, field)
	return func(p *parser, c *Config, at string, v value) {
		if f, _ := v.whole(); v.single() && (f < lo || f > hi) {
			strict(p, c, at, value{kind: kindNumber, text: short(f)})
			return
		}
		loose(p, c, at, v)
	}
}

// looseDuration is a number of milliseconds, or a string with its unit, which Higress takes for 0.
func looseDuration(hi time.Duration, field func(*Config) *time.Duration) setter {
	return func(p *parser, c *Config, at string, v value) {
		if !v.single() {
			p.bad(at, got(v)+", want milliseconds")
			return
		}
		d, plain := v.duration()
		if !plain {
			ms, ok := v.whole()
			d, plain = time.Duration(min(max(ms, 0), 1e12))*time.Millisecond, ok && ms >= 0
		}
		taken := min(max(d, 0), hi)
		if !plain || taken != d {
			p.takenAs(at, v, brief(taken))
		}
		*field(c) = taken
	}
}

func looseBoolean(field func(*Config) *bool) setter {
	return func(p *parser, c *Config, at string, v value) {
		if !v.single() {
			p.bad(at, got(v)+", want true or false")
			return
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
		*field(c) = is
	}
}

// string returns the text that gjson takes the value for.
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

// looseText may be a secret, so it is never repeated.
func looseText(field func(*Config) *string) setter {
	return func(p *parser, c *Config, at string, v value) {
		if !v.single() || len(v.text) > maxText {
			p.bad(at, "got "+v.kind.String()+", want a string of at most "+strconv.Itoa(maxText)+" bytes")
			return
		}
		switch v.kind {
		case kindNull:
			p.warn(at, "is null, taken as empty")
		case kindNumber, kindBool:
			p.warn(at, "is "+v.kind.String()+", taken as text: in quotes it is what was written, zeros in front included")
		}
		*field(c) = strings.Clone(v.string())
	}
}

// looseRatio is a share that Higress documents as a string and reads as a number.
func looseRatio(field func(*Config) *float64) setter {
	return func(p *parser, c *Config, at string, v value) {
		if !v.single() {
			p.bad(at, got(v)+", want a number from 0 to 1")
			return
		}
		f, plain := v.number()
		n := min(max(f, 0), 1)
		if !plain || n != f {
			p.takenAs(at, v, short(n))
		}
		*field(c) = n
	}
}

// looseOrder is a metric_policy: what is not known there is the default.
func looseOrder(p *parser, c *Config, at string, v value) {
	known := []string{orderDefault, "least", "most"}
	if !v.single() {
		p.bad(at, got(v)+", want "+oneOf(known))
		return
	}
	for _, name := range known {
		if v.string() == name {
			c.Engines.Order = name
			return
		}
	}
	c.Engines.Order = orderDefault
	p.warn(at, got(v)+", taken as "+strconv.Quote(orderDefault)+didYouMean(v.string(), known))
}

// lbType is what is chosen among.
func lbType(p *parser, c *Config, at string, v value) {
	if v.kind == kindNull || v.kind == kindString && v.text == "" {
		p.takenAs(at, v, strconv.Quote(typeEndpoint))
		return
	}
	choice(func(c *Config) *string { return &c.Type }, typeEndpoint)(p, c, at, v)
}

// serviceName reads the name of a service of Higress. A refused one is not repeated: it may be a URL with a
// password in it.
func serviceName(p *parser, c *Config, at string, v value) {
	name := v.string()
	if !v.single() || len(name) > 253 || strings.Trim(name, nameLetters) != "" {
		p.bad(at, "got "+v.kind.String()+" that is no name of a service, want letters, digits, dots and dashes only")
		return
	}
	if v.kind != kindString {
		p.takenAs(at, v, strconv.Quote(name))
	}
	c.Redis.ServiceFQDN = strings.Clone(name)
}

const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"

const (
	typeEndpoint = "endpoint"
	typeCluster  = "cluster"
	orderDefault = "default"
)

// absent are the policies of ai-load-balancer that are not here.
var absent = []string{"endpoint_hash", "cluster_metrics", "cluster_hash", "least_busy"}

// isAbsent reports a part that asks for what ai-load-balancer has and this plugin has not. Its other keys are those
// of that.
func (pt *part) isAbsent(v value) bool {
	const advice = "; ai-load-balancer can go on serving these requests"
	for i, name := range v.names {
		item := v.items[i]
		switch {
		case item.kind != kindString:
		case name == "lb_type" && item.text == typeCluster:
			pt.bad(pt.prefix+name, `got "cluster", want "endpoint": choosing among clusters is not in this version`+advice)
			return true
		case name == "lb_policy" && contains(absent, item.text):
			pt.bad(pt.prefix+name, got(item)+", which is not in this version, want "+oneOf(policies)+advice)
			return true
		}
	}
	return false
}

// maxUnknown is how many unknown keys of one part are looked at.
const maxUnknown = 16

// unknown takes a key that nobody knows. Where keys of Higress's stand, ai-load-balancer ignores it; what is like a
// key that is known is a mistake all the same.
func (pt *part) unknown(path, full, at string) {
	pt.strange++
	theirs := path == "lb_config" || path == "" && !strings.HasPrefix(full, "_")
	foreign := theirs && pt.host == Higress && pt.strange <= maxUnknown
	hint := ""
	if foreign || pt.count < maxProblems { // else it will not be shown
		hint = pt.meant(path, full)
	}
	if foreign && hint == "" {
		pt.warn(at, "is no key of this plugin, and ignored as by ai-load-balancer")
		return
	}
	pt.bad(at, "unknown key"+hint)
}
