package measured

import (
	"encoding/binary"
	"math"
	"time"
)

// Field is one thing that is known of a request, for its span and for access logs with fields.
type Field struct {
	Name   string
	Text   string // "" for a number
	Number float64
}

// Fields appends what is known of the request to list: with over, how it has ended, too. Tokens are named as APIs
// report them: those of the prompt with those that were cached, those of the answer with those of reasoning.
func (r *Request) Fields(list []Field, over bool) []Field {
	text := func(name, text string) {
		if text != "" {
			list = append(list, Field{Name: name, Text: text})
		}
	}
	number := func(name string, n float64) { list = append(list, Field{Name: name, Number: n}) }
	lasted := func(name string, d, unit time.Duration) {
		if d > 0 {
			number(name, float64(d/unit))
		}
	}
	text("endpoint", r.Endpoint)
	text("reason", r.Reason)
	text("policy", r.Policy)
	text("class", r.Class)
	text("model", Clean(r.Model))
	text("operation", r.Operation)
	lasted("wait_ms", r.Wait, time.Millisecond)
	lasted("ttft_ms", r.TTFT, time.Millisecond)
	lasted("prefill_ms", r.Prefill, time.Millisecond)
	lasted("decode_ms", r.Decode, time.Millisecond)
	lasted("per_token_us", r.PerToken, time.Microsecond)
	lasted("gap_p99_ms", r.GapP99, time.Millisecond)
	if r.Matches {
		number("match", r.Match)
	}
	text("runner_up", r.RunnerUp)
	if r.RunnerUp != "" {
		number("lost_by", r.LostBy)
	}
	text("rule", r.Rule)
	text("target", r.Target)
	if over {
		list = r.endFields(list)
	}
	return list
}

// endFields appends what is known of a request at its end alone.
func (r *Request) endFields(list []Field) []Field {
	number := func(name string, n int64) { list = append(list, Field{Name: name, Number: float64(n)}) }
	list = append(list, Field{Name: "outcome", Text: r.Outcome.String()})
	if kind := r.errorType(); kind != "" {
		list = append(list, Field{Name: "error", Text: kind})
	}
	if r.Duration > 0 {
		number("duration_ms", r.Duration.Milliseconds())
	}
	if r.Retries > 0 {
		number("retries", int64(r.Retries))
	}
	if t := &r.Tokens; t.Prompt()+t.Completion() > 0 {
		number("prompt_tokens", t.Prompt())
		number("cached_tokens", t.Cached)
		number("output_tokens", t.Completion())
		number("reasoning_tokens", t.Reasoning)
		usage := "reported"
		if t.Estimated {
			usage = "estimated"
		}
		list = append(list, Field{Name: "usage", Text: usage})
	}
	if r.Cost > 0 {
		number("cost_nano", r.Cost)
	}
	return list
}

// errorType returns what error.type of OpenTelemetry says of the request, "" for nothing: one of few names.
func (r *Request) errorType() string {
	switch r.Outcome {
	case OK:
		return ""
	case ClientError, ServerFailed:
		if s := r.Status; s >= 400 && s < 600 { // three digits
			return string([]byte{byte('0' + s/100), byte('0' + s/10%10), byte('0' + s%10)})
		}
	}
	return r.Outcome.String()
}

// AppendStruct appends the fields as a google.protobuf.Struct, the form in which Envoy's access logs, tracers and
// expressions understand them.
func AppendStruct(b []byte, fields []Field) []byte {
	const numberSize = 1 + 8
	for i := range fields {
		f := &fields[i]
		value := numberSize
		if f.Text != "" {
			value = sizeText(f.Text)
		}
		b = appendLength(append(b, 1<<3|lengthDelimited), sizeText(f.Name)+1+sizeLength(value)+value)
		b = appendText(b, 1, f.Name)
		b = appendLength(append(b, 2<<3|lengthDelimited), value)
		if f.Text != "" {
			b = appendText(b, 3, f.Text)
			continue
		}
		b = binary.LittleEndian.AppendUint64(append(b, 2<<3|fixed64), math.Float64bits(f.Number))
	}
	return b
}

// The wire types of protobuf.
const (
	fixed64         = 1
	lengthDelimited = 2
)

func appendLength(b []byte, n int) []byte { return binary.AppendUvarint(b, uint64(n)) }

func appendText(b []byte, field byte, text string) []byte {
	return append(appendLength(append(b, field<<3|lengthDelimited), len(text)), text...)
}

// sizeText returns how many bytes appendText appends.
func sizeText(text string) int { return 1 + sizeLength(len(text)) + len(text) }

// sizeLength returns how many bytes appendLength appends.
func sizeLength(n int) int {
	size := 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}
