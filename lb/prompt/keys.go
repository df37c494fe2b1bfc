package prompt

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
