package fakehost

import "strconv"

// Send sends a whole request on a stream on which nothing has been sent, with the ID in x-request-id: with a body,
// headers first and then one frame and the empty last frame of HTTP/1. If the gateway answers in between, the rest is
// not sent.
func (s *Stream) Send(id, method, path, body string, headers ...string) {
	h := H(":method", method, ":path", path, ":authority", "llm.example", ":scheme", "http", "x-request-id", id)
	if body != "" {
		h.Set("content-type", "application/json")
		h.Set("content-length", strconv.Itoa(len(body)))
	}
	for _, p := range H(headers...) {
		h.Set(p[0], p[1])
	}
	s.RequestHeaders(h, body == "")
	if body != "" && !s.ended {
		s.RequestBody([]byte(body), false)
	}
	if body != "" && !s.ended {
		s.RequestBody(nil, true)
	}
}

// Respond is a whole response of the model server, in one frame.
func (s *Stream) Respond(code int, body string, headers ...string) {
	h := H(":status", strconv.Itoa(code), "content-type", "application/json")
	for _, p := range H(headers...) {
		h.Set(p[0], p[1])
	}
	s.ResponseHeaders(h, body == "")
	if body != "" && !s.ended {
		s.ResponseBody([]byte(body), true)
	}
}

// Paused reports whether the plugin holds the request back.
func (s *Stream) Paused() bool { return !s.Request.closed() && s.Request.state != iterating }

// ResponsePaused reports whether the plugin holds the response back.
func (s *Stream) ResponsePaused() bool { return !s.Response.closed() && s.Response.state != iterating }

// Backpressure reports whether the client was paused because the held request exceeds the buffer limit.
func (s *Stream) Backpressure() bool { return s.Request.backpressure }

// Sent returns the request as the model server has it so far.
func (s *Stream) Sent() Message { return s.sent }

// Received returns the response as the client has it so far.
func (s *Stream) Received() Message { return s.received }

// progress is how far a stream has come.
type progress struct {
	routed     bool
	endpoint   *Endpoint
	reached    bool // some endpoint
	onUpstream bool
	attempts   int
	bytes      int  // of the request's body
	replied    bool // upstream's response or a local one has entered the filter chain
	logging    bool
	lost       bool
}

// Upstream returns the address of the endpoint that has or had the request, "" if the router reached none.
func (p *progress) Upstream() string {
	if p.endpoint == nil {
		return ""
	}
	return p.endpoint.Addr
}

// OnUpstream reports whether the model server holds the request now.
func (p *progress) OnUpstream() bool { return p.onUpstream }

// Reached reports whether the request has ever come to an endpoint.
func (p *progress) Reached() bool { return p.reached }

// Routed reports whether the request has come to the router.
func (p *progress) Routed() bool { return p.routed }

// Attempts returns how often the router tried an endpoint.
func (p *progress) Attempts() int { return p.attempts }

// BytesSent returns how many bytes of the body the client has sent.
func (p *progress) BytesSent() int { return p.bytes }

// Lost reports whether the plugin was lost under the stream.
func (p *progress) Lost() bool { return p.lost }

// Logging reports whether the stream is being logged: then all header maps can be read once more.
func (p *progress) Logging() bool { return p.logging }

// Replied reports whether a response, upstream's or a local one, has entered the filter chain.
func (p *progress) Replied() bool { return p.replied }

// outcome is what became of a stream.
type outcome struct {
	code              int
	details           string
	flags             uint64
	local, cut, ended bool
}

// Code returns the response code, 0 if there is none.
func (o *outcome) Code() int { return o.code }

// Details returns the response code details, such as via_upstream or downstream_remote_disconnect.
func (o *outcome) Details() string { return o.details }

// Flags returns the response flags, such as FlagNoHealthyUpstream.
func (o *outcome) Flags() uint64 { return o.flags }

// Local reports whether the response is the gateway's own.
func (o *outcome) Local() bool { return o.local }

// Ended reports whether the stream is over, in whatever way.
func (o *outcome) Ended() bool { return o.ended }

// Cut reports whether the stream was reset instead of completed.
func (o *outcome) Cut() bool { return o.cut }
