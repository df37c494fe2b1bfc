package prompt

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// Options that a template prints are the same however they are written, and others where they say something else.
func TestChainOfTheSameOptions(t *testing.T) {
	with := func(member string) []Block { return chainOf(t, `{`+member+`,"input":"`+words(1, 500)+`"}`) }
	known := map[uint64]string{}
	for _, group := range [][]string{
		{
			`"reasoning":{"effort":"high","summary":"auto"}`, `"reasoning": { "summary" : "auto", "effort": "high" }`,
			`"reasoning":{"\u0065ffort":"h\u0069gh","summary":"auto"}`,
		},
		{`"reasoning":{"effort":"low","summary":"auto"}`},
		{`"reasoning":{"effort":"high"}`, `"reasoning":{"effort": "high"}`},
		{`"reasoning":{"effort":"high\",\"summary\":\"auto"}`},
		{`"chat_template_kwargs":{"a":{"b":1,"c":[1,{"d":2,"e":3}]}}`, `"chat_template_kwargs":{"a" : {"c":[ 1 ,{"e":3, "d":2} ], "b":1}}`},
		{`"chat_template_kwargs":{"a":{"b":1,"c":[{"d":2,"e":3},1]}}`},
		{`"chat_template_kwargs":{"a":[1,2]}`},
		{`"chat_template_kwargs":{"a":[12]}`},
		{`"extra_key":["a","b"]`, `"extra_key": [ "a", "\u0062" ]`},
		{`"extra_key":["b","a"]`},
		{`"extra_key":["a,b"]`},
		{`"lora":[{"id":1,"scale":0.5}]`, `"lora":[{"scale":0.5,"id":1}]`},
	} {
		want := with(group[0])
		for _, other := range group[1:] {
			if got := with(other); !slices.Equal(got, want) {
				t.Errorf("%s has other keys than %s", other, group[0])
			}
		}
		if other := known[want[0].Key]; other != "" {
			t.Errorf("%s has the keys of %s", group[0], other)
		}
		known[want[0].Key] = group[0]
	}
}

// A member of a message that no engine prints has no effect, unless there is nothing else in it.
func TestMembersThatClientsKeep(t *testing.T) {
	with := func(member string) []Block {
		return chainOf(t, chat(`{"role":"user","content":"`+words(1, 300)+`",`+member+`}`, message("assistant", 2, 300)))
	}
	want := with(`"name":"a"`)
	for _, member := range unprintedMembers {
		if got := with(member); !slices.Equal(got, want) {
			t.Errorf("%s: %d of %d blocks are the same", member, common(t, got, want), len(want))
		}
	}
	for _, member := range []string{
		`"reasoning_content":"x"`, `"reasoning":"x"`, `"thinking":"x"`, `"tool_plan":"x"`, `"tools":[{"name":"x"}]`,
		`"images":["QUJD"]`, `"tool_calls":[{"function":{"name":"x"}}]`,
	} {
		if got := with(member); slices.Equal(got, want) {
			t.Errorf("%s has no effect", member)
		}
	}
	one, two := chat(`{"role":"user","value":"`+words(1, 300)+`"}`), chat(`{"role":"user","value":"`+words(2, 300)+`"}`)
	if n := common(t, chainOf(t, one), chainOf(t, two)); n > 0 {
		t.Errorf("%d blocks of messages with another content are the same", n)
	}
}

// A value in its plain spelling is the same value, and is its own plain spelling.
func FuzzPlainWriter(f *testing.F) {
	for _, value := range []string{
		`{}`, `[ ]`, `{"b":1, "a":[1, {"d":"\u00e9\"","c":null}]}`, `{"a":{"a":{"a":{"a":{"b":1, "a":2}}}}}`, `"a"`, `-1.5e3`,
		`{` + strings.Repeat(`"a":1, `, 20) + `"b":2}`,
	} {
		f.Add([]byte(value))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if !json.Valid(value) {
			return
		}
		value = []byte(strings.TrimSpace(string(value)))
		w := plainWriter{v: value}
		if end := w.value(0, 0); end != len(value) {
			t.Fatalf("%q: %q, %d of %d bytes", value, w.dst, end, len(value))
		}
		again := plainWriter{v: w.dst}
		if again.value(0, 0); string(again.dst) != string(w.dst) {
			t.Fatalf("%q: %q, and then %q", value, w.dst, again.dst)
		}
	})
}

// A text that is empty is none, also where a body ends in one.
func TestEmptyTexts(t *testing.T) {
	with := func(part string) string {
		return chat(`{"role":"user","content":[` + part + `{"type":"text","text":"` + words(1, 300) + `"}]}`)
	}
	want := chainOf(t, with(""))
	if got := chainOf(t, with(`{"type":"text","text":""},`)); !slices.Equal(got, want) {
		t.Errorf("%d of %d blocks are the same", common(t, got, want), len(want))
	}
	all := chat(message("user", 1, 300), `{"role":"user","content":""}`, message("user", 2, 300))
	whole := chainOf(t, all)
	for n := range len(all) {
		_, parts, err := Read([]byte(all[:n]), false)
		if err != nil {
			t.Fatal(err)
		}
		blocks, _ := NewChainer(testSecret, testBlock).Chain([]byte(all[:n]), &parts)
		if common(t, whole, blocks) != len(blocks) {
			t.Errorf("the first %d bytes have other blocks than all", n)
		}
	}
}
