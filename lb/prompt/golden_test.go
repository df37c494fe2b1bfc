package prompt

import (
	"strings"
	"testing"
)

// Gateways of different versions share one index in Redis, so keys must not change: each is the last one of a prompt.
func TestChainGolden(t *testing.T) {
	fill := strings.Repeat("one two three ", 60)
	for _, tt := range []struct {
		name, body string
		key        uint64
		end        int
	}{
		{
			"chat", `{"model":"m","messages":[{"role":"user","content":"F"},{"role":"assistant","content":"F"}]}`,
			0xc5349b1bf2c6d7, 1711,
		},
		{"tools", `{"model":"m","tools":[{"type":"function","function":{"name":"f"}}],"messages":[{"role":"user",` +
			`"content":"F"}]}`, 0x7e2d95126ed928, 899},
		{"picture", `{"messages":[{"role":"user","content":[{"type":"image_url",` +
			`"image_url":{"url":"data:image/png;base64,F"}},{"text":"F"}]}]}`, 0xbe5a3e297a692c, 872},
		{
			"anthropic", `{"model":"m","system":"F","messages":[{"role":"user","content":[{"type":"text","text":"F"}]}]}`,
			0xce7a5b86ee509b, 1700,
		},
		{"completions", `{"model":"m","prompt":"F","suffix":"F"}`, 0x75a29613697974, 1692},
		{
			"tokens", `{"prompt":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30]}`,
			0xd4da0cacf67d4, 64,
		},
		{
			"responses",
			`{"instructions":"F","input":[{"role":"user","content":"F"},{"type":"function_call","arguments":"F"}]}`,
			0xbb1c26e373ab7e, 2578,
		},
		{"continued by nothing", `{"instructions":"F","input":"F","previous_response_id":null,"conversation":null,` +
			`"prompt":null}`, 0x2d5bd1485271b4, 1710},
		{"format of an answer", `{"instructions":"F","input":"F","text":{"format":{"type":"text"}}}`, 0x2ff236bb53093f, 1700},
		{"rerank", `{"query":"F","documents":["F",{"text":"F"}]}`, 0xa96f0ba0cb2a4c, 2460},
		{"score", `{"text_1":"F","text_2":["F"]}`, 0xb025b85c78ae5f, 1692},
		{
			"names", `{"model":"m","lora_path":"l","cache_salt":"s","chat_template":"t","reasoning_effort":"low","prompt":"F"}`,
			0x45de4920fe6ef5, 832,
		},
	} {
		blocks := chainOf(t, strings.ReplaceAll(tt.body, "F", fill), "route", "tenant")
		if last := blocks[len(blocks)-1]; last.Key != tt.key || last.End != tt.end {
			t.Errorf("%s: {%#x, %d}, want {%#x, %d}", tt.name, last.Key, last.End, tt.key, tt.end)
		}
	}
}
