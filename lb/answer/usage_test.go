package answer

import "testing"

const streamed = `data: {"id":"a","choices":[{"delta":{"content":"\"prompt_tokens\":5, {"}}]}

data: {"id":"a","choices":[],"usage":{"prompt_tokens":1203,"total_tokens":1219,"completion_tokens":16,` +
	`"prompt_tokens_details":{"cached_tokens":1184}}}

data: [DONE]

`

// anthropicEvents is a stream in which the arguments of a tool look like usage, as JSON and as text.
const anthropicEvents = "event: message_start\r\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\"," +
	"\"content\":[],\"usage\":" +
	"{\"input_tokens\":25,\"cache_read_input_tokens\":1200,\"cache_creation_input_tokens\":3,\"output_tokens\":1}}}" +
	"\r\n\r\n" +
	"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"tool_use\"," +
	"\"input\":" +
	"{\"usage\":{\"input_tokens\":7,\"cache_read_input_tokens\":900}}}}\n\n" +
	`data: {"delta":{"type":"input_json_delta","partial_json":"{\"usage\":{\"input_tokens\":8}}"}}` + "\n\n" +
	"event: message_delta\ndata: " +
	"{\"type\":\"message_delta\",\"delta\":{},\"usage\":{\"output_tokens\":15}}\n\nevent: " +
	"message_stop\ndata: {}\n\n"

// responseEvents is a stream of the responses API.
const responseEvents = `event: response.created
data: {"response":{"usage":null,"tools":[{"parameters":{"usage":{"input_tokens":7}}}]}}

event: response.completed
data: {"response":{"output":[{"arguments":"{\"usage\":{\"input_tokens\":1}}"}],"usage":{"input_tokens":900,` +
	`"input_tokens_details":{"cached_tokens":800},"output_tokens":5,"output_tokens_details":{"cached_tokens":3}},` +
	`"user":null},"sequence_number":9}

`

// usageTexts are responses, and what is read of them.
var usageTexts = map[string]struct {
	text string
	want Usage
	ok   bool
}{
	"stream": {streamed, Usage{1203, 1184, 16, 0}, true},
	"spaces": {"{\"usage\": {\"prompt_tokens\" : 7 , \"completion_tokens\":\n3\n}}", Usage{7, 0, 3, 0}, true},
	"anthropic": {
		`{"usage":{"input_tokens":20,"cache_read_input_tokens":12,"output_tokens":4}}`,
		Usage{20, 12, 4, 0},
		true,
	},
	"anthropic, apart": {`{"usage":{"input_tokens":20,"cache_creation_input_tokens":3,` +
		`"cache_read_input_tokens":120,"output_tokens":4}}`, Usage{143, 120, 4, 0}, true},
	"anthropic, new": {`{"usage":{"input_tokens":20,"cache_creation_input_tokens":100,` +
		`"cache_read_input_tokens":0,"output_tokens":4}}`, Usage{120, 0, 4, 0}, true},
	"anthropic, events": {anthropicEvents, Usage{1228, 1200, 15, 0}, true},
	"responses": {`{"output":[{"usage":{"input_tokens":1}}],"usage":{"input_tokens":20,` +
		`"input_tokens_details":{"cached_tokens":12},"output_tokens":4},"user":null}`, Usage{20, 12, 4, 0}, true},
	"responses, events": {responseEvents, Usage{900, 800, 5, 0}, true},
	"sglang": {`{"text":"a","meta_info":{"id":"x","finish_reason":{"type":"stop","prompt_tokens":1},` +
		`"prompt_tokens":20,"completion_tokens":4,"cached_tokens":12}}`, Usage{20, 12, 4, 0}, true},
	"sglang, a list": {
		`[{"text":"a","meta_info":{"prompt_tokens":20,"completion_tokens":4,"cached_tokens":12}}]`,
		Usage{20, 12, 4, 0},
		true,
	},
	"gemini": {"{\n \"candidates\": [{\"args\": {\"usageMetadata\": {\"promptTokenCount\": 1}}}],\n " +
		"\"usageMetadata\": {\n  \"promptTokenCount\": 20,\n  \"candidatesTokenCount\": 4,\n  " +
		"\"cachedContentTokenCount\": 12\n }\n}\n", Usage{20, 12, 4, 0}, true},
	"gemini, a list": {"[{\"usageMetadata\":{\"promptTokenCount\":20}}," +
		"\r\n{\"usageMetadata\":{\"promptTokenCount\":20,\"candidatesTokenCount\":4}}]", Usage{20, 0, 4, 0}, true},
	"gemini, thinking": {
		`{"usageMetadata":{"promptTokenCount":20,"candidatesTokenCount":4,"thoughtsTokenCount":30}}`,
		Usage{20, 0, 34, 30},
		true,
	},
	"reasoning": {`{"usage":{"prompt_tokens":20,"completion_tokens":50,"prompt_tokens_details":{"reasoning_tokens":9},` +
		`"completion_tokens_details":{"reasoning_tokens":40,"cached_tokens":8}}}`, Usage{20, 0, 50, 40}, true},
	"reasoning, responses": {`{"usage":{"input_tokens":20,"output_tokens":50,` +
		`"output_tokens_details":{"reasoning_tokens":40}}}`, Usage{20, 0, 50, 40}, true},
	"reasoning, sglang": {
		`{"usage":{"prompt_tokens":20,"completion_tokens":50,"reasoning_tokens":40}}`,
		Usage{20, 0, 50, 40},
		true,
	},
	"more reasoning than there is": {
		`{"usage":{"prompt_tokens":20,"completion_tokens":5,"reasoning_tokens":40}}`,
		Usage{20, 0, 5, 5},
		true,
	},
	"arguments": {`{"content":[{"type":"tool_use","input":{"usage":{"input_tokens":1},"cached_tokens":9}}],` +
		`"usage":{"input_tokens":20}}`, Usage{20, 0, 0, 0}, true},
	"only arguments": {
		`{"content":[{"type":"tool_use","input":{"usage":{"input_tokens":1},"cached_tokens":9}}]}`,
		Usage{},
		false,
	},
	"in another place": {
		`{"message":{"usage":{"prompt_tokens":1}},"response":{"usage":{"prompt_tokens":1}}}`,
		Usage{},
		false,
	},
	"details elsewhere": {`{"usage":{"prompt_tokens":20,"completion_tokens_details":{"cached_tokens":9},` +
		`"x":{"cached_tokens":9,"prompt_tokens":1}}}`, Usage{20, 0, 0, 0}, true},
	"broken off":        {`{"content":[{"type":"tool_use","input":{"usage":{"input_tokens":1}}`, Usage{}, false},
	"a line broken off": {`data: {"content_block":{"input":{"usage":{"input_tokens":1}}` + "\n\n", Usage{}, false},
	"more than there is": {
		`{"usage":{"prompt_tokens":20,"prompt_tokens_details":{"cached_tokens":120}}}`,
		Usage{20, 120, 0, 0},
		true,
	},
	"none":          {`{"choices":[{"text":"the _tokens\" : 5"}]}`, Usage{}, false},
	"null":          {`{"usage":{"prompt_tokens":null,"prompt_tokens_details":null}}`, Usage{}, false},
	"a string":      {`{"usage":{"prompt_tokens":"12"}}`, Usage{}, false},
	"a fraction":    {`{"usage":{"prompt_tokens":1.5}}`, Usage{}, false},
	"negative":      {`{"usage":{"prompt_tokens":-5}}`, Usage{}, false},
	"minus zero":    {`{"usage":{"prompt_tokens":-0}}`, Usage{}, false},
	"huge":          {`{"usage":{"prompt_tokens":99999999999999999999}}`, Usage{}, false},
	"cut off":       {`{"usage":{"prompt_tokens":12`, Usage{}, false},
	"written by it": {`{"text":"\"prompt_tokens\":5,"}`, Usage{}, false},
	"reported each time": {`{"usage":{"prompt_tokens":9,"completion_tokens":1}}` +
		`{"usage":{"prompt_tokens":9,"completion_tokens":2}}`, Usage{9, 0, 2, 0}, true},
}

// The usage is found however the response is split into parts, and nothing else is mistaken for it.
func TestUsage(t *testing.T) {
	for name, c := range usageTexts {
		for size := 1; size <= len(c.text)+1; size++ {
			var r Reader
			for rest := []byte(c.text); len(rest) > 0; {
				n := min(size, len(rest))
				r.Read(rest[:n])
				rest = rest[n:]
			}
			if got, ok := r.Usage(true); got != c.want || ok != c.ok {
				t.Fatalf("%s in parts of %d: %+v, %v; want %+v, %v", name, size, got, ok, c.want, c.ok)
			}
		}
	}
}
