package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/stats"
)

// shareOfFourth has twelve clients send requests in a closed loop to four servers for eight seconds. Three stream for
// 250 ms; the fourth answers at once, as given. It returns the share of all requests that the fourth has got.
func shareOfFourth(t *testing.T, answer func(c *fakeStream)) float64 {
	d := startFake(t, 2, 4, `{"lb_policy":"global_least_request","lb_config":{"health":{"slow_start":0}}}`)
	var all, fourth float64
	var send func(client int)
	send = func(client int) {
		c := d.client(client%2, streamtest.Request{
			Client: fmt.Sprint("10.9.0.", client), Frames: []string{"{}"},
		})
		again := func(after time.Duration, end func()) {
			d.after(after, func() { end(); send(client) })
		}
		if all++; c.Upstream() == 3 {
			fourth++
			answer(c)
			again(5*time.Millisecond, func() {})
			return
		}
		c.Head(200, eventStream)
		c.Data(wordEvent)
		again(250*time.Millisecond, func() { c.Data(stopEvent + doneEvent); c.Finish() })
	}
	for client := range 12 {
		send(client)
	}
	d.advance(8 * time.Second)
	return fourth / all
}

// A server that fails at once under status 200 gets no more requests than one that answers 500 at once.
func TestShareOfAServerThatFailsUnder200(t *testing.T) {
	with := func(kind, body string) func(c *fakeStream) {
		return func(c *fakeStream) {
			c.Head(200, [2]string{"content-type", kind})
			c.Data(body)
			c.Finish()
		}
	}
	const failed = `{"error": {"message": "worker is not ready", "code": 500}}`
	for name, answer := range map[string]func(c *fakeStream){
		"status 500":  func(c *fakeStream) { c.Head(500); c.Finish() },
		"event":       with("text/event-stream", "data: "+failed+"\n\n"+doneEvent),
		"named event": with("text/event-stream", "event: error\ndata: "+failed+"\n\n"),
		"json":        with("application/json", failed),
		"aborted": with("text/event-stream", "data: {\"choices\": [{\"index\": 0, \"delta\": {\"content\": \"\"}, "+
			"\"finish_reason\": \"abort\"}]}\n\n"+doneEvent),
		"nothing":    with("text/event-stream", ""),
		"no choices": with("application/json", `{"choices":[]}`),
		"no usage":   with("application/json", `{"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0}}`),
		"no body":    func(c *fakeStream) { c.Head(200); c.Data(""); c.Finish() },
		"no json":    with("application/json", ""),
		"no member":  with("application/json", "{}"),
		"null":       with("application/json", "null"),
		"a page":     with("text/html", "<html>"+strings.Repeat("<p>maintenance", 900)+"</html>"),
		"a text":     with("text/plain", "no healthy upstream"),
		"a detail":   with("application/json", `{"detail":"Internal Server Error"}`),
		"errors":     with("application/json", `{"errors":[{"message":"not ready"}]}`),
		"a code":     with("application/json", `{"code":500,"message":"not ready"}`),
		"a beat":     with("text/event-stream", createdEvent+beatEvent),
		"a stranger": with("text/event-stream", roleEvent+"event: idle\ndata: {\"at\":9}\n\n"),
		"mislabeled": with("text/plain", "data: "+failed+"\n\n"),
		"unlabeled":  with("application/octet-stream", failed),
	} {
		share := shareOfFourth(t, answer)
		if t.Logf("%s: %.3f", name, share); share > 0.1 {
			t.Errorf("%s: %.3f of all requests", name, share)
		}
	}
}

// Once it is known what answers of an API look like, good ones that look otherwise have not failed.
func TestGoodAnswersHaveNotFailed(t *testing.T) {
	kind := func(name string) [2]string { return [2]string{"content-type", name} }
	gzip := [2]string{"content-encoding", "gzip"}
	for name, c := range map[string]struct {
		method, path string
		status       int
		header       [2]string
		body         string
	}{
		"no content":      {"POST", "", 204, kind(""), ""},
		"accepted":        {"POST", "", 202, kind("application/json"), ""},
		"preflight":       {"OPTIONS", "", 200, kind(""), ""},
		"head":            {"HEAD", "", 200, kind("application/json"), ""},
		"stored answers":  {"GET", "", 200, kind("application/json"), `{"object":"list","data":[]}`},
		"a stored page":   {"GET", "", 200, kind("text/html"), "<html></html>"},
		"compressed":      {"POST", "", 200, gzip, "\x1f\x8b\x08"},
		"so without word": {"POST", "", 200, kind("application/octet-stream"), "\x1f\x8b\x08"},
		"audio":           {"POST", "", 200, kind("audio/mpeg"), "{}"},
		"no text":         {"POST", "", 200, kind("application/json"), `{"choices":[{"finish_reason":"stop"}]}`},
		"nothing to say":  {"POST", "", 200, kind("application/json"), `{"choices":[],"usage":{"prompt_tokens":1}}`},
		"embeddings":      {"POST", "/v1/embeddings", 200, kind("application/octet-stream"), "{\x00"},
		"silence":         {"POST", "/v1/audio/transcriptions", 200, kind("text/plain"), ""},
		"another API":     {"POST", "/v1/other", 200, kind("text/html"), "<html></html>"},
		"no members":      {"POST", "/v2/models/m/generate", 200, kind("application/json"), "{}"},
		"of no other":     {"POST", "/v1/messages", 200, kind("application/json"), "{}"},
	} {
		d := startFake(t, 1, 1, requestsConfig)
		d.readsEnds(1, true)
		s := d.client(0, streamtest.Request{Method: c.method, Path: c.path, Frames: []string{"{}"}})
		s.Head(c.status, c.header)
		if c.body != "" {
			s.Data(c.body)
		}
		s.response(func() { s.core.OnResponseBody(0, true) })
		if got := s.core.first.Judge.Verdict(); got != lb.Success {
			t.Errorf("%s: verdict %d", name, got)
		}
		s.end()
		for counter := range d.metrics.values {
			if strings.HasPrefix(counter, stats.Failed) {
				t.Errorf("%s: counted as %s", name, counter)
			}
		}
		d.drained()
	}
}

// An answer that was not read, or was broken off, is not judged by what it lacks.
func TestAnswersThatAreNotRead(t *testing.T) {
	d := startFake(t, 1, 1, requestsConfig)
	d.readsEnds(1, true)
	for range 20 {
		c := d.client(0, streamtest.Request{Frames: []string{"{}"}})
		c.Head(200, eventStream)
		c.Data(roleEvent)
		c.ResetByClient()
	}
	if w := d.weights()[d.Addr(0)]; w != 1 {
		t.Errorf("weight %v", w)
	}
}

// What an error says of a model or a length under status 200 is a fact, as under the status for it.
func TestFactsUnder200(t *testing.T) {
	const long = "The input (9000 tokens) is longer than the model's context length (8192 tokens)."
	absent := "The model `sql-adapter` does not exist."
	for name, c := range map[string]struct{ body, says string }{
		"SGLang, too long":        {"data: {\"error\":{\"message\":%q}}\n\n" + doneEvent, long},
		"a code, too long":        {`{"error":{"message":%q,"code":400}}`, long},
		"one value, too long":     {`{"object":"error","message":%q,"type":"BadRequestError"}`, long},
		"an abort, too long":      {`{"text":"","meta_info":{"finish_reason":{"type":"abort","message":%q}}}`, long},
		"an event, no such model": {"data: {\"error\":{\"message\":%q,\"code\":404}}\n\n" + doneEvent, absent},
		"a word, no such model":   {`{"error":%q}`, absent},
		"detail, no such model":   {`{"detail":%q}`, absent},
	} {
		d := startFake(t, 2, 4, requestsConfig)
		d.readsEnds(8, true) // both workers know what answers look like
		loops := newLoops("sql-adapter", "sql-adapter", "sql-adapter", "sql-adapter", "base", "base", "base", "base")
		had, refused := d.loopsPlay(loops, func(kind string) streamtest.Request {
			if kind == "base" || c.says == absent {
				return bodyOf(kind, 100)
			}
			return bodyOf("base", 30_000)
		}, func(kind string, at int) (int, string) {
			if kind == "base" || at >= 2 {
				return 200, ""
			}
			return 200, fmt.Sprintf(c.body, c.says)
		}, 10*time.Second)
		if t.Logf("%s: %v, refused %v", name, had, refused); refused["sql-adapter"] > 10 {
			t.Errorf("%s: %d were refused", name, refused["sql-adapter"])
		}
		for addr, w := range d.weights() {
			if w != 1 {
				t.Errorf("%s: %s has weight %v", name, addr, w)
			}
		}
	}
}
