package prompt

import "bytes"

// Parts is where in a body the values of the fields are that a prompt is made of.
type Parts struct {
	spans    [fieldCount]span
	cutField field // in whose value the body has run out
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

// addList adds the value of a field. The elements of a list are messages, unless they are tokens. Of a value that is cut off, only
// what any continuation begins with is added.
func (c *Chainer) addList(f field, v []byte, cutOff bool) {
	if v[0] != '[' {
		c.addValue(v, 0, span{}, cutOff)
		if !cutOff {
			c.endMessage()
		}
		return
	}
	c.questionLast, c.answerBlock = false, -1
	for i := 1; i < len(v); {
		if isSpace(v[i]) || v[i] == ',' || v[i] == ']' {
			i++
			continue
		}
		if c.full() {
			c.length += plainLen(v[i:])
			return
		}
		if v[i]-'0' <= 9 {
			i = c.addScalar(v, i)
			continue
		}
		whole := false
		if i, whole = c.addMessage(f, v, i, cutOff); whole {
			c.endMessage()
		}
	}
	if !cutOff {
		c.endQuestion()
		c.addMark(']')
	}
}

// addMessage adds the element of a list that begins at i: the role first, which templates print before the content. It returns the
// place behind it, and whether that was all of a message, and no token.
func (c *Chainer) addMessage(f field, v []byte, i int, cutOff bool) (end int, whole bool) {
	if v[i] != '{' {
		c.questionLast, c.answerBlock = false, -1
		end = c.addValue(v, i, span{}, cutOff)
		return end, !(cutOff && end == len(v)) && (v[i] == '"' || v[i] == '[')
	}
	named, role, open := member(v, i, "role", &c.steps)
	if cutOff && (role.to == len(v) || open && (f == fieldMessages || f == fieldInput || f == fieldContents)) {
		return len(v), false // the role, or the rest of it, may still come
	}
	by := c.speakerOf(f, v, i, role)
	if by == answers {
		c.endQuestion()
	} else {
		c.answerBlock = -1
	}
	c.addMark('r')
	if role.to > 0 {
		c.addValue(v[:role.to], role.from, span{}, false)
	}
	end = c.addValue(v, i, named, cutOff)
	if by == answers {
		c.endAnswer()
	}
	c.questionLast = by == asks
	return end, !(cutOff && end == len(v))
}

// speaker is who a message is from.
type speaker uint8

const (
	instructs speaker = iota // one who instructs the model; or it is no message
	asks                     // a user or a tool, whom the model answers
	answers
)

// speakerOf tells who the message that begins at i is from by its role. The responses API has messages without one: they are
// what tools put out, or what a model does before it answers.
func (c *Chainer) speakerOf(f field, v []byte, i int, role span) speaker {
	if role.to == 0 {
		if f != fieldInput {
			return instructs
		}
		switch _, kind, _ := member(v, i, "type", &c.steps); {
		case kind.to == 0:
			return instructs
		case bytes.HasSuffix(v[kind.from:kind.to], []byte(`_output"`)):
			return asks
		}
		return answers
	}
	name := v[role.from:role.to]
	if len(name) <= maxPlainMedia {
		c.name = nameIn(c.name[:0], name)
		name = c.name
	}
	switch string(name) {
	case "assistant", "model":
		return answers
	case "system", "developer":
		return instructs
	}
	return asks
}

// addValue adds the value of any kind that begins at i, white space left out, and without what is in the given span: a member that
// was added before. It returns the place behind the value. What is there is valid JSON, but may be cut off.
func (c *Chainer) addValue(v []byte, i int, without span, cutOff bool) (end int) {
	media := false // the last key stands for something that is no text
	depth, last := 0, byte(':')
	for i < len(v) {
		if c.full() {
			c.length += plainLen(v[i:])
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
			c.addMark(b)
			media = false
			depth++
			i++
		case '}', ']':
			c.addMark(b)
			media = false
			depth--
			i++
		case '"':
			content, escaped, end := str(v, i)
			if cutOff && end == len(v) && (last == '{' || last == ',' || media || isDataURL(content)) {
				return end // it may be a key, or the beginning of something that is digested
			}
			media = c.addString(content, escaped, media, isKey(v, end))
			i = end
		default:
			i = c.addScalar(v, i)
		}
		if last = b; depth == 0 {
			return i
		}
	}
	return i
}

// addScalar adds the number or literal that begins at i and returns the place behind it.
func (c *Chainer) addScalar(v []byte, i int) (end int) {
	end = scalarEnd(v, i)
	c.addMark('#')
	c.steps += scalarSteps - markSteps
	c.add(v[i:end])
	return end
}

// addString adds a string. Media says that it is the value of a key that stands for something that is no text, and the result that it
// is such a key itself, or that the next string is no text either.
func (c *Chainer) addString(content []byte, escaped, media, key bool) bool {
	switch {
	case key:
		c.addMark('k')
		c.addText(content, escaped)
		return isMedia(content)
	case len(content) > maxPlainMedia && (media || isDataURL(content)):
		c.addDigest(content)
	default:
		c.addMark('"')
		c.addText(content, escaped)
	}
	return media
}

// maxPlainMedia is up to which length, in bytes, a URL or an id is added as it is.
const maxPlainMedia = 64

// addDigest adds a digest in the place of a picture or a sound: its length says nothing of the work that it is.
func (c *Chainer) addDigest(content []byte) {
	c.mediaHash.Reset()
	c.mediaHash.Write(content)
	c.addMark('d')
	c.add(c.mediaHash.Sum(c.small[:0]))
}
