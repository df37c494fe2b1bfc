package measured

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb/price"
)

var errBad = errors.New("not a google.protobuf.Struct of texts and numbers")

// readStruct decodes what AppendStruct has written, by the rules of protobuf.
func readStruct(b []byte) (list []Field, err error) {
	for len(b) > 0 {
		entry, rest, ok := message(b, 1)
		if !ok {
			return nil, errBad
		}
		b = rest
		name, rest, ok := message(entry, 1)
		if !ok {
			return nil, errBad
		}
		value, rest, ok := message(rest, 2)
		if !ok || len(rest) > 0 {
			return nil, errBad
		}
		f := Field{Name: string(name)}
		if text, rest, ok := message(value, 3); ok && len(rest) == 0 {
			f.Text = string(text)
		} else if len(value) == 9 && value[0] == 2<<3|1 {
			f.Number = math.Float64frombits(binary.LittleEndian.Uint64(value[1:]))
		} else {
			return nil, errBad
		}
		list = append(list, f)
	}
	return list, nil
}

// message cuts a field of that number off, with a length in front.
func message(b []byte, number byte) (body, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != number<<3|2 {
		return nil, nil, false
	}
	size, n := binary.Uvarint(b[1:])
	if n <= 0 || size > uint64(len(b)-1-n) {
		return nil, nil, false
	}
	b = b[1+n:]
	return b[:size], b[size:], true
}

func TestStruct(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOf(rapid.Custom(func(t *rapid.T) Field {
			f := Field{Name: rapid.StringN(1, 8, -1).Draw(t, "name")}
			if rapid.Bool().Draw(t, "is a number") {
				f.Number = rapid.Float64().Draw(t, "number")
			} else {
				f.Text = rapid.StringN(1, 300, -1).Draw(t, "text")
			}
			return f
		})).Draw(t, "fields")
		got, err := readStruct(AppendStruct(nil, want))
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%v, %v, want %v", got, err, want)
		}
	})
}

func TestFields(t *testing.T) {
	full := Request{
		Cluster: "llm", Endpoint: "10.0.0.1:8000", Policy: "prefix_cache", Class: "gold", Model: "m", Operation: "chat",
		Status: 200, Streamed: true, Retries: 1, Duration: 1500 * time.Millisecond, Wait: 20 * time.Millisecond,
		TTFT: 120 * time.Millisecond, Prefill: 100 * time.Millisecond, Decode: 1380 * time.Millisecond,
		PerToken: 13800 * time.Microsecond, GapP99: 40 * time.Millisecond,
		Tokens: price.Tokens{Input: 30, Cached: 70, Output: 90, Reasoning: 10}, Cost: 5,
		Match: 0.5, Matches: true, RunnerUp: "10.0.0.2:8000", LostBy: 1.5, Rule: "prefix", Target: "late",
		Reason: "chosen",
	}
	number := func(name string, n float64) Field { return Field{Name: name, Number: n} }
	begin := []Field{
		{Name: "endpoint", Text: "10.0.0.1:8000"},
		{Name: "reason", Text: "chosen"},
		{Name: "policy", Text: "prefix_cache"},
		{Name: "class", Text: "gold"},
		{Name: "model", Text: "m"},
		{Name: "operation", Text: "chat"},
		number("wait_ms", 20), number("ttft_ms", 120), number("prefill_ms", 100),
		number("decode_ms", 1380), number("per_token_us", 13800), number("gap_p99_ms", 40), number("match", 0.5),
		{Name: "runner_up", Text: "10.0.0.2:8000"},
		number("lost_by", 1.5),
		{Name: "rule", Text: "prefix"},
		{Name: "target", Text: "late"},
	}
	if got := full.Fields(nil, false); !slices.Equal(got, begin) {
		t.Errorf("before its end %v, want %v", got, begin)
	}
	all := append(slices.Clip(begin), []Field{
		{Name: "outcome", Text: "ok"},
		number("duration_ms", 1500), number("retries", 1),
		number("prompt_tokens", 100), number("cached_tokens", 70), number("output_tokens", 100),
		number("reasoning_tokens", 10),
		{Name: "usage", Text: "reported"},
		number("cost_nano", 5),
	}...)
	if got := full.Fields(nil, true); !slices.Equal(got, all) {
		t.Errorf("over %v, want %v", got, all)
	}
	if got := new(Request).Fields(nil, false); len(got) != 0 {
		t.Errorf("of nothing known %v", got)
	}
	if n := testing.AllocsPerRun(100, func() { begin = full.Fields(begin[:0], true) }); n > 0 {
		t.Errorf("%g allocations where there is room", n)
	}
}

func TestErrorType(t *testing.T) {
	for _, c := range []struct {
		r    Request
		want string
	}{
		{Request{Outcome: OK, Status: 200}, ""},
		{Request{Outcome: ServerFailed, Status: 503}, "503"},
		{Request{Outcome: ServerFailed, Status: 200}, "server_failed"},
		{Request{Outcome: ServerFailed}, "server_failed"},
		{Request{Outcome: ClientError, Status: 404}, "404"},
		{Request{Outcome: ClientLeft, Status: 200}, "client_left"},
		{Request{Outcome: Refused, Status: 429}, "refused"},
		{Request{Outcome: TimedOut, Status: 504}, "timeout"},
	} {
		got := ""
		for _, f := range c.r.Fields(nil, true) {
			if f.Name == "error" {
				got = f.Text
			}
		}
		if got != c.want {
			t.Errorf("%s, %d: %q, want %q", c.r.Outcome, c.r.Status, got, c.want)
		}
	}
}
