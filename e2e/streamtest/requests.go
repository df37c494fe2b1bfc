package streamtest

import (
	"fmt"
	"hash/crc32"
	"strings"
)

// Events of streams.
const (
	eventStream = "text/event-stream" // is their type
	doneEvent   = "data: [DONE]\n\n"
	wordEvent   = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\n"
	stopEvent   = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
)

// chat is a usual request.
func chat() Request {
	return Request{Frames: []string{`{"model":"m","messages":[{"role":"user","content":"hello"}]}`}}
}

// chatIn is one through a worker.
func (t *run) chatIn(worker int) Request {
	r := chat()
	r.Worker = worker % t.Workers()
	return r
}

// completion is a body with a prompt of n bytes that limits the answer to so many tokens, 0 for no limit.
func completion(n, limit int) string {
	body := `{"model":"m","prompt":"` + strings.Repeat("x", n) + `"`
	if limit > 0 {
		body += fmt.Sprintf(`,"max_tokens":%d`, limit)
	}
	return body + "}"
}

// conversation returns a request with a turn for each seed. Those that begin with the same seeds have the same
// beginning. Every scenario has conversations of its own, because the previous scenario may just have sent them
// elsewhere, and a model of its own, for which no earlier answer has reported usage.
func (t *run) conversation(seeds ...int) Request {
	var turns []string
	for _, seed := range seeds {
		text := t.Name() + strings.Repeat(fmt.Sprintf(" turn %d goes on", seed), 250)
		turns = append(turns, `{"role":"user","content":"`+text+`"}`)
	}
	return Request{Frames: []string{`{"model":"` + t.Name() + `","messages":[` + strings.Join(turns, ",") + `]}`}}
}

// client returns an address of this scenario alone: a gateway remembers for a minute whom every endpoint has refused,
// and may play the next scenario by then.
func (t *run) client(i int) string {
	return fmt.Sprintf("127.0.%d.%d", 1+crc32.ChecksumIEEE([]byte(t.Name()))%250, i)
}

// from returns a usual request of one of five clients.
func (t *run) from(i int) Request {
	r := t.chatIn(i)
	r.Client = t.client(20 + i%5)
	return r
}
