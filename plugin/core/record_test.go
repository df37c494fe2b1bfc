package core

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb/prompt"
)

const recordConfig = `{"lb_policy":"prefix_cache","lb_config":{"max_inflight":1,
	"session_affinity":true,"session":{"key":["header:x-session"]},"prefix":{"table_bytes":65536}}}`

// At the end of a request, the access log has what it was: how long the first token took, what the answer says of
// tokens, how much was expected to be cached, and how its prompt begins. What a client sends cannot break the line.
func TestRecordInTheAccessLog(t *testing.T) {
	d := startFake(t, 1, 1, recordConfig)
	const text = `{"model":"a \"b\" c=1","stream":true,"messages":[{"role":"user","content":"`
	ask := func(more string) *fakeStream {
		return d.client(0, streamtest.Request{
			Headers: [][2]string{{"x-session", "secret 1"}},
			Frames:  []string{text + strings.Repeat("To be, or not to be. ", 100) + more + `"}]}`},
		})
	}
	for range 2 {
		c := ask("")
		if refused := ask("x"); refused.Result().Status != 429 {
			t.Fatalf("%+v", refused.Result())
		}
		c.Head(200, [2]string{"content-type", "text/event-stream"})
		d.advance(1234 * time.Millisecond)
		c.Data(wordEvent)
		d.advance(time.Second)
		c.Data("data: {\"usage\":{\"prompt_tokens\":500,\"completion_tokens\":9," +
			"\"prompt_tokens_details\":{\"cached_tokens\":400}}}\n\n" + stopEvent)
		c.Finish()
	}
	c := ask("")
	c.Head(200, [2]string{"content-type", "text/event-stream"})
	for range 20 {
		c.Data(wordEvent)
	}
	c.Data(stopEvent)
	c.Finish()
	// nine in each event, as the answers before have said
	const without = " output_tokens=180 usage=estimated "
	if last := d.access[len(d.access)-1]; !strings.Contains(last, without) {
		t.Errorf("of a stream without usage the access log has %q, want %q in it", last, without)
	}
	const begin, model = " policy=prefix_cache outcome=\\w+", " model=a%20%22b%22%20c%3D1"
	const of = "(?: rule=cost)? session_id=[0-9a-f]+ prompt=([\\w-]+)"
	const served = "host=10\\.0\\.0\\.1:8000 reason=chosen load=1 session=home" + begin + model +
		" ttft=1234ms prefill=1234ms(?: \\w+=[0-9msu]+)*" +
		" prompt_tokens=500 output_tokens=9 cached_tokens=400 prompt_bytes=\\d+ match="
	const refused = "host=- reason=at_capacity" + begin +
		" prompt_bytes=\\d+ match=0\\.00"
	var prints []string
	for i, want := range []string{refused, served + "0\\.00", refused, served + "(?:0\\.9\\d|1\\.00)"} {
		want += of
		found := regexp.MustCompile("^" + want + "$").FindStringSubmatch(d.access[i])
		if found == nil {
			t.Fatalf("the access log has %q, want %q", d.access[i], want)
		}
		prints = append(prints, found[1])
	}
	if prints[0] != prints[2] || prints[1] != prints[3] || prints[0] == prints[1] || prints[0][:10] != prints[1][:10] {
		t.Errorf("prompts %q", prints)
	}
	if marks, ok := prompt.ParseFingerprint(prints[1]); !ok || len(marks) < 3 {
		t.Errorf("%q is of %v", prints[1], marks)
	}
	d.drained()
}

// Of a request for which the plugin is off the access log has no more than that.
func TestRecordWithoutAPolicy(t *testing.T) {
	d := startFake(t, 1, 1, `{"enabled":false}`)
	d.client(0, streamtest.Request{}).Finish()
	if got := d.access[0]; got != "host=- reason=disabled" {
		t.Errorf("the access log has %q", got)
	}
}
