package prompt

import (
	"bytes"

	"github.com/warmgate/warmgate/internal/jsontext"
)

// isMedia reports whether the value of a key inside the prompt is not read by the model as text: an image, a sound or a
// file by its data or address, or a keyword of the API.
func isMedia(key []byte) bool {
	switch string(key) {
	case "url", "data", "image", "images", "image_url", "audio", "audio_url", "video_url", "file_url", "file_data",
		"file_id", "b64_json", "media_type", "format", "detail", "type", "id", "call_id", "tool_call_id", "tool_use_id":
		return true
	}
	return false
}

// isMediaContent reports whether a key inside the prompt is for media themselves, whose tokens do not follow from their
// bytes.
func isMediaContent(key []byte) bool {
	switch string(key) {
	case "image", "images", "image_url", "input_audio", "audio", "audio_url", "video", "videos",
		"video_url", "file_url",
		"file_data", "file_id", "b64_json", "media_type", "inlineData", "inline_data", "fileData":
		return true
	}
	return false
}

// isMediaField reports whether a field of the request contains media, in the engines' own APIs.
func isMediaField(name []byte) bool {
	switch string(name) {
	case "image_data", "audio_data", "video_data", "multi_modal_data":
		return true
	}
	return false
}

// isMediaType reports whether a part of a message with that type contains media.
func isMediaType(kind []byte) bool {
	switch string(kind) {
	case "image", "image_url", "input_image", "audio", "audio_url", "input_audio", "video", "video_url", "file",
		"input_file", "document":
		return true
	}
	return false
}

// isPicture reports whether the value of a key in a part with media is the media itself, or its address.
func isPicture(key []byte) bool {
	switch string(key) {
	case "", "uri", "fileUri", "file_uri":
		return true
	case "media_type", "format", "detail", "type", "id", "call_id", "tool_call_id", "tool_use_id":
		return false
	}
	return isMedia(key)
}

// addMedia adds the media in the value that begins at i.
func (c *Chainer) addMedia(v []byte, i int) {
	var key []byte
	for depth := 0; i < len(v) && !c.full(); {
		switch v[i] {
		case '"':
			content, escaped, end := c.skipString(v, i)
			switch {
			case jsontext.IsKey(v, end):
				key = content
			case isPicture(key):
				c.addPicture(content, escaped)
			case string(key) == "detail" && string(content) != "auto": // it decides how many tokens a picture has
				c.addText(content, escaped)
			}
			i = end
		case '{', '[':
			depth++
			i++
		case '}', ']':
			if depth--; depth == 0 {
				return
			}
			i++
		default:
			i++
		}
		c.steps++
	}
}

// addPicture adds a digest in place of an image or a sound, or of its address. Its bytes are the same with and without
// the beginning of a data URL. A block ends in front of it and behind it: behind the
// same text may be another one, and behind that another text.
func (c *Chainer) addPicture(content []byte, escaped bool) {
	if c.length-c.blockStart >= c.size/4 && !c.full() && c.budgetAfter() >= 0 {
		c.endBlock()
	}
	if escaped {
		content = jsontext.AppendUnescaped(nil, content)
	}
	if isDataURL(content) {
		_, content, _ = bytes.Cut(content, []byte(";base64,"))
	} else {
		content = unsigned(content)
	}
	c.mediaHash.Reset()
	c.mediaHash.Write(bytes.TrimRight(content, "="))
	c.addMark('d')
	c.add(c.mediaHash.Sum(c.small[:0]))
	c.media++
	if !c.full() && c.length > c.blockStart && c.budgetAfter() >= reservedBudget {
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
