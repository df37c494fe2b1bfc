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

// Upstream returns the address of the endpoint that has or had the request, "" if the router reached none.
func (s *Stream) Upstream() string {
	if s.endpoint == nil {
		return ""
	}
	return s.endpoint.Addr
}

// OnUpstream reports whether the model server holds the request now.
func (s *Stream) OnUpstream() bool { return s.onUpstream }

// Routed reports whether the request has come to the router.
func (s *Stream) Routed() bool { return s.routed }

// Attempts returns how often the router tried an endpoint.
func (s *Stream) Attempts() int { return s.attempts }

// BytesSent returns how many bytes of the body the client has sent.
func (s *Stream) BytesSent() int { return s.bytes }

// Paused reports whether the plugin holds the request back.
func (s *Stream) Paused() bool { return !s.ended && s.Request.state != iterating }

// ResponsePaused reports whether the plugin holds the response back.
func (s *Stream) ResponsePaused() bool { return !s.ended && s.Response.state != iterating }

// Backpressure reports whether the client was paused because the held request exceeds the buffer limit.
func (s *Stream) Backpressure() bool { return s.Request.backpressure }

// Sent returns the request as the model server has it so far.
func (s *Stream) Sent() Message { return s.sent }

// Received returns the response as the client has it so far.
func (s *Stream) Received() Message { return s.received }

// Lost reports whether the plugin was lost under the stream.
func (s *Stream) Lost() bool { return s.lost }

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
