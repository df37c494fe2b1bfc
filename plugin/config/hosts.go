package config

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Names of hosts are compared in one form: without a port and the dot of the root, labels with other letters than those
// of ASCII as DNS has them (RFC 3492), IPv6 addresses in their shortest form. In ASCII only letters have two forms,
// which sameHost takes for the same. Who writes a rule and who sends a request may choose any of them.

// hostOf returns the host of an authority in that form. It does not allocate for what gateways usually get.
func hostOf(authority string) string {
	host := withoutPort(authority)
	plain := len(host) == 0 || host[0] != '['
	for i := 0; plain && i < len(host); i++ {
		plain = host[i] < utf8.RuneSelf
	}
	if !plain {
		host, _ = normalHost(host)
	}
	return strings.TrimRight(host, ".")
}

// normalHost returns a host in the form of hostOf, but for dots at its end. It returns false for one that cannot be
// written in DNS.
func normalHost(s string) (string, bool) {
	if inner, ok := strings.CutPrefix(s, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		if groups, is := parseIPv6(inner); ok && is {
			return "[" + formatIPv6(groups) + "]", true
		}
		return s, true
	}
	if !utf8.ValidString(s) {
		return s, false
	}
	var b []byte
	var label []rune
	for _, c := range s {
		if c = unicode.ToLower(c); !isDot(c) {
			label = append(label, c)
			continue
		}
		if len(label) > maxLabel {
			return s, false
		}
		b, label = append(appendLabel(b, label), '.'), label[:0]
	}
	if len(label) > maxLabel {
		return s, false
	}
	return string(appendLabel(b, label)), true
}

// maxLabel is how long a label is at most. Longer ones would also cost more than their length.
const maxLabel = 63

// isDot reports whether a character separates labels: RFC 3490 has four that do.
func isDot(c rune) bool { return c == '.' || c == '\u3002' || c == '\uff0e' || c == '\uff61' }

// appendLabel appends a label of a host's name as it is in DNS.
func appendLabel(b []byte, label []rune) []byte {
	basic := 0
	for _, c := range label {
		if c < utf8.RuneSelf {
			basic++
		}
	}
	if basic == len(label) {
		return append(b, string(label)...)
	}
	b = append(b, "xn--"...)
	for _, c := range label {
		if c < utf8.RuneSelf {
			b = append(b, byte(c))
		}
	}
	if basic > 0 {
		b = append(b, '-')
	}
	return appendPunycode(b, label, basic)
}

// Parameters of RFC 3492, section 5.
const (
	punyBase, punyMin, punyMax = 36, 1, 26
	punySkew, punyDamp         = 38, 700
	punyBias, punyFirst        = 72, 128
)

// appendPunycode appends where the characters of a label are that are not among the so many of ASCII: section 6.3.
func appendPunycode(b []byte, label []rune, basic int) []byte {
	n, delta, bias := rune(punyFirst), 0, punyBias // delta is below 2^31: see maxLabel
	for done := basic; done < len(label); n++ {
		next := rune(unicode.MaxRune)
		for _, c := range label {
			if c >= n {
				next = min(next, c)
			}
		}
		delta += int(next-n) * (done + 1)
		n = next
		for _, c := range label {
			if c < n {
				delta++
			}
			if c != n {
				continue
			}
			b = appendDelta(b, delta, bias)
			bias = adaptBias(delta, done+1, done == basic)
			delta, done = 0, done+1
		}
		delta++
	}
	return b
}

// appendDelta appends a number with digits of varying weight.
func appendDelta(b []byte, delta, bias int) []byte {
	for k := punyBase; ; k += punyBase {
		t := min(max(k-bias, punyMin), punyMax)
		if delta < t {
			return append(b, punyDigit(delta))
		}
		b = append(b, punyDigit(t+(delta-t)%(punyBase-t)))
		delta = (delta - t) / (punyBase - t)
	}
}

func punyDigit(d int) byte { return "abcdefghijklmnopqrstuvwxyz0123456789"[d] }

// adaptBias is section 6.1.
func adaptBias(delta, count int, first bool) int {
	if delta /= 2; first {
		delta = delta * 2 / punyDamp
	}
	delta += delta / count
	k := 0
	for ; delta > (punyBase-punyMin)*punyMax/2; k += punyBase {
		delta /= punyBase - punyMin
	}
	return k + (punyBase-punyMin+1)*delta/(delta+punySkew)
}

// domain is a host name in its normal form, or the beginning or end of one. Higress's own matcher compares letter by
// letter.
type domain struct {
	text        string
	head, tails bool // text is a beginning; text is an end
}

func (d domain) String() string {
	switch {
	case d.tails:
		return "*" + d.text
	case d.head:
		return d.text + "*"
	}
	return d.text
}

// newDomain reads a domain. It returns false for one that no host has, and then one that matches none: of a label with
// letters beyond ASCII a part has no form of its own.
func newDomain(s string) (d domain, ok bool) {
	d.text, d.tails = strings.CutPrefix(s, "*")
	if !d.tails {
		d.text, d.head = strings.CutSuffix(s, "*")
	}
	whole := d.text
	d.text, ok = normalHost(d.text)
	if !d.head {
		d.text = strings.TrimRight(d.text, ".")
	}
	first, _, _ := strings.Cut(whole, ".")
	last := whole[strings.LastIndexByte(whole, '.')+1:]
	part := d.tails && !isASCII(first) || d.head && !isASCII(last)
	if !ok || part || d.text == "" && s != "*" {
		return domain{text: s}, false
	}
	return d, true
}

func isDomain(s string) bool {
	_, ok := newDomain(s)
	return ok
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
