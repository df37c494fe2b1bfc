package simulate

import (
	"time"

	"github.com/warmgate/warmgate/internal/mooncake"
	"github.com/warmgate/warmgate/internal/simulate/engine"
)

// Recording describes a load: requests that were recorded, at the pace of then or faster. It is an open loop: what
// becomes of a request changes nothing of the next ones. Nothing in it is random.
type Recording struct {
	Requests int
	Speed    float64 // by which it is faster than recorded, above 0

	at      func(i int) time.Duration // when a request was sent, from any time on
	request func(i int) *Request
}

// Took is the time from the first request to the last one, as it was recorded.
func (r *Recording) Took() time.Duration { return r.at(r.Requests-1) - r.at(0) }

// New returns the load.
func (r *Recording) New(uint64) Load { return &recorded{Recording: *r} }

type recorded struct {
	Recording
	send func(at time.Duration, number int)
}

func (l *recorded) Begin(send func(at time.Duration, number int)) {
	if l.send = send; l.Requests > 0 {
		send(0, 0)
	}
}

func (l *recorded) Send(_ time.Duration, number int) *Request {
	if next := number + 1; next < l.Requests {
		l.send(time.Duration(float64(l.at(next)-l.at(0))/l.Speed), next)
	}
	return l.request(number)
}

func (l *recorded) Ended(time.Duration, int, *Request, bool) {}

// FromMooncake returns the load of a trace in Mooncake's form.
func FromMooncake(trace []mooncake.Request) *Recording {
	return &Recording{
		Requests: len(trace), Speed: 1,
		at:      func(i int) time.Duration { return time.Duration(trace[i].Timestamp) * time.Millisecond },
		request: func(i int) *Request { return ofMooncake(&trace[i], i) },
	}
}

func ofMooncake(from *mooncake.Request, number int) *Request {
	r := &Request{Session: name(uint64(number), 3), Answer: from.Output, OneMessage: true}
	if len(from.HashIDs) > 1 { // the turns of a conversation have the second block in common
		r.Session = name(uint64(from.HashIDs[1]), 4)
	}
	r.Prompt = make([]engine.Part, len(from.HashIDs))
	left := from.Input
	for i, id := range from.HashIDs {
		tokens := min(left, mooncake.Block)
		left -= tokens
		r.Prompt[i] = engine.Part{Name: name(uint64(id), uint64(tokens)<<8|5), Tokens: tokens}
	}
	return r
}
