package higresshost

import (
	"fmt"
	"strconv"
)

// Message is a request as the model server has seen it, or a response as the client has.
type Message struct {
	Headers  Headers
	Body     []byte
	Trailers Headers
	End      bool // it is complete
}

// Stream is one request. The test sends it as a client (RequestHeaders, RequestBody, …, ResetByClient) and answers it
// as the model server (ResponseHeaders, …, ResetByUpstream); what the plugin does about it in between can be read at
// any time. Sending on a stream that has ended panics: it is a mistake in the test.
type Stream struct {
	// FilterState holds what the plugin stored by set_property.
	FilterState map[string]string
	// Properties override what get_property answers on this stream, by path with dots.
	Properties map[string]string
	// Callbacks counts log, done and delete as they were called on the plugin.
	Callbacks struct{ Log, Done, Delete int }

	gw     *Gateway
	worker *Worker
	root   *root // nil if no plugin context was made
	id     uint32

	route, cluster, requestID string
	request, response         *half
	requestBytes              int
	clearRoute, routeCleared  bool

	override   string
	routed     bool
	endpoint   *Endpoint
	onUpstream bool
	attempts   int

	sent, received Message
	replied        bool // upstream's response or a local one has entered the filter chain
	code           int
	details        string
	flags          uint64
	local, cut     bool
	ended, logging bool
	bypass, lost   bool
}

// NewStream makes a stream on this worker; nothing has been sent on it.
func (w *Worker) NewStream() *Stream {
	g := w.gw
	g.requestID++
	s := &Stream{
		gw: g, worker: w, route: g.opts.Route, cluster: g.opts.Cluster, clearRoute: true,
		requestID:   fmt.Sprintf("00000000-0000-4000-8000-%012d", g.requestID),
		FilterState: map[string]string{}, Properties: map[string]string{},
	}
	s.request = &half{
		s: s, next: routerSink{s}, limit: g.opts.BufferLimit,
		names:     callbackNames{"proxy_on_request_headers", "proxy_on_request_body", "proxy_on_request_trailers"},
		onTooLong: localReply{code: 413, details: detailsRequestTooLarge, body: []byte("Payload Too Large")},
	}
	s.response = &half{
		s: s, next: clientSink{s}, limit: g.opts.BufferLimit,
		names:     callbackNames{"proxy_on_response_headers", "proxy_on_response_body", "proxy_on_response_trailers"},
		onTooLong: localReply{code: 500, details: detailsResponseTooLarge, body: []byte("Internal Server Error")},
	}
	return s
}

// To sends the stream to another route and cluster; it must be called before RequestHeaders.
func (s *Stream) To(route, cluster string) *Stream {
	s.route, s.cluster = route, cluster
	return s
}

// selectCluster is what a route does that takes its cluster by a header.
func (s *Stream) selectCluster() {
	name := s.gw.opts.ClusterHeader
	if name == "" || s.request.headers == nil {
		return
	}
	s.cluster = s.gw.opts.Cluster
	if cluster, ok := s.request.headers.lookup(name); ok {
		s.cluster = cluster
	}
}

// RequestHeaders starts the request; with end it has no body.
func (s *Stream) RequestHeaders(h Headers, end bool) {
	s.drive("RequestHeaders", func() {
		if name := s.gw.opts.ClusterHeader; name != "" {
			if cluster, ok := h.lookup(name); ok {
				s.cluster = cluster // before the plugin can change it
			}
		}
		s.enter()
		if !s.ended {
			s.request.onHeaders(h.clone(), end)
		}
	})
}

// enter makes the plugin's context, or decides what happens without one.
func (s *Stream) enter() {
	r := s.worker.usable()
	if r == nil {
		s.bypass = true
		if !s.gw.opts.FailOpen {
			s.sendLocalReply(localReply{code: 503, details: detailsFailStream})
		}
		return
	}
	s.root, s.id = r, r.vm.allocate()
	r.streams = append(r.streams, s)
	r.vm.streams[s.id] = s
	r.vm.callback(s.id, "proxy_on_context_create", uint64(r.ctx))
}

// RequestBody sends one frame of the body. Over HTTP/1 Envoy ends a body with an empty frame; over HTTP/2 the last
// frame carries data.
func (s *Stream) RequestBody(data []byte, end bool) {
	s.drive("RequestBody", func() {
		s.requestBytes += len(data)
		s.request.onData(append([]byte(nil), data...), end)
	})
}

// RequestTrailers ends the request.
func (s *Stream) RequestTrailers(h Headers) {
	s.drive("RequestTrailers", func() { s.request.onTrailers(h.clone()) })
}

// ResponseHeaders starts the model server's response.
func (s *Stream) ResponseHeaders(h Headers, end bool) {
	s.answer("ResponseHeaders", func() {
		s.replied = true
		s.code, _ = strconv.Atoi(h.Get(":status"))
		s.details = detailsViaUpstream
		s.upstreamEnds(end)
		s.response.onHeaders(h.clone(), end)
	})
}

// ResponseBody sends one frame of the response.
func (s *Stream) ResponseBody(data []byte, end bool) {
	s.answer("ResponseBody", func() {
		s.upstreamEnds(end)
		s.response.onData(append([]byte(nil), data...), end)
	})
}

// ResponseTrailers ends the response.
func (s *Stream) ResponseTrailers(h Headers) {
	s.answer("ResponseTrailers", func() {
		s.upstreamEnds(true)
		s.response.onTrailers(h.clone())
	})
}

func (s *Stream) upstreamEnds(end bool) {
	if end {
		s.leaveUpstream()
	}
}

// Retry is a failed attempt that the router repeats. The plugin gets no callback and its override host no longer
// applies: the cluster's own balancing picks.
func (s *Stream) Retry() {
	s.answer("Retry", func() {
		s.leaveUpstream()
		s.attempt(s.gw.clusters[s.cluster].native())
	})
}

// ResetByUpstream breaks the connection to the model server: 503 if no response has begun, else the response is cut.
func (s *Stream) ResetByUpstream() {
	s.answer("ResetByUpstream", func() {
		s.leaveUpstream()
		s.flags |= FlagUpstreamReset
		if s.replied {
			s.reset(detailsUpstreamCut)
			return
		}
		s.sendLocalReply(localReply{code: 503, details: detailsUpstreamReset, flags: FlagUpstreamReset})
	})
}

// ResetByClient is a client that leaves, in whatever state the stream is.
func (s *Stream) ResetByClient() {
	s.drive("ResetByClient", func() {
		s.flags |= FlagDownstreamReset
		s.reset(detailsClientGone)
	})
}

// IdleTimeout is Envoy's stream_idle_timeout.
func (s *Stream) IdleTimeout() {
	s.drive("IdleTimeout", func() {
		s.sendLocalReply(localReply{code: 504, details: detailsIdle, flags: FlagStreamIdleTimeout})
	})
}

func (s *Stream) drive(what string, step func()) {
	if s.ended {
		panic(fmt.Sprintf("higresshost: %s on %s, which has ended", what, s))
	}
	s.gw.drive(step)
}

// answer is drive for steps that need a model server that holds the request.
func (s *Stream) answer(what string, step func()) {
	if !s.onUpstream && !s.ended {
		panic(fmt.Sprintf("higresshost: %s on %s, which is on no endpoint", what, s))
	}
	s.drive(what, step)
}

// String names the stream in messages.
func (s *Stream) String() string { return fmt.Sprintf("stream %d of %s", s.id, s.worker.name) }

func (s *Stream) stopIterationAllowed() bool {
	return s.root.vm.code.abi == ABI02100 || s.gw.opts.AllowStopIteration
}
