package prompt

import "github.com/warmgate/warmgate/internal/jsontext"

// addList adds the value of a field. The elements of a list are messages, unless they are tokens. Of a value that is
// cut off, only what every continuation begins with is added.
func (c *Chainer) addList(f field, v []byte, cutOff bool) {
	c.field = f
	if f == fieldInput && v[0] == '"' {
		c.addQuestion(v, cutOff)
		return
	}
	if v[0] != '[' || f == fieldSystem {
		switch {
		case f == fieldSystem && v[0] == '{':
			c.addObject(v, 0, inMessage, cutOff)
		case isTalk(f):
			c.addContent(v, 0, cutOff, 0)
		default:
			c.addValue(v, 0, false, cutOff)
		}
		if !cutOff {
			c.cutter.endMessage()
		}
		return
	}
	c.questionLast, c.answerBlock = false, -1
	for i := 1; i < len(v); {
		if jsontext.IsSpace(v[i]) || v[i] == ',' || v[i] == ']' {
			i++
			continue
		}
		if c.cutter.full() {
			c.cutter.length += jsontext.UnescapedLen(v[i:])
			return
		}
		if v[i]-'0' <= 9 {
			i = c.addScalar(v, i)
			continue
		}
		var complete bool
		if i, complete = c.addMessage(f, v, i, cutOff); complete {
			c.cutter.endMessage()
		}
	}
	if !cutOff {
		c.endQuestion()
		c.cutter.addMark(']')
	}
}

// addQuestion adds a text as the list with the message that it stands for.
func (c *Chainer) addQuestion(v []byte, cutOff bool) {
	c.answerBlock = -1
	c.cutter.addMark('r')
	c.cutter.addQuoted('"', []byte("user"), false)
	if c.addContent(v, 0, cutOff, 0); !cutOff {
		c.cutter.endMessage()
		c.questionLast = true
		c.endQuestion()
		c.cutter.addMark(']')
	}
}

// addMessage adds the element of a list that begins at i: the role first, which templates print before the content. It
// returns the index after it, and whether it was a complete message and not a token.
func (c *Chainer) addMessage(f field, v []byte, i int, cutOff bool) (end int, complete bool) {
	switch {
	case v[i] != '{':
		c.questionLast, c.answerBlock = false, -1
		end = c.addValue(v, i, false, cutOff)
		return end, !(cutOff && end == len(v)) && (v[i] == '"' || v[i] == '[')
	case f == fieldTools:
		end = c.addObject(v, i, inTool, cutOff)
		return end, !(cutOff && end == len(v))
	case !isTalk(f):
		end = c.addValue(v, i, false, cutOff)
		return end, !(cutOff && end == len(v))
	}
	o := c.membersOf(v, i, inMessage)
	end, complete = c.addMessageOf(f, v, i, &o, cutOff)
	c.level--
	return end, complete
}

// addMessageOf adds a message whose members are known.
func (c *Chainer) addMessageOf(f field, v []byte, i int, o *object, cutOff bool) (end int, complete bool) {
	role := o.find(rankRole)
	if cutOff && (role.to == len(v) || o.open && role.to == 0) {
		return len(v), false // the role, or the rest of it, may follow
	}
	by := c.speakerOf(f, v, o, role)
	if by == byModel {
		c.endQuestion()
	} else {
		c.answerBlock = -1
	}
	c.system = by == bySystem && role.to > 0
	c.cutter.addMark('r')
	if o.hasRole = role.to > 0; o.hasRole {
		c.addValue(v[:role.to], role.from, false, false)
	}
	end = c.addMembers(v, i, o, inMessage, cutOff)
	c.system = false
	if by == byModel {
		c.endAnswer()
	}
	c.questionLast = by == byUser
	return end, !(cutOff && end == len(v))
}

// endQuestion ends the block with the latest message if that is one that a model answers: the answer begins here, in
// this request or in the next.
func (c *Chainer) endQuestion() {
	if !c.questionLast || c.cutter.full() {
		return
	}
	if c.cutter.length > c.cutter.blockStart && c.cutter.budgetAfter() >= 0 {
		c.cutter.endBlock()
	}
	if c.cutter.length == c.cutter.blockStart {
		c.answerBlock = len(c.cutter.blocks) - 1
	}
}

// endAnswer counts the answer as cached with its question.
func (c *Chainer) endAnswer() {
	if c.answerBlock < 0 || c.cutter.full() {
		return
	}
	for i := range c.cutter.blocks[c.answerBlock:] {
		c.cutter.blocks[c.answerBlock+i].End = c.cutter.end()
	}
}

// speaker is who a message is from.
type speaker uint8

const (
	bySystem speaker = iota // instructs the model, or the element is not a message
	byUser                  // a user or a tool, which the model answers
	byModel
)

// speakerOf returns who a message is from, by its role.
func (c *Chainer) speakerOf(f field, v []byte, o *object, role span) speaker {
	if role.to == 0 {
		if f == fieldInput {
			return speakerOfItem(v, o)
		}
		return bySystem
	}
	name := v[role.from:role.to]
	if len(name) <= maxShortName {
		c.name = nameIn(c.name[:0], name)
		name = c.name
	}
	switch string(name) {
	case "assistant", "model":
		return byModel
	case "system", "developer":
		return bySystem
	}
	return byUser
}

// speakerOfItem returns who an item of the responses API without a role is from: it is the output of a tool, or what a
// model does before it answers. Of an item that is only known by its id, that is added.
func speakerOfItem(v []byte, o *object) speaker {
	kind := o.find(rankType)
	switch name := v[kind.from:kind.to]; {
	case len(name) == 0:
		o.raw = o.raw || len(o.list) == 0
		return bySystem
	case contains(name, `output"`):
		return byUser
	case contains(name, `reference"`):
		o.raw = true
	}
	return byModel
}

// addValue adds the value that begins at i, without white space; media: that of a key which is not for text. It returns
// the index after the value. The value is valid JSON, but may be cut off.
func (c *Chainer) addValue(v []byte, i int, media, cutOff bool) (end int) {
	depth, last := 0, byte(':')
	for i < len(v) {
		if c.cutter.full() {
			c.cutter.length += jsontext.UnescapedLen(v[i:])
			return len(v)
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
			c.cutter.addMark(b)
			media = false
			depth++
			i++
		case '}', ']':
			c.cutter.addMark(b)
			media = false
			depth--
			i++
		case '"':
			content, escaped, end := c.skipString(v, i)
			if cutOff && end == len(v) && (last == '{' || last == ',' || media || isDataURL(content)) {
				return end // may be a key, or the beginning of something that is digested
			}
			media = c.addString(content, escaped, media, jsontext.IsKey(v, end))
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

// addScalar adds the number or literal that begins at i and returns the index after it.
func (c *Chainer) addScalar(v []byte, i int) (end int) {
	end = jsontext.SkipScalar(v, i)
	c.cutter.addMark('#')
	c.cutter.steps += scalarSteps - markSteps
	c.cutter.add(v[i:end])
	return end
}

// addString adds a string. Media means that it is the value of a key that is not for text. The result is whether it is
// such a key, or whether the next string is not text either.
func (c *Chainer) addString(content []byte, escaped, media, key bool) bool {
	switch {
	case key:
		c.cutter.addQuoted('k', content, escaped)
		return isMedia(content)
	case len(content) > maxShortName && (media || isDataURL(content)):
		c.addPicture(content, escaped)
	default:
		c.cutter.addQuoted('"', content, escaped)
	}
	return media
}
