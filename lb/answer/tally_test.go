package answer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// tallies are streams, and which of their events show output.
var tallies = map[string]struct {
	text string
	want Tally
}{
	"chat": {
		event(`{"id":"a","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`) +
			chunk("content", "Hello") + chunk("content", ", \\\"world\\\\") + chunk("content", "") +
			": a comment\n\n" + chunk("content", " again") +
			event(`{"id":"a","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`) +
			event(`{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}`) + event("[DONE]"),
		Tally{3, 0},
	},
	"reasoning": {
		chunk("reasoning_content", "Hm") + chunk("reasoning_content", "so") + chunk("reasoning", "or") +
			chunk("content", "It") + chunk("content", "is") + chunk("reasoning_content", "\\\""),
		Tally{6, 4},
	},
	"the last token ends it": {
		chunk("content", "a") + event(`{"id":"a","choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"stop"}]}`),
		Tally{2, 0},
	},
	"usage in each event": {
		event(`{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`) +
			event(`{"choices":[{"delta":{"content":"b"}}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`),
		Tally{2, 0},
	},
	"a tool": {
		event(`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}}]}`) +
			event(`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}}]}`),
		Tally{2, 0},
	},
	"anthropic": {
		"event: message_start\n" + event(`{"type":"message_start","message":{"content":[],"usage":{"output_tokens":1}}}`) +
			event(`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`) +
			event(`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"so"}}`) +
			event(`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"or"}}`) +
			event(`{"type":"content_block_stop","index":0}`) + event(`{"type": "ping"}`) +
			event(`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"It"}}`) +
			event(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}`) +
			event(`{"type":"message_stop"}`),
		Tally{3, 2},
	},
	"responses": {
		event(`{"type":"response.created","response":{"output":[]}}`) +
			event(`{"type":"response.reasoning_text.delta","sequence_number":1,"delta":"so"}`) +
			event(`{"type":"response.reasoning_text.done","sequence_number":2,"text":"so"}`) +
			event(`{"type":"response.output_text.delta","sequence_number":3,"delta":"It"}`) +
			event(`{"type":"response.output_text.delta","sequence_number":4,"delta":"is"}`) +
			event(`{"type":"response.output_text.done","sequence_number":5,"text":"It is"}`) +
			event(`{"type":"response.output_item.done","item":{"content":[{"text":"It is"}]}}`) +
			event(`{"type":"response.completed","response":{"output":[{"content":[{"text":"It is"}]}]}}`),
		Tally{3, 1},
	},
	"gemini": {
		event(`{"candidates":[{"content":{"parts":[{"text":"so","thought":true}]}}]}`) +
			event(`{"candidates":[{"content":{"parts":[{"text":"It"}]}}],"usageMetadata":{"promptTokenCount":3}}`),
		Tally{2, 1},
	},
	"ollama": {
		`{"model":"m","created_at":"1","message":{"role":"assistant","content":"","thinking":"so"},"done":false}` + "\n" +
			`{"model":"m","created_at":"2","message":{"role":"assistant","content":"It"},"done":false}` + "\n" +
			`{"model":"m","created_at":"3","message":{"role":"assistant","content":""},"done":true}` + "\n",
		Tally{2, 1},
	},
	"llama.cpp": {
		event(`{"index":0,"content":"It","stop":false}`) + event(`{"index":0,"content":"is","stop":false}`) +
			event(`{"index":0,"content":"","stop":true}`),
		Tally{2, 0},
	},
	"an error": {
		chunk("content", "a") + event(`{"error":{"message":"out of memory","code":500}}`),
		Tally{1, 0},
	},
}

func event(data string) string { return "data: " + data + "\n\n" }

func chunk(member, text string) string {
	return event(`{"id":"a","choices":[{"index":0,"delta":{"` + member + `":"` + text + `"},"finish_reason":null}]}`)
}

// tallyOf reads a text in parts of a size.
func tallyOf(text string, size int) Tally {
	var r Reader
	r.ByLines()
	r.Count()
	for part := range slices.Chunk([]byte(text), size) {
		r.Read(slices.Clone(part))
	}
	return r.Tally()
}

// Events are counted by what they show, however the stream is cut.
func TestTally(t *testing.T) {
	for name, c := range tallies {
		for size := 1; size <= len(c.text); size++ {
			if got := tallyOf(c.text, size); got != c.want {
				t.Fatalf("%s in parts of %d: %+v, want %+v", name, size, got, c.want)
			}
		}
	}
}

// An event that is compared with the one before counts as one that is read: mixed as they may be.
func TestTallyOfAlikeEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		var want Tally
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			members := []string{"content", "content", "content", "reasoning_content"}
			member := rapid.SampledFrom(members).Draw(t, "member")
			said := rapid.SampledFrom([]string{"", "a", "bc", "\\\"", "\\\\", "\\n", "\"}", "\\"}).Draw(t, "text")
			if said == "\"}" || said == "\\" { // what would end the text early is escaped
				said = strings.ReplaceAll(strings.ReplaceAll(said, "\\", "\\\\"), "\"", "\\\"")
			}
			tail := rapid.SampledFrom([]string{"", "", `,"usage":{"prompt_tokens":2}`, `,"x":"a"`}).Draw(t, "tail")
			fmt.Fprintf(&text, "data: {\"choices\":[{\"delta\":{\"%s\":\"%s\"}}]%s}\n\n", member, said, tail)
			if said != "" {
				want.Events++
				if member != "content" {
					want.Thoughts++
				}
			}
		}
		if got := tallyOf(text.String(), rapid.IntRange(1, 300).Draw(t, "size")); got != want {
			t.Fatalf("%+v, want %+v of\n%s", got, want, text.String())
		}
	})
}

// A token allocates nothing.
func TestTallyAllocatesNothing(t *testing.T) {
	for _, member := range []string{"content", "reasoning_content"} {
		var r Reader
		r.ByLines()
		r.Count()
		parts := [][]byte{[]byte(chunk(member, "a")), []byte(chunk(member, "bc")), []byte(chunk(member, "\\\""))}
		odd := []byte(event(`{"choices":[{"delta":{"content":"x"}}],"created":12}`))
		read := func() {
			for _, p := range append(parts[:3:3], odd) {
				r.Read(p)
				r.Read(p[:len(p)/2])
				r.Read(p[len(p)/2:])
			}
		}
		read()
		if n := testing.AllocsPerRun(100, read); n > 1 { // of this test's list
			t.Errorf("%g allocations for each round of tokens in %s", n, member)
		}
	}
}

// FuzzTally holds that a part of a stream is counted the same wherever it is cut, and that no event counts twice.
func FuzzTally(f *testing.F) {
	for _, c := range tallies {
		f.Add([]byte(c.text), 7)
	}
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		size = 1 + max(0, size)%4096
		if len(text) > tailSize { // longer events are cut off
			return
		}
		whole, got := tallyOf(string(text), len(text)+1), tallyOf(string(text), size)
		if whole != got || got.Thoughts > got.Events || got.Events > int64(strings.Count(string(text), "\n")) {
			t.Errorf("%+v in parts of %d, %+v in one", got, size, whole)
		}
	})
}
