package answer_test

import (
	"fmt"

	"github.com/warmgate/warmgate/lb/answer"
)

// The usage is in one of the last events of a stream.
func ExampleReader() {
	var r answer.Reader
	r.Read([]byte(`data: {"choices": [{"delta": {"content": "Hi"}}], "usage": null}` + "\n\n"))
	r.Read([]byte(`data: {"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 1, ` +
		`"prompt_tokens_details": {"cached_tokens": 8}}}` + "\n\n"))
	usage, ok := r.Usage(true)
	fmt.Printf("%+v %v\n", usage, ok)
	// Output:
	// {Prompt:12 Cached:8 Output:1 Reasoning:0} true
}
