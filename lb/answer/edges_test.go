package answer

import (
	"slices"
	"strings"
	"testing"
)

// A reader of usage retains no more than it may, and reads a usage that just fits.
func TestUsageTail(t *testing.T) {
	const usage = `"usage":{"prompt_tokens":7,"completion_tokens":3}}`
	for _, size := range []int{tailSize - 1, tailSize, tailSize + 1, 3 * tailSize, 100 * tailSize} {
		text := `{"a":"` + strings.Repeat("x", size-len(`{"a":"",`+usage)) + `",` + usage
		for _, step := range []int{1, 7, tailSize - 1, tailSize, tailSize + 1, size} {
			var r Reader
			for part := range slices.Chunk([]byte(text), step) {
				if r.Read(part); len(r.tail) > tailSize {
					t.Fatalf("%d bytes in parts of %d: retains %d", size, step, len(r.tail))
				}
			}
			if got, ok := r.Usage(true); !ok || got != (Usage{Prompt: 7, Output: 3}) {
				t.Errorf("%d bytes in parts of %d: %+v, %v", size, step, got, ok)
			}
		}
	}
}

// A part of a stream may be empty; numbers of tokens have at most nine digits; and tokens read from and written to a
// cache are added only to a prompt that does not contain them.
func TestUsageOfEdges(t *testing.T) {
	for text, want := range map[string]Usage{
		`"prompt_tokens":999999999`:                                                        {Prompt: 999999999},
		`"prompt_tokens":7,"completion_tokens":10000000000`:                                {Prompt: 7},
		`"prompt_tokens":7,"completion_tokens":-1`:                                         {Prompt: 7},
		`"prompt_tokens":7,"completion_tokens":9.5`:                                        {Prompt: 7},
		`"input_tokens":99,"cache_read_input_tokens":60,"cache_creation_input_tokens":40`:  {Prompt: 199, Cached: 60},
		`"input_tokens":100,"cache_read_input_tokens":60,"cache_creation_input_tokens":40`: {Prompt: 100, Cached: 60},
	} {
		var r Reader
		for _, part := range []string{"", "event: x\n", "", `data: {"usage":{` + text + `}}`, "\n", ""} {
			r.Read([]byte(part))
		}
		if got, ok := r.Usage(true); !ok || got != want {
			t.Errorf("%s: %+v, %v, want %+v", text, got, ok, want)
		}
	}
}
