package fakehost

import "strconv"

// Reply is a response that the gateway makes itself.
type Reply struct {
	Code    int
	Details string
	Flags   uint64
	Headers Headers
	Body    []byte
}

// Reply answers for the gateway: the request goes no further and the reply passes the plugin's response
// callbacks, unless a response is on its way: then it goes straight to the client, or, if that has seen headers, the
// stream is cut.
func (s *Stream) Reply(r Reply) {
	if s.Ended {
		return
	}
	s.Request.Abort()
	s.leaveUpstream()
	s.Details = r.Details
	s.Flags |= r.Flags
	if s.Response.passed {
		s.Reset(r.Details)
		return
	}
	s.Code = r.Code
	h := H(":status", strconv.Itoa(r.Code))
	if len(r.Body) > 0 {
		h.Set("content-length", strconv.Itoa(len(r.Body)))
		h.Set("content-type", "text/plain")
	}
	for _, p := range r.Headers {
		h.Add(p[0], p[1])
	}
	s.Local = true
	if s.Replied {
		s.Response.Abort()
		s.Received = Message{Headers: h, Body: r.Body, End: true}
		s.end()
		return
	}
	s.Replied = true
	s.Response.onHeaders(h, len(r.Body) == 0)
	if len(r.Body) > 0 {
		s.Response.onData(r.Body, true)
	}
}

// Reset ends the stream without completing the response.
func (s *Stream) Reset(details string) {
	if s.Ended {
		return
	}
	s.Details = details
	s.Cut = true
	s.end()
}

// end is the one way out: log, done, delete, once each and in this order, or log last.
func (s *Stream) end() {
	if s.Ended {
		return
	}
	s.Ended = true
	s.leaveUpstream()
	if s.Filter != nil {
		if !s.host.LogLast {
			s.log()
		}
		s.Request.Hide()
		s.Response.Hide()
		s.last(Done)
		s.last(Delete)
		if s.host.LogLast {
			s.log()
		}
	}
	if s.OnEnd != nil {
		s.OnEnd()
	}
}

func (s *Stream) log() {
	s.Logging = true
	s.last(Log)
	s.Logging = false
}

func (s *Stream) last(c Callback) {
	if s.Filter != nil {
		s.Filter.Call(c, 0, false)
	}
}

// Lose ends the stream when the plugin is lost; own says that this was in one of the stream's own callbacks.
func (s *Stream) Lose(own bool) {
	if s.Lost {
		return
	}
	s.Lost, s.Filter = true, nil
	held := s.Request.state != iterating || (s.Replied && s.Response.state != iterating)
	if held && !own {
		return // nothing will continue it: it hangs until a timeout or its client ends it
	}
	s.Reply(Reply{Code: 503, Details: DetailsFailStream})
}

// routerSink receives what the plugin passes on to the router.
type routerSink struct{ s *Stream }

func (r routerSink) headers(end bool) { r.s.routeHeaders(end) }

func (r routerSink) data(b []byte, end bool) {
	r.s.Sent.Body = append(r.s.Sent.Body, b...)
	r.s.Sent.End = r.s.Sent.End || end
}

func (r routerSink) trailers() {
	r.s.Sent.Trailers = r.s.Request.Trailers.Clone()
	r.s.Sent.End = true
}

// clientSink receives what the plugin passes on to the client; the stream ends when the response is complete.
type clientSink struct{ s *Stream }

func (c clientSink) headers(end bool) {
	c.s.Received.Headers = c.s.Response.Headers.Clone()
	c.complete(end)
}

func (c clientSink) data(b []byte, end bool) {
	c.s.Received.Body = append(c.s.Received.Body, b...)
	c.complete(end)
}

func (c clientSink) trailers() {
	c.s.Received.Trailers = c.s.Response.Trailers.Clone()
	c.complete(true)
}

func (c clientSink) complete(end bool) {
	if end {
		c.s.Received.End = true
		c.s.end()
	}
}
