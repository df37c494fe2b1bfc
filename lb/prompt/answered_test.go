package prompt

import "testing"

// A body with an answer of the model, or that continues a stored one, is a later turn.
func TestAnswered(t *testing.T) {
	for body, want := range map[string]bool{
		`{"messages":[{"role":"system","content":"assistant"},{"role":"user","content":"{\"role\":\"assistant\"}"}]}`: false,
		`{"messages":[{"role":"user","content":"a"},{"content":"b","role":"assistant"},{"role":"user"}]}`:             true,
		`{"system":"s","messages":[{"role":"user","content":[{"type":"text","role":"assistant"}]}]}`:                  false,
		`{"contents":[{"role":"user","parts":[]},{"role":"model","parts":[]},{"role":"user"}]}`:                       true,
		`{"input":"a"}`: false,
		`{"input":[{"role":"assistant","content":"a"},{"role":"user","content":"b"}]}`: true,
		`{"input":"b","previous_response_id":"resp_1"}`:                                true,
		`{"input":"b","previous_response_id":null}`:                                    false,
		`{"input":[{"type":"message","role":"user"}],"role":"assistant"}`:              false,
		`{"prompt":"a","role":"assistant"}`:                                            false,
	} {
		if info, err := Scan([]byte(body), true); err != nil || info.Answered != want {
			t.Errorf("%s: %v, %v", body, info.Answered, err)
		}
	}
}
