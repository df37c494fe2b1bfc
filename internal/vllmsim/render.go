package vllmsim

import (
	"encoding/binary"
	"errors"
	"strings"

	"github.com/warmgate/warmgate/internal/enginesim"

	"github.com/cespare/xxhash/v2"
	"github.com/tidwall/gjson"
)

// chatParts are the members of a body that a chat template prints, wherever they stand in it.
type chatParts struct {
	tools, system, messages gjson.Result
}

// take keeps a member if a template prints it.
func (p *chatParts) take(key string, v gjson.Result) {
	switch key {
	case "tools":
		p.tools = v
	case "system", "instructions":
		p.system = v
	case "messages", "input":
		p.messages = v
	}
}

// render applies a plain chat template: the tools, if there are any, then "role: content" a line, then "assistant: ". A
// system prompt beside the messages comes first. Ids of tool calls, names of authors and cache markers are not printed.
// lead is where the messages begin.
func (p *chatParts) render() (b []byte, lead int, err error) {
	one := p.messages.Type == gjson.String // as the Responses API has it
	if !one && (!p.messages.IsArray() || len(p.messages.Raw) < len(`[{}]`)) {
		return nil, 0, errors.New("messages must be a non-empty array")
	}
	b = make([]byte, 0, len(p.tools.Raw)+len(p.system.Raw)+len(p.messages.Raw)+32)
	if p.tools.IsArray() {
		b = append(append(append(b, "tools: "...), p.tools.Raw...), '\n')
	}
	if p.system.Exists() {
		b = append(appendMessage(b, "system", p.system), '\n')
	}
	lead = len(b)
	if one {
		b = append(appendMessage(b, "user", p.messages), '\n')
	} else {
		p.messages.ForEach(func(_, m gjson.Result) bool {
			b = appendMessage(b, m.Get("role").Str, m.Get("content"))
			for _, call := range m.Get("tool_calls").Array() {
				b = append(append(b, call.Get("function.name").Str...), call.Get("function.arguments").String()...)
			}
			b = append(b, '\n')
			return true
		})
	}
	return append(b, "assistant: "...), lead, nil
}

func appendMessage(b []byte, role string, content gjson.Result) []byte {
	return appendContent(append(append(b, role...), ": "...), content, role == "system")
}

// metadataLine begins the text that engines with Anthropic's API leave out of a system prompt: a client's word about
// itself, which changes in every request.
const metadataLine = "x-anthropic-billing-header"

// appendContent appends a message's text, which may be divided into parts. Parts that are neither texts, nor pictures,
// nor calls of tools and their results, are appended as JSON, so that different ones make different prompts.
func appendContent(b []byte, content gjson.Result, system bool) []byte {
	if !content.IsArray() {
		return appendText(b, content.String(), system)
	}
	content.ForEach(func(_, part gjson.Result) bool {
		text, kind := part.Get("text"), part.Get("type").Str
		switch picture := pictureOf(kind, part); {
		case text.Type == gjson.String:
			b = appendText(b, text.Str, system)
		case picture != "":
			b = appendPicture(b, picture)
		case kind == "tool_use":
			b = append(append(b, part.Get("name").Str...), part.Get("input").Raw...)
		case kind == "tool_result":
			b = appendContent(b, part.Get("content"), false)
		default:
			b = append(b, part.Raw...)
		}
		return true
	})
	return b
}

func appendText(b []byte, text string, system bool) []byte {
	if system && strings.HasPrefix(text, metadataLine) {
		return b
	}
	return append(b, text...)
}

// pictureTokens is how many tokens a picture has, whatever its bytes.
const pictureTokens = 1105

// pictureOf returns what identifies the picture of a part, its data or address; "" for another part.
func pictureOf(kind string, part gjson.Result) string {
	if !strings.Contains(kind, "image") {
		return ""
	}
	for _, path := range []string{"image_url.url", "image_url", "source.data", "source.url"} {
		if v := part.Get(path); v.Type == gjson.String {
			if _, data, ok := strings.Cut(v.Str, ";base64,"); ok {
				return data
			}
			return v.Str
		}
	}
	return ""
}

// appendPicture appends the tokens of a picture: others than those of any other picture.
func appendPicture(b []byte, picture string) []byte {
	seed := xxhash.Sum64String(picture)
	for i := range uint64(pictureTokens) {
		b = binary.LittleEndian.AppendUint32(b, uint32(enginesim.Mix(seed+i)))
	}
	return b
}
