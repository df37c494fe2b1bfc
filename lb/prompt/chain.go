package prompt

// Chain returns the blocks of the prompt in a body, whose fields are at p, and the length in bytes of the hashed
// prompt. Prompts of different namespaces, models, adapters or salts have no key in common. The blocks are valid until
// the next call. There are none if the body ends within one of these names.
func (c *Chainer) Chain(body []byte, p *Parts, namespace ...string) (blocks []Block, length int) {
again:
	c.cutter.hash.Reset()
	for _, name := range namespace {
		c.name = append(c.name[:0], name...)
		c.cutter.addName(c.name)
	}
	if !c.addNames(body, p) {
		return nil, 0
	}
	c.long.n, c.nextLong = copy(c.long.list[:], p.long.list[:p.long.n]), 0
	c.texts, c.first, c.behind, c.level = 0, First{}, behind{}, 0
	c.hasSystem = len(p.of(body, fieldSystem)) > 0
	c.cutter.begin()
	for _, f := range textFields {
		if value := p.of(body, f); len(value) > 0 {
			c.fieldStart = p.spans[f].from
			c.addField(f, value, f == p.cutField)
			if f == p.cutField {
				break // what follows in a prompt depends on where it was cut off
			}
		}
	}
	if c.skipFirst && c.first.Text != 0 && c.first.Behind == 0 {
		c.skipFirst = false
		goto again
	}
	return c.cutter.blocks, c.cutter.end()
}

// addField adds a field of the prompt, all of it or not.
func (c *Chainer) addField(f field, value []byte, cutOff bool) {
	switch {
	case !f.isMedia():
		c.cutter.addMark(markOf(f))
		c.cutter.oneText = isOneText(f) && value[0] == '"' && !cutOff
		c.addList(f, value, cutOff)
		c.cutter.oneText = false
	case !cutOff && !isNothing(value):
		c.cutter.addMark(markOf(f))
		c.addMedia(value, 0)
	}
}

// markOf returns the mark of a field. Those of the first fields are below all other marks.
func markOf(f field) byte {
	if f > fieldTools {
		return byte(f) | 0x80
	}
	return byte(f)
}
