package prompt

import "bytes"

// Parts is where in a body the values of the fields are that a prompt is made of.
type Parts struct {
	spans [fieldCount]span
	last  field // in whose value the body has run out
}

type span struct{ from, to int }

// of returns the value of a field as it is written, empty if the body has none. The end of a body that has run out may cut
// it off.
func (p *Parts) of(body []byte, f field) []byte {
	s := p.spans[f]
	return body[s.from:s.to]
}

// Model returns the name of the model as the body writes it, empty if it names none.
func (p *Parts) Model(body []byte) []byte { return p.of(body, fieldModel) }

// ModelName returns the name of the model, "" if the body names none, or one that is too long to be any.
func (p *Parts) ModelName(body []byte) string {
	const longest = 1 << 10
	value := p.Model(body)
	if len(value) > longest {
		return ""
	}
	return string(nameIn(nil, value))
}

// nameFields say for whom a prompt is cached, and with what chat template: what a template prints by such options may stand at the
// beginning of a prompt.
var nameFields = [...]field{
	fieldModel, fieldLoraPath, fieldCacheSalt, fieldChatTemplate, fieldTemplateOptions, fieldReasoning, fieldReasoningEffort,
}

// nameIn appends what a value names to dst: the text of a string, anything else as it is written.
func nameIn(dst, value []byte) []byte {
	if len(value) == 0 || value[0] != '"' {
		return append(dst, value...)
	}
	content, _, _ := str(value, 0)
	return unescape(dst, content, len(content))
}

// textFields in the order in which chat templates print them, whatever the order in the body. What the server keeps of
// a conversation stands where it puts that.
var textFields = [...]field{
	fieldTools, fieldSystem, fieldInstructions, fieldPreviousResponse, fieldConversation, fieldMessages, fieldPrompt,
	fieldInput, fieldSuffix, fieldQuery, fieldDocuments, fieldText1, fieldText2, fieldText, fieldInputIDs, fieldInputs,
	fieldTextInput, fieldContents,
}

// list adds the value of a field. The elements of a list are messages, unless they are tokens. Of a value that is cut off, only
// what any continuation begins with is added.
func (c *Chainer) list(f field, v []byte, cutOff bool) {
	if v[0] != '[' {
		c.value(v, 0, span{}, cutOff)
		if !cutOff {
			c.endMessage()
		}
		return
	}
	c.asked, c.answer = false, -1
	for i := 1; i < len(v); {
		if isSpace(v[i]) || v[i] == ',' || v[i] == ']' {
			i++
			continue
		}
		if c.full() {
			c.at += plainLen(v[i:])
			return
		}
		if v[i]-'0' <= 9 {
			i = c.scalar(v, i)
			continue
		}
		whole := false
		if i, whole = c.message(f, v, i, cutOff); whole {
			c.endMessage()
		}
	}
	if !cutOff {
		c.endQuestion()
		c.mark(']')
	}
}

// message adds the element of a list that begins at i: the role first, which templates print before the content. It returns the
// place behind it, and whether that was all of a message, and no token.
func (c *Chainer) message(f field, v []byte, i int, cutOff bool) (end int, whole bool) {
	if v[i] != '{' {
		c.asked, c.answer = false, -1
		end = c.value(v, i, span{}, cutOff)
		return end, !(cutOff && end == len(v)) && (v[i] == '"' || v[i] == '[')
	}
	named, role, open := member(v, i, "role", &c.steps)
	if cutOff && (role.to == len(v) || open && (f == fieldMessages || f == fieldInput || f == fieldContents)) {
		return len(v), false // the role, or the rest of it, may still come
	}
	by := c.speakerOf(f, v, i, role)
	if by == model {
		c.endQuestion()
	} else {
		c.answer = -1
	}
	c.mark('r')
	if role.to > 0 {
		c.value(v[:role.to], role.from, span{}, false)
	}
	end = c.value(v, i, named, cutOff)
	if by == model {
		c.endAnswer()
	}
	c.asked = by == asker
	return end, !(cutOff && end == len(v))
}

// speaker is who a message is from.
type speaker uint8

const (
	other speaker = iota // one who instructs the model; or it is no message
	asker                // a user or a tool, whom the model answers
	model
)

// speakerOf tells who the message that begins at i is from by its role. The responses API has messages without one: they are
// what tools put out, or what a model does before it answers.
func (c *Chainer) speakerOf(f field, v []byte, i int, role span) speaker {
	if role.to == 0 {
		if f != fieldInput {
			return other
		}
		switch _, kind, _ := member(v, i, "type", &c.steps); {
		case kind.to == 0:
			return other
		case bytes.HasSuffix(v[kind.from:kind.to], []byte(`_output"`)):
			return asker
		}
		return model
	}
	name := v[role.from:role.to]
	if len(name) <= longestName {
		c.name = nameIn(c.name[:0], name)
		name = c.name
	}
	switch string(name) {
	case "assistant", "model":
		return model
	case "system", "developer":
		return other
	}
	return asker
}

// value adds the value of any kind that begins at i, white space left out, and without what is in the given span: a member that
// was added before. It returns the place behind the value. What is there is valid JSON, but may be cut off.
func (c *Chainer) value(v []byte, i int, without span, cutOff bool) (end int) {
	media := false // the last key stands for something that is no text
	depth, last := 0, byte(':')
	for i < len(v) {
		if c.full() {
			c.at += plainLen(v[i:])
			return len(v)
		}
		if i == without.from && i < without.to {
			i = without.to
			continue
		}
		b := v[i]
		switch b {
		case ' ', '\n', '\t', '\r':
			i++
			continue
		case ',', ':':
			i++
			last = b
			continue
		case '{', '[':
			c.mark(b)
			media = false
			depth++
			i++
		case '}', ']':
			c.mark(b)
			media = false
			depth--
			i++
		case '"':
			content, escaped, end := str(v, i)
			if cutOff && end == len(v) && (last == '{' || last == ',' || media || isDataURL(content)) {
				return end // it may be a key, or the beginning of something that is digested
			}
			media = c.str(content, escaped, media, isKey(v, end))
			i = end
		default:
			i = c.scalar(v, i)
		}
		if last = b; depth == 0 {
			return i
		}
	}
	return i
}

// scalar adds the number or literal that begins at i and returns the place behind it.
func (c *Chainer) scalar(v []byte, i int) (end int) {
	end = scalarEnd(v, i)
	c.mark('#')
	c.steps += stepScalar - stepMark
	c.add(v[i:end])
	return end
}

// str adds a string. Media says that it is the value of a key that stands for something that is no text, and the result that it
// is such a key itself, or that the next string is no text either.
func (c *Chainer) str(content []byte, escaped, media, key bool) bool {
	switch {
	case key:
		c.mark('k')
		c.text(content, escaped)
		return isMedia(content)
	case len(content) > longestName && (media || isDataURL(content)):
		c.digest(content)
	default:
		c.mark('"')
		c.text(content, escaped)
	}
	return media
}

// longestName is up to which length, in bytes, a URL or an id is added as it is.
const longestName = 64

// digest adds a digest in the place of a picture or a sound: its length says nothing of the work that it is.
func (c *Chainer) digest(content []byte) {
	c.media.Reset()
	c.media.Write(content)
	c.mark('d')
	c.add(c.media.Sum(c.small[:0]))
}
