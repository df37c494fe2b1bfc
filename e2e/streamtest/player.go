package streamtest

import (
	"strconv"

	"github.com/warmgate/warmgate/e2e/fakehost"
)

// Player plays a request of the scenarios on the model of a gateway: its client, and its model server.
type Player struct {
	*fakehost.Stream
	// Index returns the number of the endpoint with that address, -1 when there is none.
	Index func(addr string) int
	// Settle, if set, lets what is under way arrive, after each step that may need it.
	Settle func()
	// EndsApart: a body ends with an empty frame, as over HTTP/1.
	EndsApart bool
	// ContentType is that of answers, "" for none.
	ContentType string

	status   int  // of the response, 0 before it
	answered bool // a part of it was sent
}

// Start sends the request.
func (p *Player) Start(r Request) {
	headers := fakehost.H(":method", r.Method, ":path", r.Path, ":authority", r.Authority, ":scheme", "http")
	for _, h := range r.Headers {
		headers.Set(h[0], h[1])
	}
	p.RequestHeaders(headers, len(r.Frames)+len(r.Trailers) == 0 && !r.Unended)
	for i, frame := range r.Frames {
		p.Send(frame, i == len(r.Frames)-1 && len(r.Trailers) == 0 && !r.Unended)
	}
	if len(r.Trailers) > 0 && !p.Ended {
		p.RequestTrailers(fakehost.Headers(r.Trailers))
	}
	p.settled()
}

func (p *Player) settled() {
	if p.Settle != nil {
		p.Settle()
	}
}

// Upstream implements [Stream], as do the methods below.
func (p *Player) Upstream() int {
	if !p.Reached {
		return -1
	}
	return p.Index(p.Stream.Upstream())
}

// Held implements [Stream].
func (p *Player) Held() bool { return p.Paused() }

// Received implements [Stream].
func (p *Player) Received() Received {
	m := p.Sent
	return Received{
		Headers: m.Headers.Map(), Body: string(m.Body), Trailers: m.Trailers.Map(), Ended: m.End,
	}
}

// Send implements [Stream].
func (p *Player) Send(frame string, end bool) {
	apart := end && frame != "" && p.EndsApart
	if !p.Ended {
		p.RequestBody([]byte(frame), end && !apart)
	}
	if apart && !p.Ended {
		p.RequestBody(nil, true)
	}
	p.settled()
}

// Retry implements [Stream].
func (p *Player) Retry() int {
	p.Stream.Retry()
	return p.Upstream()
}

// Head implements [Stream].
func (p *Player) Head(status int, headers ...[2]string) {
	p.status = status
	h := fakehost.H(":status", strconv.Itoa(status))
	if p.ContentType != "" {
		h.Set("content-type", p.ContentType)
	}
	p.ResponseHeaders(append(h, headers...), false)
}

// Data implements [Stream].
func (p *Player) Data(frame string) {
	p.answered = true
	p.ResponseBody([]byte(frame), false)
}

// Finish implements [Stream].
func (p *Player) Finish() {
	if p.status == 0 {
		p.Head(200)
	}
	if p.status == 200 && !p.answered {
		p.Data(Answer)
	}
	p.ResponseBody(nil, true)
	p.settled()
}

// ResetByClient implements [Stream].
func (p *Player) ResetByClient() {
	p.Stream.ResetByClient()
	p.settled()
}

// ResetByUpstream implements [Stream].
func (p *Player) ResetByUpstream() {
	p.Stream.ResetByUpstream()
	p.settled()
}

// Result implements [Stream].
func (p *Player) Result() Result {
	m := p.Stream.Received
	return Result{Status: p.Code, Headers: m.Headers.Map(), Body: string(m.Body), Cut: p.Cut}
}
