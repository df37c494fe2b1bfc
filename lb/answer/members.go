package answer

// role is what a member of an event means by its place: what follows place is an object, or a list of objects, whose
// members have roles of their own.
type role = uint8

const (
	roleNone      role = iota
	roleText           // output, unless it is empty
	roleThought        // likewise, by which the model thinks
	roleThinks         // true where what is beside it is such output
	roleGenerated      // likewise, and the answer ends with it
	roleFinish         // why the answer ends, null before
	roleDone           // true at the end
	roleType           // of the event
	roleObject         // what kind of object it is
	roleStatus
	roleError
	roleCode // of a flat error
	roleUsage
	place
	placeTop
	placeChoice    // OpenAI: of choices
	placeCandidate // Gemini
	placeContent   // Gemini: content of a candidate
	placeParts     // Gemini: parts of that
	placeMessage   // OpenAI: message and delta; Anthropic: message and delta; Ollama: message
	placeBlock     // Anthropic: content_block; OpenAI: item, part
	placeResponse  // OpenAI: response of an event
	placeLogprobs
	placeMeta   // SGLang
	placeFinish // SGLang: why it ends, as an object
	placeFault  // an error

	ofAPI role = 1 << 7 // beside the role of a member of the event itself: it shows which API that is of
)

// word is a text, and what it means: a role, an eventName, or another number.
type word struct {
	text  string
	means uint8
}

// find returns what a text means, and whether that is known. Like others here it is not inlined, for the size of the
// artifacts.
//
//go:noinline
func find(words []word, text []byte) (means uint8, known bool) {
	for i := range words {
		if w := &words[i]; w.text == string(text) {
			return w.means, true
		}
	}
	return 0, false
}

// roles lists the roles of members by their place. Members that are not listed mean nothing. They are tables, because
// the code of switches would be ten times as large.
var roles = [...][]word{
	placeTop: {
		{"choices", placeChoice | ofAPI},
		{"delta", placeMessage},
		{"type", roleType},
		{"response", placeResponse},
		{"content_block", placeBlock},
		{"message", placeMessage},
		{"usage", roleUsage},
		{"object", roleObject},
		{"error", roleError},
		{"candidates", placeCandidate | ofAPI},
		{"item", placeBlock},
		{"part", placeBlock},
		{"content", roleText},
		{"reasoning_content", roleThought},
		{"thinking", roleThought},
		{"text", roleText},
		{"text_output", roleText | ofAPI},
		{"generated_text", roleGenerated | ofAPI},
		{"output", roleText},
		{"output_ids", roleText},
		{"token_ids", roleText},
		{"tokens", roleText},
		{"token", roleText | ofAPI},
		{"embedding", roleText},
		{"embeddings", roleText},
		{"data", roleText},
		{"results", roleText},
		{"b64_json", roleText},
		{"partial_image_b64", roleText},
		{"audio", roleText},
		{"transcript", roleText},
		{"arguments", roleText},
		{"meta_info", placeMeta | ofAPI},
		{"done", roleDone | ofAPI},
		{"stop", roleDone | ofAPI},
		{"stop_reason", roleFinish},
		{"promptFeedback", roleFinish},
		{"status", roleStatus},
		{"code", roleCode},
		{"error_type", roleCode},
		{"errors", placeFault},
		{"detail", placeFault},
		{"usageMetadata", roleUsage},
	},
	placeChoice: {
		{"delta", placeMessage},
		{"message", placeMessage},
		{"text", roleText},
		{"token_ids", roleText},
		{"logprobs", placeLogprobs},
		{"finish_reason", roleFinish},
	},
	placeCandidate: {{"content", placeContent}, {"finishReason", roleFinish}},
	placeContent:   {{"parts", placeParts}},
	placeParts: {
		{"text", roleText},
		{"thought", roleThinks},
		{"functionCall", roleText},
		{"inlineData", roleText},
		{"executableCode", roleText},
		{"codeExecutionResult", roleText},
	},
	placeMessage: {
		{"content", roleText},
		{"reasoning_content", roleThought},
		{"reasoning", roleThought},
		{"reasoning_details", roleThought},
		{"thinking", roleThought},
		{"refusal", roleText},
		{"text", roleText},
		{"partial_json", roleText},
		{"signature", roleThought},
		{"tool_calls", roleText},
		{"function_call", roleText},
		{"audio", roleText},
		{"images", roleText},
		{"citation", roleText},
		{"stop_reason", roleFinish},
	},
	placeBlock: {
		{"text", roleText},
		{"thinking", roleThought},
		{"name", roleText},
		{"data", roleText},
		{"transcript", roleText},
		{"arguments", roleText},
	},
	placeResponse: {
		{"output", roleText},
		{"error", roleError},
		{"status", roleStatus},
		{"usage", roleUsage},
	},
	placeLogprobs: {
		{"content", roleText},
		{"refusal", roleText},
		{"tokens", roleText},
		{"token_logprobs", roleText},
	},
	placeMeta:   {{"finish_reason", roleFinish}},
	placeFinish: {{"type", roleFinish}, {"status_code", roleCode}},
	placeFault: {
		{"code", roleCode},
		{"type", roleCode},
		{"status", roleCode},
		{"status_code", roleCode},
		{"http_code", roleCode},
	},
}
