package higresshost

import "strconv"

// Request sends a whole request on a new stream: with a body, headers first and then one frame and the empty last frame
// of HTTP/1. If the gateway answers in between, the rest is not sent.
func (w *Worker) Request(method, path, body string, headers ...string) *Stream {
	s := w.NewStream()
	s.Send(method, path, body, headers...)
	return s
}

// Send sends a whole request on a stream on which nothing has been sent.
func (s *Stream) Send(method, path, body string, headers ...string) {
	h := H(":method", method, ":path", path, ":authority", "llm.example", ":scheme", "http", "x-request-id",
		s.requestID)
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
func (s *Stream) Upstream() string { return s.upstreamAddress() }

// OnUpstream reports whether the model server holds the request now.
func (s *Stream) OnUpstream() bool { return s.onUpstream }

// Override returns the address that the plugin gave to set_upstream_override_host, "" if none.
func (s *Stream) Override() string { return s.override }

// Paused reports whether the plugin holds the request back.
func (s *Stream) Paused() bool { return !s.ended && s.request.state != iterating }

// ResponsePaused reports whether the plugin holds the response back.
func (s *Stream) ResponsePaused() bool { return !s.ended && s.response.state != iterating }

// Backpressure reports whether the client was paused because the held request exceeds the buffer limit.
func (s *Stream) Backpressure() bool { return s.request.backpressure }

// Sent returns the request as the model server has it so far.
func (s *Stream) Sent() Message { return s.sent }

// Received returns the response as the client has it so far.
func (s *Stream) Received() Message { return s.received }

// Code returns the response code, 0 if there is none.
func (s *Stream) Code() int { return s.code }

// Details returns the response code details, such as via_upstream or downstream_remote_disconnect.
func (s *Stream) Details() string { return s.details }

// Flags returns the response flags, such as FlagNoHealthyUpstream.
func (s *Stream) Flags() uint64 { return s.flags }

// Local reports whether the response is the gateway's own.
func (s *Stream) Local() bool { return s.local }

// Ended reports whether the stream is over, in whatever way.
func (s *Stream) Ended() bool { return s.ended }

// Cut reports whether the stream was reset instead of completed.
func (s *Stream) Cut() bool { return s.cut }

// Lost reports whether the stream's VM trapped under it.
func (s *Stream) Lost() bool { return s.lost }

// Attempts returns how often the router tried an endpoint.
func (s *Stream) Attempts() int { return s.attempts }

// RouteCleared reports whether a change of the request's headers made the gateway choose the route again. It does on
// Higress and Envoy unless the plugin has set the property clear_route_cache to off.
func (s *Stream) RouteCleared() bool { return s.routeCleared }

// ID returns the plugin's context id, 0 if no plugin context was made.
func (s *Stream) ID() uint32 { return s.id }

// Worker returns the thread of the stream.
func (s *Stream) Worker() *Worker { return s.worker }
