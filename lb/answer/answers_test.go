package answer

// The first parts of answers, and answers as a whole, as engines send them.
const (
	done = "data: [DONE]\n\n"

	responseCreated = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"," +
		"\"status\":\"in_progress\",\"instructions\":\"Be brief\",\"tools\":[{\"name\":\"f\"}],\"output\":[]}}\n\n"
	// vLLM writes the type behind the rest.
	responseInProgress = "event: response.in_progress\ndata: {\"response\":{\"id\":\"r\",\"output\":[],\"text\":" +
		"{\"format\":{\"type\":\"text\"}},\"status\":\"in_progress\"},\"type\":\"response.in_progress\"}\n\n"
	itemAdded = "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\"," +
		"\"output_index\":0," +
		"\"item\":{\"id\":\"m\",\"type\":\"message\",\"status\":\"in_progress\",\"content\":[],\"role\":" +
		"\"assistant\"}}\n\n"
	partAdded = "event: response.content_part.added\ndata: {\"type\":\"response.content_part.added\",\"part\":" +
		"{\"type\":\"output_text\",\"text\":\"\",\"annotations\":[]}}\n\n"
	messageStart = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"role\":" +
		"\"assistant\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n"
	blockStart = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0," +
		"\"content_block\":" +
		"{\"type\":\"text\",\"text\":\"\"}}\n\n"
	keepAlive = "event: keepalive\ndata: {\"type\":\"keepalive\",\"sequence_number\":2}\n\n"
	heartbeat = "event: heartbeat\ndata: {}\n\n"
	ping      = "event: ping\ndata: {\"type\": \"ping\"}\n\n"
	chatRole  = "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}," +
		"\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n"
	chatWord = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},\"finish_reason\":null}]}\n\n"
	chatStop = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
	chatUse  = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3}}\n\n"
)

// begins are first parts, which show nothing, and what the next part has to contain so that the answer has begun.
var begins = map[string]struct {
	lines   bool // the headers say that it comes by lines
	control string
	output  string
}{
	"responses": {
		true, responseCreated + responseInProgress + itemAdded + partAdded,
		"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"Hi\"}\n\n",
	},
	"responses, a tool call": {
		true, responseCreated,
		"data: {\"type\":\"response.output_item.added\",\"item\":{\"type\":\"function_call\",\"name\":\"f\"," +
			"\"arguments\":\"\"}}\n\n",
	},
	"responses, without names of events": {
		true,
		"data: {\"response\":{\"output\":[{\"type\":\"message\"}]},\"type\":\"response.created\"}\n\n",
		"data: {\"delta\":\"Hi\",\"type\":\"response.reasoning_text.delta\"}\n\n",
	},
	"responses, audio": {
		true, responseCreated,
		"data: {\"type\":\"response.audio.delta\",\"delta\":\"UklGRg==\"}\n\n",
	},
	"responses, that fail": {
		true, responseCreated,
		"event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\"}}\n\n",
	},
	"responses, kept alive": {
		true, keepAlive + responseCreated + keepAlive + "data: {\"n\":1}\n\n" + heartbeat,
		"data: {\"delta\":\"Hi\",\"type\":\"response.output_text.delta\"}\n\n",
	},
	"chat, kept alive": {
		true, chatRole + heartbeat + "data: {}\n\ndata: keep-alive\n\nevent: idle\ndata: {\"at\":9}\n\n", chatWord,
	},
	"kept alive first": {true, "data: {}\n\ndata: null\n\ndata: ping\n\ndata: keep-alive\n\n" + heartbeat, chatWord},
	"anthropic": {
		true, messageStart + blockStart + ping,
		"data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi\"}}\n\n",
	},
	"anthropic, thinking": {
		true, messageStart,
		"data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"Hm\"}}\n\n",
	},
	"anthropic, a tool call": {
		true, messageStart + ping,
		"data: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"tool_use\"," +
			"\"id\":\"t\",\"name\":\"f\"," +
			"\"input\":{}}}\n\n",
	},
	"anthropic, no text": {
		true, messageStart,
		"data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{" +
			"\"output_tokens\":1}}\n\n",
	},
	"chat":            {true, ": keep-alive\n\n" + chatRole, chatWord},
	"chat, carriage":  {true, ": keep-alive\r\n\r\n", "data:{\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\r\n\r\n"},
	"chat, reasoning": {true, chatRole, "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"Hm\"}}]}\n\n"},
	"chat, a tool call": {
		true, "data: {\"choices\":[{\"delta\":{\"content\":null,\"tool_calls\":[]}}]}\n\n",
		"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"f\"}}]}}]}\n\n",
	},
	"chat, audio": {true, chatRole, "data: {\"choices\":[{\"delta\":{\"audio\":{\"data\":\"UklGRg==\"}}}]}\n\n"},
	"chat, log probabilities": {
		true, chatRole,
		"data: {\"choices\":[{\"delta\":{\"content\":\"\"},\"logprobs\":{\"content\":[{\"token\":\"\"}]}}]}\n\n",
	},
	"chat, no text":    {true, chatRole, chatStop},
	"chat, an error":   {true, chatRole, "data: {\"error\":{\"message\":\"no\"}}\n\n"},
	"chat, usage only": {true, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9}}\n\n", chatWord},
	"completions": {
		true, "data: {\"choices\":[{\"text\":\"\",\"logprobs\":null,\"finish_reason\":null}]}\n\n",
		"data: {\"choices\":[{\"text\":\" word\"}]}\n\n",
	},
	"gemini": {
		true, "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"\"}]}}]," +
			"\"usageMetadata\":{\"promptTokenCount\":3}}\n\n",
		"data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"f\"}}]}}]}\n\n",
	},
	"gemini, a list": {
		false, "[{\n  \"candidates\": [{\"content\": {\"parts\": [{\"text\": \"\"}]}}]\n}\n",
		",\r\n{\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"Hi\"}]}}]}",
	},
	"ollama": {
		true, "{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":false}\n",
		"{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"Hi\"},\"done\":false}\n",
	},
	"ollama, generate": {
		true, "{\"model\":\"m\",\"response\":\"\",\"done\":false}\n",
		"{\"model\":\"m\",\"response\":\"Hi\",\"done\":false}\n",
	},
	"ollama, generate, thinking": {
		true, "{\"model\":\"m\",\"response\":\"\",\"thinking\":\"\",\"done\":false}\n",
		"{\"model\":\"m\",\"response\":\"\",\"thinking\":\"Hm\",\"done\":false}\n",
	},
	"llama.cpp": {
		true, "data: {\"index\":0,\"content\":\"\",\"tokens\":[],\"stop\":false,\"prompt_progress\":" +
			"{\"total\":9,\"processed\":4}}\n\n",
		"data: {\"index\":0,\"content\":\" a\",\"tokens\":[7],\"stop\":false}\n\n",
	},
	"sglang": {
		true, "data: {\"text\":\"\",\"meta_info\":{\"finish_reason\":null}}\n\n",
		"data: {\"text\":\"Hi\",\"meta_info\":{\"finish_reason\":null}}\n\n",
	},
	"tgi": {
		true, ": ping\n\n",
		"data:{\"index\":1,\"token\":{\"id\":7,\"text\":\" a\",\"special\":false},\"generated_text\":null}\n\n",
	},
	"triton": {
		true, "data: {\"model_name\":\"m\",\"text_output\":\"\"}\n\n",
		"data: {\"model_name\":\"m\",\"text_output\":\"a\"}\n\n",
	},
	"one answer":    {false, "{\"id\":\"c\",\"choices\":[", "{\"message\":{\"content\":\"Hi\"}}]}"},
	"one embedding": {false, "{\"object\":\"list\",\"data\":[", "{\"embedding\":[0.1,0.2]}]}"},
	"an image":      {true, "\n", "data: {\"type\":\"image_generation.partial_image\",\"b64_json\":\"iVBO\"}\n\n"},
}

// ends are whole answers, and how they have ended.
var ends = map[string]struct {
	text string
	want Outcome
}{
	"chat":                    {chatRole + chatWord + chatStop + done, Complete},
	"chat with usage":         {chatRole + chatWord + chatStop + chatUse + done, Complete},
	"chat without [DONE]":     {chatRole + chatWord + chatStop, Complete},
	"chat that stops at once": {chatRole + chatStop + done, Complete},
	"usage at the end":        {chatRole + chatWord + chatUse, Complete},
	"chat without an end":     {chatRole + chatWord, Unfinished},
	"chat without any output": {chatRole, Unfinished},
	"chat that is empty":      {chatRole + done, Empty},
	"nothing but [DONE]":      {done, Empty},
	"nothing but a comment":   {": keep-alive\n\n", Unfinished},
	"error event":             {"data: {\"error\": {\"message\": \"not ready\", \"code\": 500}}\n\n" + done, Failed},
	"named error event": {"event: error\ndata: {\"error\": {\"message\": \"not ready\", " +
		"\"code\": 500}}\n\n", Failed},
	"error in one piece": {"{\"error\": {\"message\": \"worker is not ready\", \"code\": 500}}", Failed},
	"error behind some output": {chatRole + chatWord + "data: {\"error\":{" +
		"\"type\":\"server_error\"}}\n\n" + done, Failed},
	"aborted": {"data: {\"choices\": [{\"index\": 0, \"delta\": {\"content\": \"\"}, " +
		"\"finish_reason\": \"abort\"}]}" +
		"\n\n" + done, Aborted},
	"aborted behind some output": {chatWord + "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"abort\"}]}\n\n" +
		done, Aborted},
	"aborted in one piece":  {`{"choices":[{"message":{"content":""},"finish_reason":"abort"}],"usage":{}}`, Aborted},
	"no choices":            {`{"id":"c","choices":[],"usage":null}`, Empty},
	"no choices, but usage": {`{"id":"c","choices":[],"usage":{"prompt_tokens":9}}`, Complete},
	"no candidates":         {`[{"candidates":[]}]`, Empty},
	"error of the request": {
		`{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}`, Refused,
	},
	"error of the request, by its code": {"data: {\"error\":{\"message\":\"no\",\"code\":404}}\n\n" + done, Refused},
	"error of the request, at TGI":      {`{"error":"Input validation error","error_type":"validation"}`, Refused},
	"error of the request, at vLLM": {
		`{"object":"error","message":"too long","type":"BadRequestError","param":null,"code":400}`, Refused,
	},
	"error of the request, at SGLang": {"data: {\"text\":\"\",\"meta_info\":{\"finish_reason\":{\"type\":\"abort\"," +
		"\"message\":\"too long\",\"status_code\":400}}}\n\n" + done, Refused},
	"error of the request, at Anthropic": {"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":" +
		"\"invalid_request_error\",\"message\":\"no\"}}\n\n", Refused},
	"no room, at Anthropic": {messageStart + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":" +
		"\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n", Overloaded},
	"no room, at Gemini": {`{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}`, Overloaded},
	"no room, at TGI":    {"data:{\"error\":\"Model is overloaded\",\"error_type\":\"overloaded\"}\n\n", Overloaded},
	"no room, by name":   {`{"error":{"message":"busy","status":"RESOURCE_EXHAUSTED"}}`, Overloaded},
	"error of Ollama":    {"{\"error\":\"an error was encountered while running the model\"}\n", Failed},
	"error of llama.cpp": {"error: {\"code\":500,\"message\":\"slot unavailable\"}\n\n", Failed},
	"error of a list":    {`[{"error":{"code":500,"message":"no","status":"INTERNAL"}}]`, Failed},
	"error of responses": {responseCreated + "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\"," +
		"\"message\":\"no\"}\n\n", Failed},
	"failed response": {responseCreated + "event: response.failed\ndata: {" +
		"\"type\":\"response.failed\",\"response\":" +
		"{\"status\":\"failed\",\"error\":{\"code\":\"server_error\",\"message\":\"no\"}}}\n\n", Failed},
	"failed response in one piece": {
		`{"id":"r","object":"response","status":"failed","error":{"code":"server_error","message":"no"},"output":[]}`,
		Failed,
	},
	"response": {
		responseCreated + "data: {\"type\":\"response.output_text.delta\",\"delta\":\"Hi\"}\n\n" +
			"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{" +
			"\"status\":\"completed\"}}\n\n",
		Complete,
	},
	"response without an end": {
		responseCreated + "data: {\"type\":\"response.output_text.delta\"," +
			"\"delta\":\"Hi\"}\n\n",
		Unfinished,
	},
	"response in the background": {`{"id":"r","object":"response","status":"queued","error":null,` +
		`"output":[]}`, Complete},
	"response without an error": {`{"object":"response","status":"completed","error":null,"output":[]}`, Complete},
	"anthropic": {messageStart + "data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"Hi\"}}\n\n" +
		"data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\nevent: message_stop\n" +
		"data: {\"type\":\"message_stop\"}\n\n", Complete},
	"anthropic without an end": {
		messageStart + "data: {\"type\":\"content_block_delta\"," +
			"\"delta\":{\"text\":\"Hi\"}}\n\n",
		Unfinished,
	},
	"gemini": {"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}," +
		"\"finishReason\":\"STOP\"}]}\n\n", Complete},
	"gemini refuses": {`{"promptFeedback":{"blockReason":"SAFETY"}}`, Complete},
	"ollama": {
		"{\"message\":{\"content\":\"a\"},\"done\":false}\n{\"message\":{\"content\":\"\"},\"done\":true}\n",
		Complete,
	},
	"ollama without an end": {"{\"message\":{\"content\":\"a\"},\"done\":false}\n", Unfinished},
	"llama.cpp": {
		"data: {\"content\":\"a\",\"stop\":false}\n\ndata: {\"content\":\"\",\"stop\":true}\n\n",
		Complete,
	},
	"tgi":                   {"data:{\"token\":{\"text\":\"a\"},\"generated_text\":\"a\"}\n\n", Complete},
	"tgi in one piece":      {`[{"generated_text":"a"}]`, Complete},
	"tgi, no text":          {"data:{\"token\":{\"text\":\"</s>\"},\"generated_text\":\"\"}\n\n", Complete},
	"tgi, whole, no text":   {`{"generated_text":""}`, Complete},
	"tgi without an end":    {"data:{\"token\":{\"text\":\"a\"},\"generated_text\":null}\n\n", Unfinished},
	"triton, whole, empty":  {`{"model_name":"m","text_output":""}`, Complete},
	"triton, no text":       {"data: {\"model_name\":\"m\",\"text_output\":\"\"}\n\n", Complete},
	"embeddings":            {`{"object":"list","data":[{"embedding":[0.5]}],"usage":{"prompt_tokens":1}}`, Complete},
	"models":                {`{"object":"list","data":[]}`, Complete},
	"another API":           {`{"id":7,"state":"ready","code":500}`, Complete},
	"another API, a stream": {"event: endpoint\ndata: /messages?session=1\n\n", Complete},
	"text":                  {"OK\n", Complete},
	"what it writes": {
		`{"choices":[{"message":{"content":"{\"error\":{\"code\":500}}, data: {\"error\":1}"},` +
			`"finish_reason":"stop"}]}`,
		Complete,
	},
	"arguments that look like an error": {"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{" +
		"\"function\":{\"arguments\":" +
		"\"{\\\"error\\\":{\\\"code\\\":500}}\",\"error\":{\"code\":500},\"finish_reason\":\"abort\"}}]}}]}\n\n" +
		chatStop + done, Complete},
	"no error":                 {`{"error":null,"choices":[{"text":"a"}]}`, Complete},
	"an error without content": {`{"error":{},"choices":[{"text":"a"}]}`, Complete},
}
