package answer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pair is a member of an object.
type pair struct {
	name  string
	value json.RawMessage
}

// membersOf returns the members of an object in their order, and false if the value is something else.
func membersOf(value []byte) (all []pair, ok bool) {
	d := json.NewDecoder(bytes.NewReader(value))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, false
	}
	for d.More() {
		name, err := d.Token()
		var m pair
		if err != nil || d.Decode(&m.value) != nil {
			return nil, false
		}
		m.name = name.(string)
		all = append(all, m)
	}
	return all, true
}

// objectNamed returns the last member that is an object and has one of the names.
func objectNamed(value []byte, names ...string) (object []byte) {
	all, _ := membersOf(value)
	for _, m := range all {
		if slices.Contains(names, m.name) && m.value[0] == '{' {
			object = m.value
		}
	}
	return object
}

// referenceUsage adds the usage of an event, or of an answer in one part, to u, with encoding/json.
func referenceUsage(u *usageSeen, answer []byte, event bool) {
	if !json.Valid(answer) {
		return
	}
	answers := []json.RawMessage{answer}
	if bytes.TrimSpace(answer)[0] == '[' && json.Unmarshal(answer, &answers) != nil {
		return
	}
	var usage []byte
	for _, answer := range answers {
		all, _ := membersOf(answer)
		for _, m := range all {
			switch {
			case m.value[0] != '{':
			case slices.Contains([]string{"usage", "meta_info", "usageMetadata"}, m.name):
				usage = m.value
			case event && (m.name == "response" || m.name == "message"):
				if inner := objectNamed(m.value, "usage"); inner != nil {
					usage = inner
				}
			}
		}
	}
	all, _ := membersOf(usage)
	for _, m := range all {
		if n, err := strconv.ParseUint(string(m.value), 10, 63); err == nil { // no sign: -0 is no number of tokens
			u.set([]byte(m.name), int(n))
		}
		detail := map[string]string{
			"prompt_tokens_details": "cached_tokens", "input_tokens_details": "cached_tokens",
			"completion_tokens_details": "reasoning_tokens", "output_tokens_details": "reasoning_tokens",
		}[m.name]
		if detail != "" {
			details, _ := membersOf(m.value)
			for _, d := range details {
				if n, err := strconv.ParseUint(string(d.value), 10, 63); err == nil && d.name == detail {
					u.set([]byte(d.name), int(n))
				}
			}
		}
	}
}

// forger writes JSON that contains imitations of usage wherever possible.
type forger struct{ *rand.Rand }

func (f forger) pick(from ...string) string { return from[f.IntN(len(from))] }

func (f forger) key() string {
	return f.pick("usage", "usage", "meta_info", "usageMetadata", "response", "message", "input", "content", "choices",
		"a\\\"", "",
		"prompt_tokens", "input_tokens", "cached_tokens", "prompt_tokens_details", "output_tokens", "_tokens",
		"reasoning_tokens", "data:",
		"\\\\")
}

// usage returns an object with usage as APIs write it.
func (f forger) usage() string {
	n := func() int { return f.IntN(5000) }
	return fmt.Sprintf(f.pick(
		`{"prompt_tokens":%d,"completion_tokens" : %d,"prompt_tokens_details":{"cached_tokens":%d}}`,
		`{"input_tokens":%d,"output_tokens":%d,"input_tokens_details":{"cached_tokens":%d}}`,
		`{"input_tokens":%d,"output_tokens":%d,"cache_read_input_tokens":%d}`,
		`{"prompt_tokens":%d,"completion_tokens":%d,"completion_tokens_details":{"a":1,"reasoning_tokens":%d}}`,
		`{"promptTokenCount":%d,"candidatesTokenCount":%d,"thoughtsTokenCount":%d}`,
		`{"prompt_tokens": %d,"completion_tokens":%d,"cached_tokens":%d,"prompt_tokens_details":null}`,
		`{"promptTokenCount":%d,"candidatesTokenCount":%d,"cachedContentTokenCount":%d}`,
	), n(), n(), n())
}

func (f forger) text() string {
	text, _ := json.Marshal(f.pick("", "a", `"`, `\`, `\"`, "你😀", "data: {}\n\n", "}}}]", `{"usage":`+f.usage()+`}`,
		strings.Repeat(`\`, f.IntN(9))))
	return string(text)
}

func (f forger) value(depth int) string {
	switch f.IntN(8 + depth) {
	case 0, 1:
		return f.object(depth + 1)
	case 2:
		var items []string
		for range f.IntN(4) {
			items = append(items, f.value(depth+1))
		}
		return "[" + strings.Join(items, ",") + "]"
	case 3, 4:
		return f.usage()
	case 5:
		return f.pick("null", "true", "12", "-1.5e3", "0")
	}
	return f.text()
}

// object returns an object with members of different names.
func (f forger) object(depth int) string {
	var b strings.Builder
	seen := map[string]bool{}
	for range f.IntN(5) {
		if key := f.key(); !seen[key] {
			seen[key] = true
			b.WriteString(f.pick(",", ", ")[:min(1, b.Len())] + `"` + key + `"` + f.pick(":", " : ") + f.value(depth))
		}
	}
	return "{" + b.String() + f.pick("}", " }")
}

// read reads the text, split into parts anywhere.
func (f forger) read(r *Reader, text string) {
	for len(text) > 0 {
		n := 1 + f.IntN(min(len(text), 1+f.IntN(300)))
		r.Read([]byte(text[:n]))
		text = text[n:]
	}
}

// The usage is what encoding/json finds in its place, whatever imitates it elsewhere, and however the response is split
// into parts.
func TestUsageIsReadInItsPlace(t *testing.T) {
	found := 0
	for seed := range uint64(30_000) {
		f := forger{rand.New(rand.NewPCG(seed, 0))}
		var text strings.Builder
		var got, want Reader
		complete := f.IntN(4) > 0
		if f.IntN(2) == 0 {
			for range 1 + f.IntN(4) {
				event := f.object(0)
				if len(event) > tailSize/2 {
					continue
				}
				text.WriteString(f.pick("", "event: x\n", ": \"prompt_tokens\":1\n", "\n") + "data:" +
					f.pick("", " ") + event +
					f.pick("\n\n", "\r\n\r\n", "\n"))
				referenceUsage(&want.usage, []byte(event), true)
			}
			text.WriteString(f.pick("", "data: [DONE]\n\n", `data: {"usage":{"prompt_tokens":1}`))
		} else {
			answer := f.pick("", "", " \n") + f.object(0) + f.pick("", "\n")
			if f.IntN(4) == 0 {
				answer = "[" + f.object(0) + ",\r\n" + f.object(0) + "]"
			}
			if len(answer) > tailSize {
				continue
			}
			if end := f.IntN(len(answer)); f.IntN(4) == 0 {
				answer = answer[:end] // truncated without an error
			}
			if text.WriteString(answer); complete {
				referenceUsage(&want.usage, []byte(answer), false)
			}
		}
		f.read(&got, text.String())
		g, gotIt := got.Usage(complete)
		w, is := want.Usage(false)
		if is {
			found++
		}
		if g != w || gotIt != is {
			t.Fatalf("seed %d, complete %v: %+v, %v; want %+v, %v:\n%s", seed, complete, g, gotIt, w, is, text.String())
		}
	}
	if found < 3000 {
		t.Errorf("only %d responses have usage", found)
	}
}

// In an answer in one part whose beginning was dropped, the nesting is known from the brackets at its end: nested usage
// does not count, wherever the rest begins.
func TestUsageAfterDroppedParts(t *testing.T) {
	found := 0
	for seed := range uint64(3000) {
		f := forger{rand.New(rand.NewPCG(seed, 1))}
		const kept = `"usage":`
		usage := f.usage()
		forged := ""
		for range 40 {
			forged += f.value(2) + ","
		}
		answer := `{"content":[{"input":{"usage":` + f.usage() + `,"x":[` + forged + `1]}}],` + kept + usage + `,"stop":` +
			f.text() + "}"
		if f.IntN(3) == 0 {
			answer = `{"content":[{"input":{"usage":` + f.usage() + `}}],"z":[` + forged + `1]}`
		}
		var want Reader
		referenceUsage(&want.usage, []byte(answer), false)
		for at := max(1, len(answer)-tailSize); at < len(answer); at += 1 + f.IntN(97) {
			if usageAt := strings.LastIndex(answer, kept+usage); usageAt >= 0 && at >= usageAt {
				break
			}
			var got Reader
			if f.IntN(2) == 0 {
				got.Read([]byte(answer[:1+f.IntN(min(at, 300))]))
			}
			got.Skip()
			f.read(&got, answer[at:])
			g, gotIt := got.Usage(true)
			w, is := want.Usage(false)
			if g != w || gotIt != is {
				t.Fatalf("seed %d, from %d on: %+v, %v; want %+v, %v:\n%s", seed, at, g, gotIt, w, is, answer[at:])
			}
			if is {
				found++
			}
			if g, gotIt := got.Usage(true); g != w || gotIt != is {
				t.Fatalf("seed %d: a second time %+v, %v", seed, g, gotIt)
			}
		}
	}
	if found < 3000 {
		t.Errorf("only %d answers have usage", found)
	}
}

// Of a long event with the usage at its end only the end is seen, alone or with other events around it.
func TestUsageOfLongEvents(t *testing.T) {
	long := strings.Repeat(`{\"usage\":{\"input_tokens\":1}},`, 300)
	event := `event: response.completed` + "\n" + `data: {"response":{"output":[{"arguments":"` + long +
		`","x":{"usage":{"input_tokens":1}}}],` +
		`"usage":{"input_tokens":900,"input_tokens_details":{"cached_tokens":800},"output_tokens":5},"user":null},` +
		`"type":"x"}` + "\n\n"
	created := `data: {"response":{"instructions":"` + long + `","usage":null}}` + "\n\n"
	want := Usage{900, 800, 5, 0}
	for name, parts := range map[string][]string{
		"behind another":      {created, event, "data: [DONE]\n\n"},
		"in one part":         {created + event + "data: [DONE]\n\n"},
		"in many":             append(strings.SplitAfter(created, ","), strings.SplitAfter(event, ",")...),
		"behind one left out": {created, "event: x\ndata: {}\n\n" + event},
		"the first":           {event + "data: [DONE]\n\n"},
	} {
		for _, complete := range []bool{true, false} {
			var r Reader
			for _, part := range parts {
				if over := len(part) - tailSize; over > 0 {
					r.Skip()
					part = part[over:]
				}
				r.Read([]byte(part))
			}
			if got, ok := r.Usage(complete); got != want || !ok {
				t.Errorf("%s, complete %v: %+v, %v", name, complete, got, ok)
			}
		}
	}
}

// FuzzUsage compares the reader with encoding/json: any valid object, as an answer and as an event, in parts.
func FuzzUsage(f *testing.F) {
	f.Add([]byte(`{"a":"\"prompt_tokens\":1,","usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":3}},`+
		`"z":[{"usage":{}}]}`), uint16(20))
	f.Add([]byte(`{"content":[{"input":{"usage":{"input_tokens":1}}}],"usage":{"input_tokens":9,`+
		`"cache_read_input_tokens":30}}`), uint16(3))
	f.Add([]byte(`{"response":{"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":3}}},`+
		`"message":{"usage":{}}}`), uint16(9))
	f.Fuzz(func(t *testing.T, body []byte, at uint16) {
		var r Reader
		r.Read(body) // whatever it is
		r.Usage(true)
		compact := bytes.Buffer{}
		if all, ok := membersOf(body); !ok || json.Compact(&compact, body) != nil || len(body) > tailSize ||
			hasDuplicates(all) {
			return
		}
		if body = compact.Bytes(); bytes.Contains(body, []byte(`\u`)) {
			return // servers write names as they are
		}
		for _, event := range []bool{true, false} {
			text := slices.Clone(body)
			if event {
				text = append(append([]byte("data: "), body...), "\n\n"...)
			}
			var got, want Reader
			n := int(at) % (len(text) + 1)
			got.Read(text[:n])
			got.Read(text[n:])
			referenceUsage(&want.usage, body, event)
			g, gotIt := got.Usage(true)
			if w, is := want.Usage(false); g != w || gotIt != is {
				t.Fatalf("%s cut at %d: %+v, %v; want %+v, %v", text, n, g, gotIt, w, is)
			}
		}
	})
}

// hasDuplicates reports whether two members have the same name: then the result is undefined.
func hasDuplicates(all []pair) bool {
	seen := map[string]bool{}
	for _, m := range all {
		inner, _ := membersOf(m.value)
		if seen[m.name] || hasDuplicates(inner) {
			return true
		}
		seen[m.name] = true
	}
	return false
}

// Parts of a stream take no memory, whole or not, except for the retained end of incomplete ones.
func TestUsageAllocatesNothing(t *testing.T) {
	chunk := []byte(`data: {"choices":[{"delta":{"content":" word"}}],` +
		`"usage":{"prompt_tokens":5,"completion_tokens":1}}` + "\n\n")
	var r Reader
	r.Read(chunk[:5])
	r.Read(chunk[5:])
	if n := testing.AllocsPerRun(100, func() {
		r.Read(chunk)
		r.Read(chunk[:50])
		r.Read(chunk[50:])
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if u, ok := r.Usage(true); !ok || u.Prompt != 5 {
		t.Errorf("%+v, %v", u, ok)
	}
}
