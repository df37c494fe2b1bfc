package prompt

import "bytes"

// findUsage returns where in an event or answer the object with its usage begins, -1 if it has none. It goes backwards from
// the end.
func (r *UsageReader) findUsage(text []byte) int {
	text = bytes.TrimRight(text, " \t\r\n")
	p := usageSearch{text: text, found: -1, nested: -1, top: 1, events: r.form == formEvents}
	if bytes.HasSuffix(text, []byte("]")) {
		p.top = 2
	}
	for i, depth := len(text)-1, 0; i >= 0; i-- {
		switch text[i] {
		case '}', ']':
			depth++
		case '{', '[':
			if depth--; depth > 0 {
				continue
			}
			if !startsPart(text[:i]) {
				return -1 // it is broken off
			}
			return p.found
		case '"':
			begin := openingQuote(text[:i], r.cut)
			if begin >= 0 {
				p.key(begin, i, depth)
			}
			i = begin
		}
	}
	switch {
	case !r.cut:
		return -1 // it is broken off
	case p.found < 0 && p.events:
		return p.nested // in an event with so much in it the name of what it is in was left out
	}
	return p.found
}

// usageSearch is what was found on the way.
type usageSearch struct {
	text   []byte
	top    int  // how deep the members of the answer are
	events bool // it is an event
	found  int  // where the usage begins, -1 before that is known
	nested int  // where a usage begins that counts if what it is in is the event's response or message, -1 for none
}

// key takes the string in the given place, from quote to quote, if it is a key with an object behind it.
func (p *usageSearch) key(begin, end, depth int) {
	if depth < p.top || depth > p.top+1 || !isKey(p.text, end+1) {
		return
	}
	name, object := p.text[begin+1:end], objectBehind(p.text, end+1)
	if depth > p.top {
		if object >= 0 && p.nested < 0 && string(name) == "usage" {
			p.nested = object
		}
		return
	}
	inner := p.nested
	p.nested = -1
	if p.found >= 0 || object < 0 {
		return
	}
	switch string(name) {
	case "usage", "meta_info", "usageMetadata":
		p.found = object
	case "response", "message":
		if p.events {
			p.found = inner
		}
	}
}

// startsPart says whether a value that has text in front of it is an event or an answer, and not a part of one: the field
// of the event's line is there, or nothing, or an answer before it.
func startsPart(before []byte) bool {
	before = bytes.TrimRight(before, " \t\r\n")
	if len(before) == 0 || bytes.HasSuffix(before, []byte("data:")) {
		return true
	}
	last := before[len(before)-1]
	return last == '}' || last == ']'
}

// objectBehind returns where the object begins that is the value of the key that ends at i, -1 if the value is
// something else.
func objectBehind(text []byte, i int) int {
	for ; i < len(text); i++ {
		switch {
		case text[i] == '{':
			return i
		case text[i] != ':' && !isSpace(text[i]):
			return -1
		}
	}
	return -1
}

// openingQuote returns where the string begins whose closing quote is behind the text, -1 if the text does not tell because
// its own beginning was cut off.
func openingQuote(text []byte, cut bool) int {
	for {
		quote := bytes.LastIndexByte(text, '"')
		if quote < 0 {
			return -1
		}
		first := quote // of the backslashes in front of it
		for first > 0 && text[first-1] == '\\' {
			first--
		}
		switch {
		case first == 0 && cut:
			return -1
		case (quote-first)%2 == 0:
			return quote
		}
		text = text[:quote]
	}
}
