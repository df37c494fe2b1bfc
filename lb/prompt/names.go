package prompt

// addNames adds the names that the body, and the path, contain. It returns false if the body ends within one of them.
func (c *Chainer) addNames(body []byte, p *Parts) bool {
	c.printsIDs = p.inPath != "" && printsIDs([]byte(p.inPath))
	for i, f := range nameFields {
		if f == p.cutField {
			return false
		}
		name := p.of(body, f)
		if len(name) == 0 && i >= commonNames {
			continue
		}
		if f == fieldParameters {
			if text, _ := MemberText(name, []string{adapterID}); text != "" {
				c.cutter.addRareName(f, []byte(text))
			}
			continue
		}
		if isNothing(name) {
			name = nil
		}
		if len(name) <= maxModelName {
			c.name = nameIn(c.name[:0], name)
			name = c.name
		}
		if f == fieldModel {
			c.printsIDs = c.printsIDs || printsIDs(name)
		}
		switch {
		case i < commonNames:
			c.cutter.addName(name)
		case len(name) > 0:
			c.cutter.addRareName(f, name)
		}
	}
	if p.inPath != "" {
		c.cutter.addRareName(fieldModel, []byte(p.inPath))
	}
	return true
}
