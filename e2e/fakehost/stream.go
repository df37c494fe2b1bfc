package fakehost

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

// Host is what the streams of one gateway have in common.
type Host struct {
	// Clusters are those that the gateway knows, by name.
	Clusters map[string]*Cluster
	// StrictOverride: where the plugin's endpoint is not usable, the request fails. Else the cluster chooses.
	StrictOverride bool
	// StaleBuffer: a plugin that holds a body is shown it without its newest frame.
	StaleBuffer bool
	// LogLast: a request is logged after its context was deleted.
	LogLast bool
	// BufferLimit is how many bytes a held body may have at first.
	BufferLimit int
	// Cluster is the one of new streams. If ClusterHeader is not "", it names a header that names another one.
	Cluster, ClusterHeader string
	// Drive runs one step of the test, and then everything that was deferred by it.
	Drive func(step func())
	// Violate records what a real gateway ignores silently, but no plugin should do.
	Violate func(format string, args ...any)
}

// Stream is one request. The test sends it as a client (RequestHeaders, RequestBody, …, ResetByClient) and answers it
// as the model server (ResponseHeaders, …, ResetByUpstream); what the plugin does about it in between can be read at
// any time. Sending on a stream that has ended panics: it is a mistake in the test.
type Stream struct {
	// Name is what messages call it.
	Name string
	// Filter is the plugin, nil for a stream that passes without it.
	Filter Filter
	// StopIteration: if the plugin stops at the headers, it is shown the body all the same.
	StopIteration bool
	// OnBegin, if set, is called before the headers of the request reach the filter chain.
	OnBegin func()
	// OnRoute, if set, plays the filters between the plugin and the router: a code other than 0 is answered locally.
	OnRoute func() (code int)
	// OnEnd, if set, is called when all is over.
	OnEnd func()
	// Request and Response are its two directions at the plugin.
	Request, Response *Half
	// Cluster is where the request is routed to.
	Cluster string
	// Override is the address of the endpoint that the plugin wants, "" for any.
	Override string
	// Others are where retries go, in turn, in a gateway that lets the plugin say so.
	Others []string
	Facts

	host     *Host
	endpoint *Endpoint
}

// NewStream makes a stream; nothing has been sent on it.
func (h *Host) NewStream() *Stream {
	s := &Stream{host: h, Cluster: h.Cluster}
	s.Request = &Half{
		s: s, next: routerSink{s}, Limit: h.BufferLimit,
		on:        [3]Callback{RequestHeaders, RequestBody, RequestTrailers},
		onTooLong: Reply{Code: 413, Details: detailsRequestTooLarge, Body: []byte("Payload Too Large")},
	}
	s.Response = &Half{
		s: s, next: clientSink{s}, Limit: h.BufferLimit,
		on:        [3]Callback{ResponseHeaders, ResponseBody, ResponseTrailers},
		onTooLong: Reply{Code: 500, Details: detailsResponseTooLarge, Body: []byte("Internal Server Error")},
	}
	return s
}

// SelectCluster is what a route does that takes its cluster by a header, at first and after each change of headers.
func (s *Stream) SelectCluster() {
	name := s.host.ClusterHeader
	if name == "" || s.Request.Headers == nil {
		return
	}
	s.Cluster = s.host.Cluster
	if cluster, ok := s.Request.Headers.Lookup(name); ok {
		s.Cluster = cluster
	}
}

// RequestHeaders starts the request; with end it has no body.
func (s *Stream) RequestHeaders(h Headers, end bool) {
	s.drive("RequestHeaders", func() {
		if name := s.host.ClusterHeader; name != "" {
			if cluster, ok := h.Lookup(name); ok {
				s.Cluster = cluster // before the plugin can change it
			}
		}
		if s.OnBegin != nil {
			s.OnBegin()
		}
		if !s.Ended {
			s.Request.onHeaders(h.Clone(), end)
		}
	})
}

// RequestBody sends one frame of the body. Over HTTP/1 Envoy ends a body with an empty frame; over HTTP/2 the last
// frame carries data.
func (s *Stream) RequestBody(data []byte, end bool) {
	s.drive("RequestBody", func() {
		s.BytesSent += len(data)
		s.Request.onData(append([]byte(nil), data...), end)
	})
}

// RequestTrailers ends the request.
func (s *Stream) RequestTrailers(h Headers) {
	s.drive("RequestTrailers", func() { s.Request.onTrailers(h.Clone()) })
}

// ResponseHeaders starts the model server's response.
func (s *Stream) ResponseHeaders(h Headers, end bool) {
	s.answer("ResponseHeaders", func() {
		s.Replied = true
		s.Code, _ = strconv.Atoi(h.Get(":status"))
		s.Details = detailsViaUpstream
		s.upstreamEnds(end)
		s.Response.onHeaders(h.Clone(), end)
	})
}

// ResponseBody sends one frame of the response.
func (s *Stream) ResponseBody(data []byte, end bool) {
	s.answer("ResponseBody", func() {
		s.upstreamEnds(end)
		s.Response.onData(append([]byte(nil), data...), end)
	})
}

// ResponseTrailers ends the response.
func (s *Stream) ResponseTrailers(h Headers) {
	s.answer("ResponseTrailers", func() {
		s.upstreamEnds(true)
		s.Response.onTrailers(h.Clone())
	})
}

func (s *Stream) upstreamEnds(end bool) {
	if end {
		s.leaveUpstream()
	}
}

// Retry is a failed attempt that the router repeats. The plugin gets no callback. It goes to the next of Others, or
// where the cluster's own balancing picks.
func (s *Stream) Retry() {
	s.answer("Retry", func() {
		s.leaveUpstream()
		next := ""
		if len(s.Others) > 0 {
			next, s.Others = s.Others[0], s.Others[1:]
		}
		s.attempt(s.pick(next))
	})
}

// MoveTo lets another endpoint have the request, without an attempt that a test could see; nil for none.
func (s *Stream) MoveTo(e *Endpoint) {
	s.leaveUpstream()
	if s.endpoint = e; e != nil {
		s.occupy()
	}
}

// ResetByUpstream breaks the connection to the model server: 503 if no response has begun, else the response is cut.
func (s *Stream) ResetByUpstream() {
	s.answer("ResetByUpstream", func() {
		s.leaveUpstream()
		s.Flags |= FlagUpstreamReset
		if s.Replied {
			s.Reset(detailsUpstreamCut)
			return
		}
		s.Reply(Reply{Code: 503, Details: detailsUpstreamReset, Flags: FlagUpstreamReset})
	})
}

// ResetByClient is a client that leaves, in whatever state the stream is.
func (s *Stream) ResetByClient() {
	s.drive("ResetByClient", func() {
		s.Flags |= FlagDownstreamReset
		s.Reset(detailsClientGone)
	})
}

// IdleTimeout is Envoy's stream_idle_timeout.
func (s *Stream) IdleTimeout() {
	s.drive("IdleTimeout", func() {
		s.Reply(Reply{Code: 504, Details: detailsIdle, Flags: FlagStreamIdleTimeout})
	})
}

func (s *Stream) drive(what string, step func()) {
	if s.Ended {
		panic(fmt.Sprintf("fakehost: %s on %s, which has ended", what, s))
	}
	s.host.Drive(step)
}

// answer is drive for steps that need a model server that holds the request.
func (s *Stream) answer(what string, step func()) {
	if !s.OnUpstream && !s.Ended {
		panic(fmt.Sprintf("fakehost: %s on %s, which is on no endpoint", what, s))
	}
	s.drive(what, step)
}

// String names the stream in messages.
func (s *Stream) String() string { return s.Name }
