package prompt

import "encoding/binary"

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
				c.addRareName(f, []byte(text))
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
			c.addName(name)
		case len(name) > 0:
			c.addRareName(f, name)
		}
	}
	if p.inPath != "" {
		c.addRareName(fieldModel, []byte(p.inPath))
	}
	return true
}

// addRareName adds a name that few prompts have.
func (c *Chainer) addRareName(f field, name []byte) {
	c.addName([]byte{byte(f)})
	c.addName(name)
}

// addName adds a name that all keys depend on.
func (c *Chainer) addName(name []byte) {
	c.hash.Write(binary.LittleEndian.AppendUint64(c.small[:0], uint64(len(name))))
	c.hash.Write(name)
}
