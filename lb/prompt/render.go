package prompt

import (
	"hash/maphash"

	"github.com/warmgate/warmgate/internal/jsontext"
)

// Chat templates print some members of a message, in an order of their own, and not the JSON around them. So the chain
// is made of the text of these members, in the order of a template: whatever the order of keys, however a text is
// spelled, and whether it is a string or the only part of a list.

// membersOf reads the members of the object that begins at i, in the order in which they are printed. The level of the
// object is to be left afterwards.
func (c *Chainer) membersOf(v []byte, i int, p place) (o object) {
	var list []objectMember
	if o.raw = c.level >= maxLevels; !o.raw {
		list = c.rooms[c.level][:]
	}
	c.level++
	n := 0
	for {
		for i++; i < len(v) && (v[i] == ',' || jsontext.IsSpace(v[i])); i++ {
		}
		if i >= len(v) || v[i] == '}' {
			o.open, o.end = i >= len(v), min(i+1, len(v))
			break
		}
		key, escaped, end := c.skipString(v, i)
		from := i + 1
		if i = jsontext.AfterKey(v, end); i < 0 || i == len(v) {
			o.open, o.end = true, len(v)
			break
		}
		if escaped && len(key) <= maxShortName {
			c.name = jsontext.AppendUnescaped(c.name[:0], key)
			key = c.name
		}
		m := objectMember{span{from, end - 1}, span{i, c.skipValue(v, i)}, c.rankOf(key, p)}
		i = m.value.to - 1
		if m.rank == unprinted || m.rank > rankRole && isNothing(v[m.value.from:m.value.to]) {
			continue
		}
		if n == len(list) {
			o.raw = true
			continue
		}
		at := n
		for ; at > 0 && list[at-1].after(&m, v); at-- {
			list[at] = list[at-1]
		}
		list[at] = m
		n++
	}
	o.list = list[:n]
	return o
}

// skipString is [jsontext.SkipString] for a string in the field that is being added.
func (c *Chainer) skipString(v []byte, i int) (content []byte, escaped bool, end int) {
	if end, escaped = c.long.find(c.fieldStart+i, &c.nextLong); end > 0 && end-c.fieldStart <= len(v) {
		end -= c.fieldStart
		return v[i+1 : end-1], escaped, end
	}
	return jsontext.SkipString(v, i)
}

// skipValue returns the index after the value that begins at i. What it reads counts as steps.
func (c *Chainer) skipValue(v []byte, i int) (end int) {
	for depth := 0; i < len(v); {
		switch v[i] {
		case ' ', '\n', '\t', '\r', ',', ':':
			i++
			continue
		case '"':
			_, _, i = c.skipString(v, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		default:
			i = jsontext.SkipScalar(v, i)
		}
		if c.cutter.steps++; depth == 0 {
			return i
		}
		if c.cutter.steps > maxSteps {
			return len(v)
		}
	}
	return len(v)
}

// addObject adds the object that begins at i, and returns the index after it.
func (c *Chainer) addObject(v []byte, i int, p place, cutOff bool) (end int) {
	o := c.membersOf(v, i, p)
	end = c.addMembers(v, i, &o, p, cutOff)
	c.level--
	return end
}

// addMembers adds the members of the object that begins at i. Of one that is cut off, only what every continuation
// begins with: the content of a message, as far as it is there.
func (c *Chainer) addMembers(v []byte, i int, o *object, p place, cutOff bool) (end int) {
	if o.raw {
		return c.addValue(v, i, false, cutOff)
	}
	for k := range o.list {
		m := &o.list[k]
		switch {
		case m.rank == rankRole: // it was added before
		case m.rank == rankContent:
			cut := cutOff && m.value.to == len(v)
			if c.addContent(v[:m.value.to], m.value.from, cut, 1); cut {
				return len(v)
			}
		case cutOff && o.open:
			return len(v)
		case m.rank == rankUnknown && o.hasRole && (o.find(rankContent).to > 0 || o.find(rankCalls).to > 0):
		case !o.hasRole || m.rank >= rankText && m.rank != rankType:
			c.addMember(v, m, p)
		}
	}
	if p != inMessage {
		c.cutter.addMark('}')
	}
	return o.end
}

// addMember adds a member, of which all is there.
func (c *Chainer) addMember(v []byte, m *objectMember, p place) {
	key, value := v[m.key.from:m.key.to], v[:m.value.to]
	if m.rank == rankMedia {
		c.addMedia(value, m.value.from)
		return
	}
	c.cutter.addQuoted('k', key, true)
	i := m.value.from
	switch {
	case m.rank == rankFunction && value[i] == '{':
		c.addObject(value, i, max(p, inTool), false)
	case m.rank == rankCalls && value[i] == '[':
		for i++; i < len(value); {
			if value[i] == '{' {
				i = c.addObject(value, i, inCall, false)
			} else {
				i++
			}
		}
	default:
		c.addValue(value, i, isMedia(key), false)
	}
}

// addContent adds the content of a message, or of a part of one, which begins at i: a text, or a list of parts. It
// returns the index after it. Where the chain is full, all of v from there on adds to its length.
func (c *Chainer) addContent(v []byte, i int, cutOff bool, depth int) (end int) {
	switch {
	case v[i] == '"':
		return c.addPartText(v, i, false, cutOff)
	case v[i] != '[' && v[i] != '{' && cutOff:
		return len(v) // a number or a literal, which may go on
	case v[i] != '[' || depth > maxNested:
		return c.addValue(v, i, false, cutOff)
	}
	for i++; i < len(v) && !c.cutter.full(); {
		switch b := v[i]; {
		case b == ']':
			return i + 1
		case b == ',' || jsontext.IsSpace(b):
			i++
		case b == '"':
			i = c.addPartText(v, i, false, cutOff)
		case b == '{':
			i = c.addPart(v, i, cutOff, depth)
		default:
			i = c.addValue(v, i, false, cutOff)
		}
	}
	if i < len(v) {
		c.cutter.length += jsontext.UnescapedLen(v[i:])
	}
	return len(v)
}

// addPart adds the part of a message that begins at i, and returns the index after it.
func (c *Chainer) addPart(v []byte, i int, cutOff bool, depth int) (end int) {
	o := c.membersOf(v, i, inPart)
	end = c.addPartOf(v, i, &o, cutOff, depth)
	c.level--
	return end
}

// addPartOf adds a part whose members are known.
func (c *Chainer) addPartOf(v []byte, i int, o *object, cutOff bool, depth int) (end int) {
	kind, text := o.find(rankType), o.find(rankText)
	switch {
	case o.raw:
		return c.addValue(v, i, false, cutOff)
	case cutOff && o.open && (kind.to == 0 || kind.to == len(v)):
		return len(v) // what it is may follow
	case text.to > 0 && v[text.from] == '"' &&
		(kind.to == 0 || isIn(textTypes[:], unquoted(v[kind.from:kind.to]))):
		c.addPartText(v, text.from, true, cutOff)
		return o.end
	case cutOff && o.open:
		return len(v)
	case kind.to > 0 && isMediaType(unquoted(v[kind.from:kind.to])) || kind.to == 0 && o.find(rankMedia).to > 0:
		c.addMedia(v[:o.end], i)
		return o.end
	}
	if len(o.list) == 0 || text.to == 0 && isIn(textTypes[:], unquoted(v[kind.from:kind.to])) {
		return o.end // a marker, or an empty text
	}
	c.cutter.addMark('{')
	for k := range o.list {
		m := &o.list[k]
		if m.rank == rankContent {
			c.addContent(v[:m.value.to], m.value.from, false, depth+1)
		} else {
			c.addMember(v, m, inPart)
		}
	}
	c.cutter.addMark('}')
	return o.end
}

// unquoted returns a value without the quotes of a string.
//
//go:noinline
func unquoted(value []byte) []byte {
	if n := len(value); n >= 2 && value[0] == '"' {
		return value[1 : n-1]
	}
	return value
}

// addPartText adds the text of a message that begins at i, or of a block of one, and returns the index after it. A
// block that engines leave out is none; neither is a short first text, if it is to be skipped: see [Chainer.Chain].
func (c *Chainer) addPartText(v []byte, i int, block, cutOff bool) (end int) {
	content, escaped, end := c.skipString(v, i)
	cut := cutOff && end == len(v)
	switch {
	case cut && len(content) == 0:
		return end // perhaps there is no more of it
	case isDataURL(content):
		if !cut {
			c.addPicture(content, escaped)
		}
		return end
	case block && (c.field == fieldSystem || c.system && c.hasSystem) && isDropped(content):
		return end
	}
	c.texts++
	switch {
	case c.texts > 1:
		c.addBehind(content)
	case len(content) > MaxFirst:
	case cut:
		c.texts--
		return end
	default:
		if c.first.Text = maphash.Bytes(c.seed, content); c.skipFirst {
			return end
		}
	}
	c.cutter.addQuoted('"', content, escaped)
	return end
}

// addBehind notes a text behind the first one, until they are as much as has to be the same. Several have to be of the
// system prompt.
//
//go:noinline
func (c *Chainer) addBehind(content []byte) {
	b := &c.behind
	if b.known {
		return
	}
	b.bytes += len(content)
	b.digest = b.digest*31 + maphash.Bytes(c.seed, content[:min(len(content), maxBehind)])
	ofSystem := c.system || c.field == fieldSystem || c.field == fieldInstructions
	switch {
	case b.bytes >= minBehind && (c.texts == 2 || ofSystem):
		b.known, c.first.Behind = true, b.digest
	case c.texts > maxBehindTexts || !ofSystem:
		if b.known = true; c.skipFirst && c.first.Text != 0 {
			c.cutter.steps = maxSteps + 1 // the chain begins again, with the first text
		}
	}
}
