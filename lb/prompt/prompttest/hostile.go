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

// Hostile returns bodies of at most size bytes, and nearly that unless it is impossible. Size is at least 100.
func Hostile(size int) []Body {
	var all []Body
	good := func(name, body string) { all = append(all, Body{name, []byte(body), true}) }
	bad := func(name, body string) { all = append(all, Body{name, []byte(body), false}) }
	for _, c := range []struct{ name, before, element, after string }{
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
	} {
		good(c.name, fill(size, c.before, c.element, c.after))
	}
	deep := min(maxDepth-10, (size-50)/2)
	good("deep", `{"model":"m","tools":`+strings.Repeat(`[`, deep)+strings.Repeat(`]`, deep)+`}`)
	bad("deeper than anything", strings.Repeat(`[`, size))
	bad("deeper than allowed", fill(size, `{"messages":`, `[`, ``))
	bad("objects deeper than allowed", fill(size, ``, `{"a":`, ``))
	bad("model twice", fill(size, `{"model":"m","prompt":"`, "a", `","model":"n"}`))
	bad("cut off", fill(size, `{"model":"m","prompt":"`, "a", ``))
	bad("rubbish behind it", fill(size, `{"model":"m","prompt":"`, "a", `"}x`))
	bad("a comment", fill(size, `{"model":"m",/*`, "a", `*/"prompt":""}`))
	bad("a line end in a string", fill(size, `{"model":"m","prompt":"`, "a", "\n\"}"))
	bad("zeros", strings.Repeat("\x00", size))
	return all
}

// fill repeats element between before and after as often as it fits.
func fill(size int, before, element, after string) string {
	return before + strings.Repeat(element, max(0, size-len(before)-len(after))/len(element)) + after
}
