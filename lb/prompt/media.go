package prompt

import "bytes"

// isMedia tells whether a key inside the prompt stands for something that the model does not read as text: an image,
// a sound or a file by its data or address, or a word of the protocol.
func isMedia(key []byte) bool {
	switch string(key) {
	case "url", "data", "image", "images", "image_url", "audio", "audio_url", "video_url", "file_url", "file_data",
		"file_id", "b64_json", "media_type", "format", "detail", "type", "id", "call_id", "tool_call_id", "tool_use_id":
		return true
	}
	return false
}

// isMediaContent says whether a key inside the prompt stands for media themselves: what the model reads then are tokens of
// which the bytes say nothing.
func isMediaContent(key []byte) bool {
	switch string(key) {
	case "image", "images", "image_url", "input_audio", "audio", "audio_url", "video", "videos", "video_url", "file_url",
		"file_data", "file_id", "b64_json", "media_type", "inlineData", "inline_data", "fileData":
		return true
	}
	return false
}

// isMediaField says whether a field of the request holds media, in the engines' own APIs.
func isMediaField(name []byte) bool {
	switch string(name) {
	case "image_data", "audio_data", "video_data", "multi_modal_data":
		return true
	}
	return false
}

// isMediaType says whether a part of a message with that type holds media.
func isMediaType(kind []byte) bool {
	switch string(kind) {
	case "image", "image_url", "input_image", "audio", "audio_url", "input_audio", "video", "video_url", "file",
		"input_file", "document":
		return true
	}
	return false
}

// isDataURL recognises media that are written out inside a string.
func isDataURL(s []byte) bool {
	const longestType = 128 // bytes of type and parameters in front of the data
	return bytes.HasPrefix(s, []byte("data:")) && bytes.Contains(s[:min(len(s), longestType)], []byte(";base64,"))
}

// noteMedia is called for a string or an object: if it is the value of a key of media, or in a list that is, there are
// media.
func (s *scanner) noteMedia() {
	s.info.Media = s.info.Media || s.mediaKey
	s.mediaKey = false
}
