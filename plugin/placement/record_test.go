package placement

import (
	"cmp"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/internal/accesslog"
	"github.com/warmgate/warmgate/lb/price"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/measured"
)

// What is written of a request is what is read of it, whatever its client has called the model.
func TestRecordIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.IntRange(0, 1<<20)
		prefill := time.Duration(number.Draw(t, "prefill")) * time.Millisecond
		m := measured.Request{
			Model: string(rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "model")),
			TTFT:  prefill + time.Duration(number.Draw(t, "wait"))*time.Millisecond, Prefill: prefill,
			PerToken: time.Duration(number.Draw(t, "per token")), GapP99: time.Duration(number.Draw(t, "gap")),
			Tokens: price.Tokens{
				Input: 1 + int64(number.Draw(t, "prompt")), Cached: int64(number.Draw(t, "cached")),
				Output: int64(number.Draw(t, "output")), Reasoning: int64(number.Draw(t, "reasoning")),
				Estimated: rapid.Bool().Draw(t, "estimated"),
			},
			Cost: int64(number.Draw(t, "cost")), Match: rapid.Float64Range(0, 1).Draw(t, "match"), Matches: true,
			Rule: "cost", RunnerUp: "10.0.0.2:8000", LostBy: rapid.Float64Range(0, 1e9).Draw(t, "lost by"),
			Target: "in_time", Reason: "chosen", Endpoint: "10.0.0.1:8000",
		}
		r := Record{Bytes: number.Draw(t, "bytes"), Session: rapid.Uint32().Draw(t, "session")}
		if rapid.Bool().Draw(t, "prompt") {
			r.blocks = []prompt.Block{{Key: 1 << 40, End: 512}, {Key: 7, End: 1024}}
		}
		line := string(r.AppendLine([]byte("host=10.0.0.1:8000 reason=chosen load=3"), &m))
		for _, c := range line {
			if c <= ' ' && c != ' ' || c >= 0x7f || c == '"' || c == '\\' {
				t.Fatalf("%q", line)
			}
		}
		want := accesslog.Request{
			Start: start, Duration: time.Millisecond, Status: 200, Host: "10.0.0.1:8000", Reason: "chosen",
			Model: m.Model[:min(len(m.Model), measured.MaxModel)], Prefill: cmp.Or(m.Prefill, m.TTFT),
			Prompt: int(m.Tokens.Prompt()), Output: int(m.Tokens.Completion()), Estimated: m.Tokens.Estimated,
			Bytes: r.Bytes, Session: uint64(r.Session),
		}
		if !m.Tokens.Estimated {
			want.Cached = int(m.Tokens.Cached)
		}
		if len(r.blocks) > 0 {
			want.Marks, _ = prompt.ParseFingerprint(string(prompt.AppendFingerprint(nil, r.blocks, 0)))
		}
		isRead(t, `"warmgate":"`+line+`"`, &want)
		fields := measured.AppendQuoted(nil, r.Fields(m.Fields(nil, true)))
		want.Cached, want.Prefill, want.Model = int(m.Tokens.Cached), m.Prefill, measured.Clean(m.Model)
		isRead(t, `"warmgate":"host=-","warmgate_fields":"`+string(fields)+`"`, &want)
	})
}

var start = time.Date(2026, 11, 28, 6, 0, 0, 0, time.UTC)

// isRead requires that a log with the members in its line is read as a request.
func isRead(t *rapid.T, members string, want *accesslog.Request) {
	t.Helper()
	log, err := accesslog.Parse(strings.NewReader(
		`{"start_time":"2026-11-28T06:00:00Z","duration":1,"response_code":200,` + members + `}`))
	if err != nil {
		t.Fatalf("%q: %v", members, err)
	}
	if got := log.Requests[0]; !reflect.DeepEqual(got, *want) {
		t.Fatalf("%q:\n%+v, want\n%+v", members, got, want)
	}
}
