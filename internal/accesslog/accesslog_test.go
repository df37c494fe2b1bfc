package accesslog

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb/prompt"
)

const decided = `host=10.0.0.1:8000 reason=chosen load=3 session=home class=batch wait=1250ms policy=prefix_cache ` +
	`outcome=ok model=a%20b ttft=1335ms prefill=85ms prompt_tokens=900 output_tokens=7 cached_tokens=512 prompt_bytes=4000 match=0.50 ` +
	`session_id=1f prompt=`

// wanted is what the lines of the tests say.
func wanted(marks []prompt.Mark) Request {
	return Request{
		Start: time.Date(2026, 11, 28, 6, 0, 0, 5e6, time.UTC), Duration: 1500 * time.Millisecond, Status: 200,
		Host: "10.0.0.1:8000", Reason: "chosen", Class: "batch", Model: "a b", Wait: 1250 * time.Millisecond,
		Prefill: 85 * time.Millisecond, Prompt: 900, Cached: 512, Output: 7, Bytes: 4000, Session: 0x1f, Marks: marks,
	}
}

// The same request is read from all shipped formats. Lines of others are counted, and so are those that are cut off.
func TestParse(t *testing.T) {
	fingerprint := string(prompt.AppendFingerprint(nil, []prompt.Block{{Key: 5, End: 512}, {Key: 6, End: 1024}}, 0))
	marks, _ := prompt.ParseFingerprint(fingerprint)
	note := decided + fingerprint
	old := strings.NewReplacer("ttft=1335ms ", "", "prefill", "ttft", "outcome=ok ", "").Replace(note)
	fields := `{"endpoint":"10.0.0.1:8000","reason":"chosen","class":"batch","wait_ms":1250,"policy":"prefix_cache",` +
		`"model":"a b","ttft_ms":1335,"prefill_ms":85,"outcome":"ok","prompt_tokens":900,"output_tokens":7,` +
		`"cached_tokens":512,"usage":"reported","prompt_bytes":4000,"match":0.5,"session_id":"1f","prompt":"` +
		fingerprint + `"}`
	const times = `{"start_time":"2026-11-28T06:00:00.005Z","duration":1500,"response_code":200,`
	log, err := Parse(strings.NewReader(strings.Join([]string{
		`{"start_time":"2026-11-28T06:00:00.005Z","duration":1500,"response_code":200,"warmgate":"` + note + `"}`,
		`{"warmgate":"` + note + `","duration":"1500","x":{"y":[]},"response_code":"200",` +
			`"start_time":"2026-11-28T06:00:00.005Z"}`,
		`2026-11-28T06:00:00.005Z POST /v1/x 200 - upstream=10.0.0.1:8000 attempts=1 duration=1500 ` +
			`details=via_upstream warmgate="` + note + `"`,
		times + `"warmgate":"` + old + `","warmgate_fields":null}`,
		times + `"warmgate":"host=10.0.0.1:8000 reason=chosen","warmgate_fields":` +
			`{"@type":"type.googleapis.com/google.protobuf.Struct","value":` + fields + `}}`,
		times + `"warmgate_fields":"` + strings.ReplaceAll(fields, `"`, `\"`) + `"}`,
		times + `"warmgate":"` + note + `","warmgate_fields":"-"}`,
		`{"start_time":"2026-11-28T05:59:59Z","duration":null,"response_code":0,"warmgate":"host=- reason=left_queue"}`,
		`[2026-11-28] [info] another line`, ``, `{"warmgate":null}`, `{"of":"another service"}`,
		`{"start_time":"2026-11-28T06:00:00Z","duration":1,"response_code":200,"warmgate":"api=state_ok"}`,
		`2026-11-28T06:00:00Z GET /x 200 - upstream=- attempts=0 duration=1 details=- warmgate="api=state_ok"`,
		`{"start_time":"2026-11-28T06:00:00Z","warmgate":"host=-`,
		`{"start_time":"2026-11-28T06:00:00Z","warmgate":"host=- reason=chosen prompt_tokens=-1"}`,
	}, "\n")))
	if err != nil || len(log.Requests) != 8 || log.Others != 5 || log.Bad != 2 ||
		!strings.HasPrefix(log.FirstBad.Error(), "line 15: ") {
		t.Fatalf("%+v, %v", log, err)
	}
	if first := &log.Requests[0]; first.Reason != "left_queue" || first.Served() {
		t.Errorf("%+v", first)
	}
	for i, got := range log.Requests[1:] {
		if !reflect.DeepEqual(got, wanted(marks)) || !got.Served() {
			t.Errorf("form %d: %+v, want %+v", i, got, wanted(marks))
		}
	}
}

func TestRefusals(t *testing.T) {
	line := func(start, duration, note string) string {
		return `{"start_time":"` + start + `","duration":` + duration + `,"response_code":200,"warmgate":"` + note + `"}`
	}
	fields := func(start, fields string) string {
		return `{"start_time":"` + start + `","duration":1,"warmgate":"-","warmgate_fields":` + fields + `}`
	}
	const now = "2026-11-28T06:00:00Z"
	for want, text := range map[string]string{
		"no line has":         "{}\n",
		"start_time is":       line("yesterday", "1", "reason=chosen"),
		"duration is":         line(now, "-5", "reason=chosen"),
		`"many" is no number`: line(now, "1", "reason=chosen output_tokens=many"),
		`"-1s" is no time`:    line(now, "1", "reason=chosen ttft=-1s"),
		"no fingerprint":      line(now, "1", "reason=chosen prompt=short"),
		"wait_ms is -1":       fields(now, `{"reason":"chosen","wait_ms":-1}`),
		"prompt_tokens is x":  fields(now, `{"reason":"chosen","prompt_tokens":"x"}`),
		"reason is no text":   fields(now, `{"reason":7}`),
		"no reason":           fields(now, `{}`),
		"line 1: no reason":   line(now, "1", "host=a"),
		"no value":            fields(now, `{"@type":"x"}`),
		"unexpected end":      fields(now, `"{"`),
		"no fingerprint of":   fields(now, `{"reason":"chosen","prompt":"short"}`),
		"parsing \"zz\"":      fields(now, `{"reason":"chosen","session_id":"zz"}`),
		"invalid syntax":      line(now, "1", "reason=chosen session_id=x"),
		"invalid URL escape":  line(now, "1", "reason=chosen model=%2"),
		"line 1: bufio":       strings.Repeat("x", 1<<21),
	} {
		if log, err := Parse(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v", want, log, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"start_time":"2026-11-28T06:00:00Z","duration":1,"response_code":200,"warmgate":"host=a reason=chosen"}`)
	f.Add(`{"start_time":"2026-11-28T06:00:00Z","duration":1,"warmgate_fields":{"@type":"x","value":{"reason":"a"}}}`)
	f.Add(`2026-11-28T06:00:00Z GET / 200 - duration=5 x warmgate="host=a reason=chosen ttft=1ms"`)
	f.Fuzz(func(t *testing.T, text string) {
		log, err := Parse(strings.NewReader(text))
		if (err == nil) != (log != nil && len(log.Requests) > 0) {
			t.Errorf("%+v, %v", log, err)
		}
	})
}
