package placement

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/internal/accesslog"
	"github.com/warmgate/warmgate/lb/answer"
	"github.com/warmgate/warmgate/lb/prompt"
)

// What is written of a request is what is read of it, whatever its client has called the model.
func TestRecordIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.IntRange(0, 1<<20)
		r := Record{
			Model: string(rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "model")),
			TTFT:  time.Duration(number.Draw(t, "ttft")) * time.Millisecond,
			Bytes: number.Draw(t, "bytes"), Matches: rapid.Bool().Draw(t, "matches"),
			Session: rapid.Uint32().Draw(t, "session"), Estimated: rapid.Bool().Draw(t, "estimated"),
			Tokens: answer.Usage{
				Prompt: 1 + number.Draw(t, "prompt"), Output: number.Draw(t, "output"),
				Cached: number.Draw(t, "cached"),
			},
			blocks: []prompt.Block{{Key: 1 << 40, End: 512}, {Key: 7, End: 1024}},
		}
		line := string(r.Append([]byte("host=10.0.0.1:8000 reason=chosen load=3")))
		for _, c := range line {
			if c <= ' ' && c != ' ' || c >= 0x7f || c == '"' || c == '\\' {
				t.Fatalf("%q", line)
			}
		}
		note, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		log, err := accesslog.Parse(strings.NewReader(
			fmt.Sprintf(`{"start_time":"2026-11-28T06:00:00Z","duration":1,"response_code":200,"warmgate":%s}`, note)))
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		want := accesslog.Request{
			Start: log.Requests[0].Start, Duration: time.Millisecond, Status: 200, Host: "10.0.0.1:8000",
			Reason: "chosen", Model: r.Model[:min(len(r.Model), maxModel)], TTFT: r.TTFT, Prompt: r.Tokens.Prompt,
			Output: r.Tokens.Output, Estimated: r.Estimated, Bytes: r.Bytes, Session: uint64(r.Session),
		}
		if !r.Estimated {
			want.Cached = r.Tokens.Cached
		}
		if r.Matches {
			want.Marks, _ = prompt.ParseFingerprint(string(prompt.AppendFingerprint(nil, r.blocks, 0)))
		}
		got := log.Requests[0]
		if !slices.Equal(got.Marks, want.Marks) {
			t.Fatalf("%q: %v", line, got.Marks)
		}
		if got.Marks, want.Marks = nil, nil; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%q:\n%+v, want\n%+v", line, got, want)
		}
	})
}
