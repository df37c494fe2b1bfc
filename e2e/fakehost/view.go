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
	if body != "" && !s.Ended {
		s.RequestBody([]byte(body), false)
	}
	if body != "" && !s.Ended {
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
	if body != "" && !s.Ended {
		s.ResponseBody([]byte(body), true)
	}
}

// Paused reports whether the plugin holds the request back.
func (s *Stream) Paused() bool { return !s.Request.closed() && s.Request.state != iterating }

// ResponsePaused reports whether the plugin holds the response back.
func (s *Stream) ResponsePaused() bool { return !s.Response.closed() && s.Response.state != iterating }

// Backpressure reports whether the client was paused because the held request exceeds the buffer limit.
func (s *Stream) Backpressure() bool { return s.Request.backpressure }

// Upstream returns the address of the endpoint that has or had the request, "" if the router reached none.
func (s *Stream) Upstream() string {
	if s.endpoint == nil {
		return ""
	}
	return s.endpoint.Addr
}

// Facts are what has become of a stream. They are to be read.
type Facts struct {
	Routed     bool // the request has come to the router,
	Reached    bool // and to some endpoint
	OnUpstream bool // an endpoint holds it now
	Attempts   int  // of the router to send it to one
	BytesSent  int  // of the body, by the client
	Replied    bool // a response, upstream's or a local one, has entered the filter chain
	Logging    bool // the stream is being logged: then all header maps can be read once more
	Lost       bool // the plugin was lost under the stream

	Code    int    // of the response, 0 if there is none
	Details string // of the response code, such as via_upstream or downstream_remote_disconnect
	Flags   uint64 // of the response, such as FlagNoHealthyUpstream
	Local   bool   // the response is the gateway's own
	Cut     bool   // the stream was reset instead of completed
	Ended   bool   // the stream is over, in whatever way

	Sent, Received Message // what the model server has of the request, and the client of the response
}
