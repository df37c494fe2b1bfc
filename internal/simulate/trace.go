package simulate

import (
	"time"

	"github.com/warmgate/warmgate/internal/mooncake"
	"github.com/warmgate/warmgate/internal/simulate/engine"
)

// Trace describes a load: the requests of a trace, at its own pace or faster.
type Trace struct {
	Requests []mooncake.Request
	Speed    float64 // by which it is faster than recorded, above 0
}

// New returns the load. Nothing in it is random.
func (t *Trace) New(uint64) Load { return &traceLoad{Trace: *t} }

type traceLoad struct {
	Trace
	send func(at time.Duration, number int)
}

// at returns when a request of the trace is sent.
func (l *traceLoad) at(i int) time.Duration {
	ms := l.Requests[i].Timestamp - l.Requests[0].Timestamp
	return time.Duration(float64(ms) * float64(time.Millisecond) / l.Speed)
}

func (l *traceLoad) Begin(send func(at time.Duration, number int)) {
	if l.send = send; len(l.Requests) > 0 {
		send(0, 0)
	}
}

func (l *traceLoad) Send(_ time.Duration, number int) *Request {
	if next := number + 1; next < len(l.Requests) {
		l.send(l.at(next), next)
	}
	t := &l.Requests[number]
	r := &Request{Session: name(uint64(number), 3), Answer: t.Output, OneMessage: true}
	if len(t.HashIDs) > 1 { // the turns of a conversation have the second block in common
		r.Session = name(uint64(t.HashIDs[1]), 4)
	}
	r.Prompt = make([]engine.Part, len(t.HashIDs))
	left := t.Input
	for i, id := range t.HashIDs {
		tokens := min(left, mooncake.Block)
		left -= tokens
		r.Prompt[i] = engine.Part{Name: name(uint64(id), uint64(tokens)<<8|5), Tokens: tokens}
	}
	return r
}

func (l *traceLoad) Ended(time.Duration, int, *Request, bool) {}
