package prompt

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// rendered is a conversation by what chat templates print of it.
type rendered struct {
	model, system string
	tools         []string // names
	turns         []renderedTurn
}

// renderedTurn is a message. Calls are arguments of tools.
type renderedTurn struct {
	role  string
	parts []string // texts, or pictures
	calls []string
}

const picture = "picture:" // begins a part that is a picture

func drawRendered(rt *rapid.T) (r rendered) {
	text := rapid.StringOfN(rapid.RuneFrom([]rune("ab \"\\/\n\té😀{}[]:,\u2028")), 1, 400, -1)
	name := rapid.StringMatching(`[a-z]{1,9}`)
	r.model = rapid.SampledFrom([]string{"m", "a/b"}).Draw(rt, "model")
	if rapid.Bool().Draw(rt, "with a system") {
		r.system = text.Draw(rt, "system")
	}
	r.tools = rapid.SliceOfN(name, 0, 3).Draw(rt, "tools")
	for range rapid.IntRange(1, 6).Draw(rt, "turns") {
		t := renderedTurn{role: rapid.SampledFrom([]string{"user", "assistant", "tool"}).Draw(rt, "role")}
		t.parts = rapid.SliceOfN(rapid.OneOf(text, text, rapid.StringMatching(picture+`[A-Za-z0-9+/]{8,200}`)), 1, 3).Draw(rt, "parts")
		if t.role != "user" {
			t.parts = []string{text.Draw(rt, "text")}
		}
		if t.role == "assistant" {
			t.calls = rapid.SliceOfN(name, 0, 2).Draw(rt, "calls")
		}
		r.turns = append(r.turns, t)
	}
	return r
}

// speller writes one in one of many ways.
type speller struct{ *rapid.T }

func (s speller) coin(what string) bool { return rapid.Bool().Draw(s.T, what) }

// object writes members, in any order and with others that are not printed.
func (s speller) object(members ...string) string {
	for _, m := range []string{`"cache_control":{"type":"ephemeral"}`, `"refusal":null`, `"annotations":[ ]`} {
		if rapid.IntRange(0, 3).Draw(s.T, "marker") == 0 {
			members = append(members, m)
		}
	}
	blank := rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(s.T, "blank")
	return "{" + blank + strings.Join(rapid.Permutation(members).Draw(s.T, "order"), blank+","+blank) + blank + "}"
}

func (s speller) part(p string) string {
	data, isPicture := strings.CutPrefix(p, picture)
	switch {
	case !isPicture:
		return s.object(`"type":"text"`, `"text":`+quoted(s.T, p))
	case s.coin("as a source"):
		return s.object(`"type":"image"`, `"source":`+s.object(`"type":"base64"`, `"media_type":"image/png"`, `"data":`+quoted(s.T, data)))
	}
	return s.object(`"type":"image_url"`, `"image_url":`+s.object(`"url":`+quoted(s.T, "data:image/png;base64,"+data)))
}

func (s speller) content(parts []string) string {
	if len(parts) == 1 && !strings.HasPrefix(parts[0], picture) && s.coin("as a text") {
		return quoted(s.T, parts[0])
	}
	var list []string
	for _, p := range parts {
		if list = append(list, s.part(p)); rapid.IntRange(0, 7).Draw(s.T, "cache point") == 0 {
			list = append(list, `{"cachePoint":{"type":"default"}}`)
		}
	}
	return "[" + strings.Join(list, " ,") + "]"
}

func (s speller) id() string { return fmt.Sprintf(`"call_%d"`, rapid.IntRange(0, 99).Draw(s.T, "id")) }

// unprinted are members of messages that clients keep for themselves.
var unprintedMembers = []string{
	`"timestamp":1700000000`, `"createdAt":"2026-01-01T00:00:00Z"`, `"cacheControl":{"type":"ephemeral"}`, `"metadata":{"a":[1]}`,
	`"finish_reason":"stop"`, `"usage":{"prompt_tokens":7}`, `"id":"msg_1"`, `"provider_specific_fields":null`,
}

// options writes members of the request that are in front of a prompt, or in a template, in any order and spelling.
func (s speller) options() string {
	blank := rapid.SampledFrom([]string{"", " ", "\n "}).Draw(s.T, "blank")
	members := rapid.Permutation([]string{
		`"effort":` + blank + quoted(s.T, `hi"gh`), `"summary":` + blank + `null`, `"nested":` + blank + `{"a":` + blank + `1,` +
			blank + `"b":[` + blank + `1` + blank + `,2]}`,
	}).Draw(s.T, "order")
	return "{" + blank + strings.Join(members, blank+","+blank) + blank + "}"
}

func (s speller) message(t renderedTurn) string {
	members := []string{`"role":"` + t.role + `"`, `"content":` + s.content(t.parts)}
	if t.role == "tool" {
		members = append(members, `"tool_call_id":`+s.id())
	}
	if s.coin("named") {
		members = append(members, `"name":"someone"`)
	}
	calls := make([]string, len(t.calls))
	for i, name := range t.calls {
		calls[i] = s.object(`"id":`+s.id(), `"type":"function"`, `"function":`+s.object(`"name":"`+name+`"`, `"arguments":"{}"`))
	}
	if len(calls) > 0 || s.coin("no calls") {
		members = append(members, `"tool_calls":[`+strings.Join(calls, ",")+`]`)
	}
	for _, m := range unprintedMembers {
		if rapid.IntRange(0, 7).Draw(s.T, "kept by the client") == 0 {
			members = append(members, m)
		}
	}
	return s.object(members...)
}

func (s speller) write(r rendered) string {
	fields := []string{
		`"model":` + quoted(s.T, r.model), `"reasoning":` + s.options(), `"chat_template_kwargs":` + s.options(),
	}
	var messages, tools []string
	if r.system != "" {
		dropped := ""
		if s.coin("with metadata") {
			dropped = fmt.Sprintf(`{"type":"text","text":"x-anthropic-billing-header: cch=%s;"},`, s.id()[1:7])
		}
		if dropped != "" || s.coin("system as parts") {
			fields = append(fields, `"system":[`+dropped+s.part(r.system)+`]`)
		} else {
			fields = append(fields, `"system":`+quoted(s.T, r.system))
		}
	}
	for _, t := range r.turns {
		messages = append(messages, s.message(t))
	}
	for _, name := range r.tools {
		tools = append(tools, s.object(`"type":"function"`, `"function":`+s.object(`"name":"`+name+`"`, `"parameters":{"type":"object"}`)))
	}
	fields = append(fields, `"messages":[`+strings.Join(messages, ",")+`]`)
	if len(tools) > 0 {
		fields = append(fields, `"tools":[`+strings.Join(tools, ",")+`]`)
	}
	return "{" + strings.Join(rapid.Permutation(fields).Draw(s.T, "fields"), ", ") + "}"
}

// What a template prints the same has the same blocks, however the request is written; and what it prints of another
// conversation has others.
func TestChainOfAnySpelling(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r, s := drawRendered(rt), speller{rt}
		one, other := s.write(r), s.write(r)
		a, b := chainOf(t, one), chainOf(t, other)
		if fmt.Sprint(a) != fmt.Sprint(b) {
			rt.Fatalf("%s\n%v\n%s\n%v", one, a, other, b)
		}
		if len(a) == 0 {
			return
		}
		last := &r.turns[len(r.turns)-1]
		last.parts[len(last.parts)-1] += strings.Repeat("x", 2*testBlock) // less may be behind the last block
		if c := chainOf(t, s.write(r)); c[len(c)-1] == a[len(a)-1] {
			rt.Fatalf("%s: another last part has the same blocks", one)
		}
	})
}
