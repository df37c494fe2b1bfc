package vllmsim

// dialect is how answers of an API are written, other than those of the completions APIs, as formats. Their arguments
// are the id of the answer, its model as JSON, the tokens of the prompt, those of them that were cached, the tokens of
// the answer, what it says (a token, or all of its content, which a part makes of a text), and why it stopped. A stream
// begins at once, with events that have no output.
type dialect struct{ begin, token, end, whole, part string }

// messages is Anthropic's API. Answers that are not streamed do not report cached tokens, as vLLM's do not.
var messages = dialect{
	begin: "event: message_start\ndata: " + `{"type":"message_start","message":{"id":"msg_%[1]x","type":"message",` +
		`"role":"assistant","model":%[2]s,"content":[]}}` + "\n\nevent: ping\ndata: " + `{"type":"ping"}` + "\n\n" +
		"event: content_block_start\ndata: " +
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n",
	token: "event: content_block_delta\ndata: " +
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%[6]s"}}` + "\n\n",
	part: `{"type":"text","text":"%s"}`,
	end: "event: content_block_stop\ndata: " + `{"type":"content_block_stop","index":0}` + "\n\n" +
		"event: message_delta\ndata: " + `{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":` +
		`{"input_tokens":%[3]d,"cache_read_input_tokens":%[4]d,"output_tokens":%[5]d}}` + "\n\n" +
		"event: message_stop\ndata: " + `{"type":"message_stop"}` + "\n\n",
	whole: `{"id":"msg_%[1]x","type":"message","role":"assistant","model":%[2]s,"content":[%[6]s],` +
		`"stop_reason":"%[7]s","stop_sequence":null,"usage":{"input_tokens":%[3]d,"output_tokens":%[5]d}}`,
}

const (
	responseHead  = `"response":{"id":"resp_%[1]x","object":"response","model":%[2]s,"status":`
	responseUsage = `"usage":{"input_tokens":%[3]d,"input_tokens_details":{"cached_tokens":%[4]d},"output_tokens":%[5]d}`
)

// responses is OpenAI's Responses API.
var responses = dialect{
	begin: "event: response.created\ndata: " + `{"type":"response.created",` + responseHead +
		`"in_progress","output":[]}}` + "\n\n",
	token: "event: response.output_text.delta\ndata: " +
		`{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"%[6]s"}` + "\n\n",
	part: `{"type":"output_text","text":"%s"}`,
	end: "event: response.completed\ndata: " + `{"type":"response.completed",` + responseHead + `"completed",` +
		responseUsage + "}}\n\n",
	whole: `{"id":"resp_%[1]x","object":"response","model":%[2]s,"status":"completed","output":[{"type":"message",` +
		`"role":"assistant","content":[%[6]s]}],` + responseUsage + `}`,
}

// responsesPath is the route of the Responses API.
const responsesPath = "/v1/responses"

// messagesPath is the route of Anthropic's API, countPath that of its call which counts the tokens of a request.
const (
	messagesPath = "/v1/messages"
	countPath    = messagesPath + "/count_tokens"
)
