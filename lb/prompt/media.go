package prompt

import "github.com/warmgate/warmgate/internal/jsontext"

// addMedia adds the media in the value that begins at i, and what is said of them: which pages, how many pixels, or the
// text of a document. How they are sent is left out.
func (c *Chainer) addMedia(v []byte, i int) {
	var key []byte
	kind := keyPicture
	for depth := 0; i < len(v) && !c.cutter.full(); c.cutter.steps++ {
		switch b := v[i]; {
		case b == '{' || b == '[':
			depth++
			i++
			continue
		case b == '}' || b == ']':
			if depth--; depth == 0 {
				return
			}
			i++
			continue
		case b == ',' || jsontext.IsSpace(b):
			i++
			continue
		}
		end := c.skipValue(v, i)
		at := jsontext.AfterKey(v, end)
		switch {
		case at >= 0:
			key, end = v[i+1:end-1], at
			if kind = kindOfKey(key); kind&keyHidden != 0 {
				end = c.skipValue(v, at)
			}
		case kind&keyPicture != 0:
			if v[i] == '"' {
				content, escaped, _ := c.skipString(v, i)
				c.addPicture(content, escaped)
			}
		case kind&(keyNotText|keyID) != keyNotText && v[i] != 'n' && string(v[i:end]) != `"auto"`:
			c.cutter.addQuoted('k', key, true)
			c.addValue(v[:end], i, false, false)
		}
		i = end
	}
	c.cutter.length += jsontext.UnescapedLen(v[i:])
}

// addPicture adds a digest in place of an image or a sound, or of its address. Its bytes are the same with and without
// the beginning of a data URL; of a long one they are a digest, as in a [LongBody]. A block ends in front of it and
// behind it: behind the same text may be another one, and behind that another text. What is neither data nor an address
// is a text.
func (c *Chainer) addPicture(content []byte, escaped bool) {
	plain := content
	if escaped {
		plain = jsontext.AppendUnescaped(nil, content)
	}
	if isProse(plain) {
		c.cutter.addQuoted('"', content, escaped)
		return
	}
	c.cutter.endBeside(c.cutter.size/4, 0)
	data := dataOf(content)
	size, known := sizeInText(data)
	if !known {
		var byLength bool
		if size, byLength = sizeIn(dataOf(content[:min(len(content), minPicture-1)])); byLength {
			size = sizeOf(len(data))
		}
	}
	if len(content) >= minPicture-1 {
		c.mediaHash.Reset()
		c.mediaHash.Write(data)
		plain = digestText(c.mediaHash, size)
	}
	for n := len(plain); n > 0 && plain[n-1] == '='; n-- {
		plain = plain[:n-1]
	}
	c.mediaHash.Reset()
	if data := dataOf(plain); len(data) < len(plain) {
		c.mediaHash.Write(data)
	} else {
		c.digestAddress(plain)
	}
	c.cutter.addMark('d')
	c.cutter.add(c.mediaHash.Sum(c.cutter.small[:0]))
	c.cutter.countMedia(size)
	c.cutter.endBeside(1, reservedBudget)
}

// digestAddress writes an address to the hash of media, without the parameters that sign it if it has a signature, or a
// sig, or is of a host that signs. Those that say how a picture is processed do not sign.
func (c *Chainer) digestAddress(url []byte) {
	var signing []string
	for path := true; len(url) > 0 && !c.cutter.full(); path = false {
		n := 1
		for n < len(url) && url[n] != '?' && url[n] != '&' {
			n++
		}
		if path {
			signing = signingOf(url[:n], url[n:])
		}
		if len(signing) == 0 || n > 1 && !isSigning(url[1:n], signing) {
			c.mediaHash.Write(url[:n])
		}
		url = url[n:]
		c.cutter.steps++
	}
}
