package higresshost

import "strconv"

// localReply is a response that the gateway makes itself.
type localReply struct {
	code    int
	details string
	flags   uint64
	headers Headers
	body    []byte
}

// sendLocalReply answers for the gateway: the request goes no further and the reply passes the plugin's response
// callbacks, unless a response is on its way: then it goes straight to the client, or, if that has seen headers, the
// stream is cut.
func (s *Stream) sendLocalReply(r localReply) {
	if s.ended {
		return
	}
	s.request.aborted = true
	s.leaveUpstream()
	s.details = r.details
	s.flags |= r.flags
	if s.response.passed {
		s.reset(r.details)
		return
	}
	s.code = r.code
	h := H(":status", strconv.Itoa(r.code))
	if len(r.body) > 0 {
		h.Set("content-length", strconv.Itoa(len(r.body)))
		h.Set("content-type", "text/plain")
	}
	for _, p := range r.headers {
		h.Add(p[0], p[1])
	}
	s.local = true
	if s.replied {
		s.response.aborted = true
		s.received = Message{Headers: h, Body: r.body, End: true}
		s.end()
		return
	}
	s.replied = true
	s.response.onHeaders(h, len(r.body) == 0)
	if len(r.body) > 0 {
		s.response.onData(r.body, true)
	}
}

// reset ends the stream without completing the response.
func (s *Stream) reset(details string) {
	if s.ended {
		return
	}
	s.details = details
	s.cut = true
	s.end()
}

// end is the one way out: log, done, delete, once each and in this order, or log last.
func (s *Stream) end() {
	if s.ended {
		return
	}
	s.ended = true
	s.leaveUpstream()
	if s.root == nil {
		return
	}
	if !s.bypass {
		if !s.gw.opts.LogLast {
			s.log()
		}
		s.request.hide()
		s.response.hide()
		s.finish("proxy_on_done", &s.Callbacks.Done)
		s.finish("proxy_on_delete", &s.Callbacks.Delete)
		if s.gw.opts.LogLast {
			s.log()
		}
	}
	s.root.forget(s)
}

func (s *Stream) log() {
	s.logging = true
	s.finish("proxy_on_log", &s.Callbacks.Log)
	s.logging = false
}

func (s *Stream) finish(name string, count *int) {
	if !s.root.vm.failed {
		*count++
		s.root.vm.callback(s.id, name)
	}
}

// lose ends the stream when its VM traps; trapped reports whether that was in one of its own callbacks.
func (s *Stream) lose(trapped bool) {
	if s.lost {
		return
	}
	s.lost, s.bypass = true, true
	held := s.request.state != iterating || (s.replied && s.response.state != iterating)
	if held && !trapped {
		return // no VM will continue it: it hangs until a timeout or its client ends it
	}
	s.sendLocalReply(localReply{code: 503, details: detailsFailStream})
}

// headerMap returns a map as the guest may see it now. When the stream is logged all maps can be read once more.
func (s *Stream) headerMap(kind uint32) (h *Headers, writable bool) {
	switch kind {
	case mapRequestHeaders:
		return pick(&s.request.headers, s.request.headersVisible, s.logging)
	case mapRequestTrailers:
		return pick(&s.request.trailers, s.request.trailersVisible, false)
	case mapResponseHeaders:
		return pick(&s.response.headers, s.response.headersVisible, s.logging && s.replied)
	default:
		return pick(&s.response.trailers, s.response.trailersVisible, s.logging && s.response.hasTrailers)
	}
}

func pick(h *Headers, visible, logging bool) (*Headers, bool) {
	if visible || logging {
		return h, visible && !logging
	}
	return nil, false
}

// routerSink receives what the plugin passes on to the router.
type routerSink struct{ s *Stream }

func (r routerSink) headers(end bool) { r.s.routeHeaders(end) }

func (r routerSink) data(b []byte, end bool) {
	r.s.sent.Body = append(r.s.sent.Body, b...)
	r.s.sent.End = r.s.sent.End || end
}

func (r routerSink) trailers() {
	r.s.sent.Trailers = r.s.request.trailers.clone()
	r.s.sent.End = true
}

// clientSink receives what the plugin passes on to the client; the stream ends when the response is complete.
type clientSink struct{ s *Stream }

func (c clientSink) headers(end bool) {
	c.s.received.Headers = c.s.response.headers.clone()
	c.complete(end)
}

func (c clientSink) data(b []byte, end bool) {
	c.s.received.Body = append(c.s.received.Body, b...)
	c.complete(end)
}

func (c clientSink) trailers() {
	c.s.received.Trailers = c.s.response.trailers.clone()
	c.complete(true)
}

func (c clientSink) complete(end bool) {
	if end {
		c.s.received.End = true
		c.s.end()
	}
}
