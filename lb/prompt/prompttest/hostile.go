// Package prompttest makes request bodies that are expensive to read, for tests and benchmarks of everything that reads
// bodies.
package prompttest

import "strings"

// Body is a request body and its peculiarity.
type Body struct {
	Name string
	JSON []byte
	Good bool // valid JSON without duplicate keys; the others are refused
}

// maxDepth is the maximum nesting of an accepted body.
const maxDepth = 10000

// filler is a kind of body in which one element is repeated.
type filler struct{ name, before, element, after string }

func (f filler) body(size int, good bool) Body {
	n := max(0, size-len(f.before)-len(f.after)) / len(f.element)
	return Body{f.name, []byte(f.before + strings.Repeat(f.element, n) + f.after), good}
}

var good = []filler{
	{"empty messages", `{"model":"m","messages":[`, `{},`, `{}]}`},
	{"system messages", `{"model":"m","messages":[`, `{"role":"system","content":"a"},`, `{}]}`},
	{"messages of one letter", `{"model":"m","messages":[`, `"a",`, `""]}`},
	{"keys of a message", `{"model":"m","messages":[{`, `"k":0,`, `"k":0}]}`},
	{"keys of the request", `{"model":"m",`, `"k":0,`, `"k":0}`},
	{"keys of a tool", `{"model":"m","tools":[{`, `"k":0,`, `"k":0}]}`},
	{"keys without a name", `{"model":"m","messages":[{`, `"":"",`, `"":""}]}`},
	{"escaped keys", `{"model":"m","messages":[{`, `"\u006b":0,`, `"k":0}]}`},
	{"media", `{"model":"m","messages":[{`, `"url":"` + strings.Repeat("a", 65) + `",`, `"url":0}]}`},
	{"empty strings", `{"model":"m","prompt":[`, `"",`, `""]}`},
	{"tokens", `{"model":"m","prompt":[`, `1,`, `1]}`},
	{"fractions", `{"model":"m","prompt":[`, `1.5e1,`, `1]}`},
	{"literals", `{"model":"m","input":[`, `null,`, `0]}`},
	{"empty lists", `{"model":"m","input":[`, `[],`, `[]]}`},
	{"empty objects", `{"model":"m","input":[[`, `{},`, `{}]]}`},
	{"\\u escapes", `{"model":"m","prompt":"`, `\u0041`, `"}`},
	{"\\u escapes of three bytes", `{"model":"m","prompt":"`, `\u4f60`, `"}`},
	{"letters and escapes", `{"model":"m","prompt":"`, `a\n`, `"}`},
	{"words and escapes", `{"model":"m","prompt":"`, `abcdefghijklmnopq\n`, `"}`},
	{"questions and answers", `{"model":"m","messages":[`, `{"role":"user"},{"role":"assistant"},`, `{}]}`},
	{"items without a role", `{"model":"m","input":[`, `{"k":0,"type":"k"},`, `{}]}`},
	{"lone surrogates", `{"model":"m","prompt":"`, `\ud800`, `"}`},
	{"surrogate pairs", `{"model":"m","prompt":"`, `\ud83d\ude00`, `"}`},
	{"quotes", `{"model":"m","prompt":"`, `\"`, `"}`},
	{"backslashes", `{"model":"m","prompt":"`, `\\`, `"}`},
	{"quotes in a message", `{"model":"m","messages":[{"content":"`, `\"`, `","role":"user"}]}`},
	{"no UTF-8", `{"model":"m","prompt":"`, "\xff", `"}`},
	{"half UTF-8", `{"model":"m","prompt":"`, "a\xff", `"}`},
	{"a long role", `{"model":"m","messages":[{"role":"`, "a", `","content":""}]}`},
	{"a long model", `{"model":"`, "a", `","prompt":""}`},
	{"an escaped model", `{"model":"`, `\n`, `","prompt":""}`},
	{"white space", `{"model":"m","prompt":["a"`, " ", `]}`},
	{"white space between tokens", `{"model":"m","prompt":[`, "1 , ", `1]}`},
}

var bad = []filler{
	{"deeper than anything", ``, `[`, ``},
	{"deeper than allowed", `{"messages":`, `[`, ``},
	{"objects deeper than allowed", ``, `{"a":`, ``},
	{"model twice", `{"model":"m","prompt":"`, "a", `","model":"n"}`},
	{"cut off", `{"model":"m","prompt":"`, "a", ``},
	{"rubbish behind it", `{"model":"m","prompt":"`, "a", `"}x`},
	{"a comment", `{"model":"m",/*`, "a", `*/"prompt":""}`},
	{"a line end in a string", `{"model":"m","prompt":"`, "a", "\n\"}"},
	{"zeros", ``, "\x00", ``},
}

// Hostile returns bodies of at most size bytes, and nearly that unless it is impossible. Size is at least 100.
func Hostile(size int) []Body {
	var all []Body
	for _, f := range good {
		all = append(all, f.body(size, true))
	}
	deep := min(maxDepth-10, (size-50)/2)
	all = append(all, Body{
		"deep", []byte(`{"model":"m","tools":` + strings.Repeat(`[`, deep) + strings.Repeat(`]`, deep) + `}`), true,
	})
	for _, f := range bad {
		all = append(all, f.body(size, false))
	}
	return all
}
