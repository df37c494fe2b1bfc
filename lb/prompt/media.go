package prompt

import "bytes"

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
