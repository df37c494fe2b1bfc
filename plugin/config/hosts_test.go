package config

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// labels are examples of RFC 3492, section 7.1, in small letters, and others.
var labels = []struct{ text, dns string }{
	{"bücher", "xn--bcher-kva"},
	{"münchen-ost", "xn--mnchen-ost-9db"},
	{"ليهمابتكلموشعربي؟", "xn--egbpdaj6bu4bxfgehfvwxn"},
	{"他们为什么不说中文", "xn--ihqwcrb4cv8a8dqg056pqjye"},
	{"почемужеонинеговорятпорусски", "xn--b1abfaaepdrnnbgefbadotcwatmq2g4l"},
	{"porquénopuedensimplementehablarenespañol", "xn--porqunopuedensimplementehablarenespaol-fmd56a"},
	{"3年b組金八先生", "xn--3b-ww4c5e180e575a65lsy2b"},
	{"安室奈美恵-with-super-monkeys", "xn---with-super-monkeys-pc58ag80a8qai00g7n9n"},
	{"𐐨", "xn--hj8c"},
	{"plain", "plain"},
	{"", ""},
}

func TestNormalHost(t *testing.T) {
	for _, s := range []string{strings.Repeat("a", 64) + ".test", "b." + strings.Repeat("é", 64), "a\xff.test"} {
		if got, ok := normalHost(s); ok || got != s {
			t.Errorf("%q: got %q, %v", s, got, ok)
		}
	}
	for _, l := range labels {
		for _, around := range []string{"*", "*.example", "a.*.b", "A.*"} {
			host := strings.Replace(around, "*", l.text, 1)
			want := strings.ToLower(strings.Replace(around, "*", l.dns, 1))
			if got, ok := normalHost(host); !ok || got != want {
				t.Errorf("%q: got %q, %v, want %q", host, got, ok, want)
			}
		}
	}
}

// However a host is written, it is the same host; and nothing that clients send breaks anything.
func TestHostOfProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.SampledFrom(labels[:len(labels)-1])
		var unicode, dns []string
		for range rapid.IntRange(1, 4).Draw(rt, "labels") {
			l := text.Draw(rt, "label")
			unicode, dns = append(unicode, l.text), append(dns, l.dns)
		}
		dot := rapid.SampledFrom([]string{".", "。", "．", "｡"}).Draw(rt, "dot")
		end := rapid.SampledFrom([]string{"", ".", ".:80", ":443", "..", ":"}).Draw(rt, "end")
		want := strings.Join(dns, ".")
		for _, s := range []string{strings.Join(unicode, dot) + end, strings.ToUpper(want) + end} {
			if got := hostOf(s); !sameHost(got, want) {
				rt.Fatalf("%q: got %q, want %q", s, got, want)
			}
			d, ok := newDomain(strings.TrimRight(withoutPort(s), "."))
			if r := (rule{domains: []domain{d}}); !ok || !r.matchesDomain(want) {
				rt.Fatalf("%q as a domain: %+v, %v", s, d, ok)
			}
		}
	})
}

func FuzzHostOf(f *testing.F) {
	for _, l := range labels {
		f.Add(l.text + "." + l.dns + ".:80")
	}
	for _, s := range []string{"[::1]:80", "[::", "\xff.", strings.Repeat("é", 70), strings.Repeat("\U0010ffffé", 31)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got := hostOf(s); strings.HasSuffix(got, ".") || hostOf(got+":80") != got && !strings.ContainsAny(s, "[]:") {
			t.Errorf("%q: got %q, and of that %q", s, got, hostOf(got+":80"))
		}
		if d, ok := newDomain(s); ok && d.text == "" && s != "*" {
			t.Errorf("%q is for every host", s)
		}
	})
}
