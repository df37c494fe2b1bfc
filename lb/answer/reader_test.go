package answer

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// lines reports whether a text is one of events or of lines, so that the headers of the answer say so.
func lines(text string) bool {
	return !strings.HasPrefix(text, "[") && (!strings.HasPrefix(text, "{") || strings.HasSuffix(text, "}\n"))
}

// A first part without output shows nothing, wherever it is cut, and the next part with some does.
func TestControlFramesAreNoOutput(t *testing.T) {
	for name, c := range begins {
		for size := range len(c.control) {
			var r Reader
			if c.lines {
				r.ByLines()
			}
			for part := range slices.Chunk([]byte(c.control), size+1) {
				r.Read(part)
			}
			if r.Begun() || r.Data() > 0 {
				t.Fatalf("%s: begun %v with control frames in parts of %d, %d events of another API", name, r.Begun(),
					size+1, r.Data())
			}
			at := min(size, len(c.output))
			r.Read([]byte(c.output[:at]))
			if r.Read([]byte(c.output[at:])); !r.Begun() {
				t.Fatalf("%s: not begun with output, cut at %d", name, at)
			}
		}
	}
}

// How an answer has ended does not depend on where it is cut.
func TestOutcome(t *testing.T) {
	for name, c := range ends {
		for size := 1; size <= len(c.text); size++ {
			var r Reader
			if lines(c.text) {
				r.ByLines()
			}
			for part := range slices.Chunk([]byte(c.text), size) {
				r.Read(part)
			}
			if got := r.Outcome(true, true); got != c.want {
				t.Fatalf("%s in parts of %d: %s, want %s", name, size, OutcomeNames[got], OutcomeNames[c.want])
			}
		}
	}
}

// A stream that was broken off, or not read to its end, is not held to have one; an error in it counts all the same.
func TestOutcomeOfAPart(t *testing.T) {
	for name, c := range ends {
		for _, whole := range []bool{true, false} {
			var r Reader
			if lines(c.text) {
				r.ByLines()
			}
			r.Read([]byte(c.text))
			want := c.want
			if want == Unfinished || want == Empty {
				want = Complete
			}
			if got := r.Outcome(!whole, whole); got != want {
				t.Errorf("%s: %s, want %s", name, OutcomeNames[got], OutcomeNames[want])
			}
		}
	}
}

// The end of a long stream shows how it has ended, although little of it is retained; and what does not show it is not
// held against the stream.
func TestOutcomeOfLongStreams(t *testing.T) {
	long := "data: {\"type\":\"response.completed\",\"response\":{\"output\":[{\"text\":\"" +
		strings.Repeat("x", 9000) +
		"\"}],\"status\":\"completed\"}}\n\n"
	for _, c := range []struct {
		name, end string
		want      Outcome
	}{
		{"regular", chatStop + chatUse + done, Complete},
		{"cut off", "", Unfinished},
		{"in the middle of an event", chatWord[:20], Unfinished},
		{"with an error", "data: {\"error\":{\"message\":\"no\"}}\n\n" + done, Failed},
		{"with a long event", "event: response.completed\n" + long, Complete},
	} {
		for _, within := range []int{64, lastSize, tailSize, 1 << 20} {
			var r Reader
			r.ByLines()
			read := func(text string) {
				for part := range slices.Chunk([]byte(text), within) {
					r.Read(part)
				}
			}
			for range 200 {
				read(chatWord)
			}
			read(c.end)
			if got := r.Outcome(true, true); got != c.want {
				t.Errorf("%s, in parts of %d: %s, want %s", c.name, within, OutcomeNames[got], OutcomeNames[c.want])
			}
			if n := cap(r.tail) + cap(r.head) + cap(r.last); n > 4*tailSize {
				t.Errorf("%s, in parts of %d: retains %d bytes", c.name, within, n)
			}
		}
	}
}

// What is left out of a long answer in one piece is not held against it.
func TestOutcomeOfALongValue(t *testing.T) {
	text := `{"id":"r","object":"response","instructions":"` + strings.Repeat("x", 2*tailSize) +
		`","output":[{"type":"message"}],"status":"completed"}`
	for size := 1; size <= len(text); size *= 2 {
		var r Reader
		r.WithoutUsage()
		for part := range slices.Chunk([]byte(text), size) {
			r.Read(part)
		}
		if got := r.Outcome(true, true); got != Complete {
			t.Errorf("in parts of %d: %s", size, OutcomeNames[got])
		}
	}
}

// The end is known where only the ends of parts were read, too.
func TestOutcomeOfEndsOfParts(t *testing.T) {
	for end, want := range map[string]Outcome{
		chatStop + done: Complete, chatUse + done: Complete, done: Complete, "": Unfinished,
		"data: {\"error\":{\"code\":429}}\n\n": Overloaded,
	} {
		var r Reader
		r.ByLines()
		r.Read([]byte(chatWord))
		for _, part := range []string{strings.Repeat(chatWord, 50), strings.Repeat(chatWord, 50) + end} {
			r.Skip()
			r.Read([]byte(part[len(part)-tailSize:]))
		}
		if got := r.Outcome(true, true); got != want {
			t.Errorf("behind %q: %s, want %s", end, OutcomeNames[got], OutcomeNames[want])
		}
	}
}

// Events of an API that is not known are counted as long as nothing else has shown output.
func TestDataOfOtherAPIs(t *testing.T) {
	for text, want := range map[string]int{
		"data: hello\n\n":                             1,
		"data: hello\n\ndata: world\n\n":              2,
		": a\n\nevent: x\nid: 7\ndata: {\"n\":1}\n\n": 1,
		"data:\n\ndata: \n\n":                         0,
		"{\"n\":1}\n{\"n\":2}\n":                      2,
		chatRole + "data: {\"n\":1}\n\n":              0,
		keepAlive + "data: {}\n\ndata: ping\n\n":      0,
		chatWord + "data: {\"n\":1}\n\n":              0,
		"data: {\"text\":\"a\"}\n\n":                  0,
	} {
		var r Reader
		r.ByLines()
		if r.Read([]byte(text)); r.Data() != want {
			t.Errorf("%q: %d, want %d", text, r.Data(), want)
		}
	}
}

// What has begun without having been computed says so.
func TestVain(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, chatRole: false, chatWord: false, chatRole + chatStop: false, "data: hello\n\n": false,
		chatWord + done: false, done: true, chatRole + done: true,
		"data: {\"error\":{\"code\":500}}\n\n":                                 true,
		"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"abort\"}]}\n\n": true,
	} {
		var r Reader
		r.ByLines()
		if r.Read([]byte(text)); r.Vain() != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

// What a stream is, shows by its beginning where its headers do not say it.
func TestStreams(t *testing.T) {
	for text, want := range map[string]bool{
		chatWord: true, ": a\n\n": true, `{"choices":[{"text":"a"}]}`: false, `[{"generated_text":"a"}]`: false,
		begins["gemini, a list"].control: true, "": false, " \n": false,
	} {
		var r Reader
		if r.Read([]byte(text)); r.Streams() != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

// An answer that shows no output for long, or whose beginning is too long to tell, is not waited for.
func TestLateOutputIsNotWaitedFor(t *testing.T) {
	var r Reader
	r.ByLines()
	for n := 0; n <= maxUnsettled; n += len(ping) {
		if r.Begun() {
			t.Fatalf("begun after %d bytes", n)
		}
		r.Read([]byte(ping))
	}
	if !r.Begun() {
		t.Errorf("not begun after %d bytes", maxUnsettled)
	}
	var one Reader
	one.Read([]byte(`{"prompt_logprobs":[` + strings.Repeat("0.5,", tailSize)))
	if !one.Begun() {
		t.Error("an answer in one piece has not begun after its first part")
	}
	// a long event that is no output, of which the type is too far behind
	var long Reader
	long.ByLines()
	for _, part := range []string{
		"event: response.created\ndata: {\"response\":{\"instructions\":\"",
		strings.Repeat("x", 50_000), "\",\"output\":[]},\"type\":\"response.created\"}\n\n",
	} {
		if long.Read([]byte(part)); long.Begun() {
			t.Fatal("begun with an event that announces others")
		}
	}
	if long.Read([]byte(chatWord)); !long.Begun() {
		t.Error("not begun with output behind a long event")
	}
}

// Streams take no memory once they have begun.
func TestReadingAllocatesNothing(t *testing.T) {
	var r Reader
	r.ByLines()
	for range 20 {
		r.Read([]byte(chatWord))
	}
	part := []byte(chatWord)
	if n := testing.AllocsPerRun(100, func() {
		r.Read(part)
		r.Read(part[:50])
		r.Read(part[50:])
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzReader reads any text, in any parts: that ends, within bounds, and what is found in lines does not depend on the
// parts.
func FuzzReader(f *testing.F) {
	for _, c := range begins {
		f.Add([]byte(c.control+c.output), uint16(7), c.lines)
	}
	for _, c := range ends {
		f.Add([]byte(c.text), uint16(5), lines(c.text))
	}
	f.Fuzz(func(t *testing.T, text []byte, at uint16, byLines bool) {
		read := func(sizes ...int) string {
			var r Reader
			if byLines {
				r.ByLines()
			}
			rest := bytes.Clone(text)
			for _, n := range sizes {
				n = min(n, len(rest))
				r.Read(rest[:n])
				rest = rest[n:]
			}
			r.Read(rest)
			if n := len(r.tail) + len(r.head) + len(r.last); n > 2*tailSize+lastSize {
				t.Fatalf("%d bytes are retained", n)
			}
			begun, streams := r.Begun(), r.Streams()
			usage, found := r.Usage(true)
			return fmt.Sprint(begun, streams, usage, found, OutcomeNames[r.Outcome(true, true)])
		}
		n := int(at) % (len(text) + 1)
		whole, parts := read(), read(n, n/2)
		if byLines && len(text) <= lastSize && parts != whole {
			t.Fatalf("%q cut at %d: %s, in one part %s", text, n, parts, whole)
		}
	})
}
