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
	next int
}

// at returns when a request of the trace is sent.
func (l *traceLoad) at(i int) time.Duration {
	ms := l.Requests[i].Timestamp - l.Requests[0].Timestamp
	return time.Duration(float64(ms) * float64(time.Millisecond) / l.Speed)
}

func (l *traceLoad) Begin() []time.Duration {
	if len(l.Requests) == 0 {
		return nil
	}
	return []time.Duration{0}
}

func (l *traceLoad) Send(time.Duration, int) (*Request, time.Duration) {
	t := &l.Requests[l.next]
	r := &Request{Session: name(uint64(l.next), 3), Answer: t.Output, OneMessage: true}
	r.Prompt = make([]engine.Part, len(t.HashIDs))
	if len(t.HashIDs) > 1 { // the turns of a conversation have the second block in common
		r.Session = name(uint64(t.HashIDs[1]), 4)
	}
	left := t.Input
	for i, id := range t.HashIDs {
		tokens := min(left, mooncake.Block)
		left -= tokens
		r.Prompt[i] = engine.Part{Name: name(uint64(id), uint64(tokens)<<8|5), Tokens: tokens}
	}
	if l.next++; l.next == len(l.Requests) {
		return r, Never
	}
	return r, l.at(l.next)
}

func (l *traceLoad) Ended(time.Duration, int, *Request, bool) time.Duration { return Never }
