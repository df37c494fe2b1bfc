package agents

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
)

// Where requests go. The client of messages adds a query, as it really does.
const (
	messagesPath  = "/v1/messages?beta=true"
	countPath     = "/v1/messages/count_tokens?beta=true"
	tokenizePath  = "/tokenize"
	responsesPath = "/v1/responses"
)

// Members of bodies in the order in which SDKs write them: what comes before the messages in the prompt stands behind
// them, and in chats even the model.
type (
	messagesBody struct {
		Model    string          `json:"model"`
		MaxTok   int             `json:"max_tokens"`
		Messages []part          `json:"messages"`
		System   []part          `json:"system"`
		Tools    json.RawMessage `json:"tools"`
		Stream   bool            `json:"stream,omitempty"`
	}
	chatBody struct {
		Messages []part          `json:"messages"`
		Tools    json.RawMessage `json:"tools"`
		MaxTok   int             `json:"max_completion_tokens"`
		Stream   bool            `json:"stream"`
		Options  part            `json:"stream_options"`
		Model    string          `json:"model"`
	}
	responsesBody struct {
		Input    []part `json:"input"`
		Previous string `json:"previous_response_id,omitempty"`
		MaxTok   int    `json:"max_output_tokens"`
		Store    bool   `json:"store"`
		Stream   bool   `json:"stream"`
		Model    string `json:"model"`
	}
	part = map[string]any // a message, or a part of one
)

// pen writes requests. Every one has new values where clients have them.
type pen struct {
	requests atomic.Uint64
	previous func(session string) string // the id of the latest answer; nil = there is none
}

// write returns the request of a turn whose conversation so far is the prompt, in the API of the session's kind, or, if
// chatsOnly, as a chat.
func (p *pen) write(name string, s *session, chatsOnly bool, turn int, t *traffic.Turn, prompt []loadgen.Message,
) loadgen.Request {
	q := loadgen.Request{
		Path: compare.Path, Model: baseModel, Stream: true, KeepText: true, MaxTokens: t.Answer,
		Header: http.Header{scripted.SessionHeader: {name}},
	}
	if s.kind == adapter {
		q.Model = adapterModel
	}
	d := draft{session: s, prompt: prompt, turn: turn, nonce: p.requests.Add(1)}
	var body any
	switch {
	case s.kind == messages && !chatsOnly:
		q.Path = messagesPath
		body = messagesBody{
			Model: q.Model, MaxTok: t.Answer, Messages: d.talk(d.messages), System: d.system(), Tools: s.tools,
			Stream: true,
		}
	case s.kind == responses && !chatsOnly:
		q.Path = responsesPath
		b := responsesBody{
			Input:  []part{{"role": "user", "content": prompt[len(prompt)-1].Content}},
			MaxTok: t.Answer, Store: true, Stream: true, Model: q.Model,
		}
		if p.previous != nil {
			b.Previous = p.previous(name)
		}
		if b.Previous == "" {
			b.Input = append([]part{{"role": "system", "content": prompt[0].Content + string(s.tools)}}, b.Input...)
		}
		body = b
	default:
		body = chatBody{
			Messages: append([]part{{"role": "system", "content": d.system()}}, d.talk(d.chat)...), Tools: s.tools,
			MaxTok: t.Answer, Stream: true, Options: part{"include_usage": true}, Model: q.Model,
		}
	}
	var err error
	if q.Body, err = json.Marshal(body); err != nil {
		panic(err) // texts always marshal
	}
	return q
}

// draft is a request that is being written.
type draft struct {
	session *session
	prompt  []loadgen.Message // the system prompt, then questions and answers in turn
	turn    int
	nonce   uint64
}

// system returns the system prompt, of the kind messages behind what the client says of itself.
func (d *draft) system() []part {
	prompt := d.text(d.prompt[0].Content, false)
	if d.session.kind != messages {
		return []part{prompt}
	}
	line := fmt.Sprintf("x-anthropic-billing-header: cc_version=2.1.%d.%03x; cc_entrypoint=cli; cch=%05x;",
		d.nonce%7, d.nonce*2654435761%4096, d.nonce*40503%1048576)
	return []part{d.text(line, false), prompt}
}

func (d *draft) text(text string, marked bool) part {
	return marks(part{"type": "text", "text": text}, marked)
}

// marks adds a cache marker to a part.
func marks(p part, marked bool) part {
	if marked {
		p["cache_control"] = part{"type": "ephemeral"}
	}
	return p
}

// talk returns the messages behind the system prompt. In every second request the last question is marked, in others
// the last two. Ids are those of the call in an answer and of its result in the next question.
func (d *draft) talk(write func(i int, text, id string, marked bool) part) []part {
	var out []part
	for i := 1; i < len(d.prompt); i++ {
		marked := (i-1)/2 >= d.turn-int(d.nonce%2)
		out = append(out, write(i, d.prompt[i].Content, fmt.Sprintf("toolu_%x_%d", d.nonce, i/2), marked))
	}
	return out
}

// messages writes a message of Anthropic's API: an answer calls a tool, and a question has the result.
func (d *draft) messages(i int, text, id string, marked bool) part {
	switch {
	case d.prompt[i].Role == "assistant":
		call := part{"type": "tool_use", "id": id, "name": "tool_1", "input": part{"argument": i}}
		return part{"role": "assistant", "content": []part{d.text(text, false), call}}
	case i == 1:
		return part{"role": "user", "content": []part{d.text(text, marked)}}
	}
	result := part{"type": "tool_result", "tool_use_id": id, "content": []part{d.text(text, false)}}
	return part{"role": "user", "content": []part{marks(result, marked)}}
}

// chat writes a message of chat completions. The text of one that is marked is a list with one part, else a string.
// Sessions with pictures call no tools.
func (d *draft) chat(i int, text, id string, marked bool) part {
	m := part{"role": d.prompt[i].Role, "content": text}
	calls := d.session.kind != pictures
	switch picture := d.session.pictures[(i-1)/2]; {
	case d.prompt[i].Role == "assistant":
		if calls {
			function := part{"name": "tool_1", "arguments": fmt.Sprintf(`{"argument":%d}`, i)}
			m["tool_calls"] = []part{{"id": id, "type": "function", "function": function}}
		}
		return m
	case picture != "":
		image := part{"type": "image_url", "image_url": part{"url": picture}}
		m["content"] = []part{d.text(text, false), marks(image, marked)}
	case marked:
		m["content"] = []part{d.text(text, true)}
	}
	if i > 1 && calls {
		m["role"], m["tool_call_id"], m["name"] = "tool", id, fmt.Sprintf("call %d", d.nonce)
	}
	return m
}
