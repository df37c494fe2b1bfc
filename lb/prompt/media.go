package prompt

import (
	"bytes"
	"unicode/utf8"

	"github.com/warmgate/warmgate/internal/jsontext"
)

// keyKind is what is known of a key inside a prompt.
type keyKind uint16

const (
	keyNotText  keyKind = 1 << iota // its value is not read by the model as text: media, or a keyword of the API
	keyContent                      // it is for media themselves, whose tokens do not follow from their bytes
	keyPicture                      // its value may be media or their address
	keyID                           // of a call of a tool, or of something else
	keyHidden                       // its value does not reach the model
	keyRole                         // who a message is from
	keyTalk                         // content of a message or of a part of it
	keyText                         // the text of a part
	keyName                         // of a tool, or of who a message is from
	keyFunction                     // a tool, or a call of one
	keyCalls                        // several
	keyType                         // of a part, an item or a tool
	keyPrinted                      // engines give it to the template of a message
)

// keyKinds are the keys of which something is known. It is a table, not a switch, for the size of the artifacts; keys
// of every message come first.
var keyKinds = [...]struct {
	name string
	kind keyKind
}{
	{"role", keyRole},
	{"content", keyTalk},
	{"type", keyNotText | keyType},
	{"text", keyText},
	{"parts", keyTalk},
	{"output", keyTalk},
	{"name", keyName},
	{"function", keyFunction},
	{"function_call", keyFunction},
	{"tool_calls", keyCalls},
	{"url", keyNotText | keyPicture},
	{"uri", keyPicture},
	{"fileUri", keyPicture},
	{"file_uri", keyPicture},
	{"data", keyNotText | keyPicture},
	{"image", keyNotText | keyContent | keyPicture},
	{"images", keyNotText | keyContent | keyPicture},
	{"image_url", keyNotText | keyContent | keyPicture},
	{"image_data", keyNotText | keyContent | keyPicture},
	{"audio_data", keyNotText | keyContent | keyPicture},
	{"video_data", keyNotText | keyContent | keyPicture},
	{"multimodal_data", keyNotText | keyContent | keyPicture}, // in a prompt of llama.cpp
	{"audio", keyNotText | keyContent | keyPicture},
	{"audio_url", keyNotText | keyContent | keyPicture},
	{"video", keyNotText | keyContent | keyPicture},
	{"videos", keyNotText | keyContent | keyPicture},
	{"video_url", keyNotText | keyContent | keyPicture},
	{"file_url", keyNotText | keyContent | keyPicture},
	{"file_data", keyNotText | keyContent | keyPicture},
	{"file_id", keyNotText | keyContent | keyPicture},
	{"b64_json", keyNotText | keyContent | keyPicture},
	{"input_audio", keyContent},
	{"inlineData", keyContent},
	{"inline_data", keyContent},
	{"fileData", keyContent},
	{"media_type", keyNotText | keyContent},
	{"mimeType", keyNotText},
	{"mime_type", keyNotText},
	{"format", keyNotText},
	{"id", keyNotText | keyID},
	{"call_id", keyNotText | keyID},
	{"tool_call_id", keyNotText | keyID},
	{"tool_use_id", keyNotText | keyID},
	{"reasoning_content", keyPrinted}, // vLLM, SGLang, llama.cpp
	{"reasoning", keyPrinted},
	{"thinking", keyPrinted}, // Ollama
	{"tool_name", keyPrinted},
	{"tool_plan", keyPrinted}, // Cohere
	{"tools", keyPrinted},     // vLLM, of a developer
	{"channel", keyPrinted},   // OpenAI's gpt-oss
	{"recipient", keyPrinted},
	{"cache_control", keyHidden}, // Anthropic
	{"cacheControl", keyHidden},  // what some clients make of it
	{"cachePoint", keyHidden},    // Amazon Bedrock
	{"cache_point", keyHidden},
	{"providerOptions", keyHidden}, // Vercel's AI SDK
	{"citations", keyHidden},
	{"signature", keyHidden},
	{"refusal", keyHidden}, // OpenAI
	{"annotations", keyHidden},
	{"logprobs", keyHidden},
	{"status", keyHidden},
	{"encrypted_content", keyHidden},
}

// kindOfKey returns what is known of a key, 0 for nothing. Like isIn it is not inlined, for the size of the artifacts.
//
//go:noinline
func kindOfKey(key []byte) keyKind {
	for i := range keyKinds {
		if k := &keyKinds[i]; len(k.name) == len(key) && k.name == string(key) {
			return k.kind
		}
	}
	return 0
}

// isMedia reports whether the value of a key inside the prompt is not read by the model as text: an image, a sound or a
// file by its data or address, or a keyword of the API.
func isMedia(key []byte) bool { return kindOfKey(key)&keyNotText != 0 }

// mediaTypes and textTypes are types of parts of messages that contain media, and that are texts.
var (
	mediaTypes = [...]string{
		"image", "image_url", "input_image", "audio", "audio_url", "input_audio", "video", "video_url", "file",
		"input_file", "document",
	}
	textTypes = [...]string{"text", "input_text", "output_text"}
)

// isMediaType reports whether a part of a message with that type contains media.
func isMediaType(kind []byte) bool { return isIn(mediaTypes[:], kind) }

// isIn reports whether a name is one of several.
//
//go:noinline
func isIn(names []string, name []byte) bool {
	for _, n := range names {
		if n == string(name) {
			return true
		}
	}
	return false
}

// addMedia adds the media in the value that begins at i, and what is said of them: which pages, how many pixels, or the
// text of a document. How they are sent is left out.
func (c *Chainer) addMedia(v []byte, i int) {
	var key []byte
	kind := keyPicture
	for depth := 0; i < len(v) && !c.full(); c.steps++ {
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
			c.addQuoted('k', key, true)
			c.addValue(v[:end], i, false, false)
		}
		i = end
	}
	c.length += jsontext.UnescapedLen(v[i:])
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
		c.addQuoted('"', content, escaped)
		return
	}
	c.endBeside(c.size/4, 0)
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
	c.addMark('d')
	c.add(c.mediaHash.Sum(c.small[:0]))
	c.countMedia(size)
	c.endBeside(1, reservedBudget)
}

// isProse reports whether a text is neither data nor an address, by how it begins.
func isProse(text []byte) bool {
	for _, b := range text[:min(len(text), maxShortName)] {
		if b == '/' {
			return false
		}
		if b <= ' ' || b >= utf8.RuneSelf {
			return !isDataURL(text)
		}
	}
	return false
}

// endBeside ends the block beside a picture if it is long enough and leaves enough of the budget.
//
//go:noinline
func (c *Chainer) endBeside(enough, budget int) {
	if !c.full() && c.length-c.blockStart >= enough && c.budgetAfter() >= budget {
		c.endBlock()
	}
}

// isDataURL reports whether a string is a data URL with base64 content.
func isDataURL(s []byte) bool {
	const longestType = 128 // bytes of type and parameters before the data
	return bytes.HasPrefix(s, []byte("data:")) && bytes.Contains(s[:min(len(s), longestType)], []byte(";base64,"))
}

// noteMedia is called for a string or an object. There are media if it is the value of a media key, or in a list that
// is.
func (s *scanner) noteMedia() {
	s.info.Media = s.info.Media || s.mediaKey
	s.mediaKey = false
}
