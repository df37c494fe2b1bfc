package higresshost

import (
	"fmt"

	"github.com/warmgate/warmgate/e2e/fakehost"
)

// Stream is one request to a worker, with what the plugin and the test can do to it in Higress.
type Stream struct {
	*fakehost.Stream
	// FilterState holds what the plugin stored by set_property.
	FilterState map[string]string
	// Span holds the attributes that the plugin gave to the request's span.
	Span map[string]string
	// Properties override what get_property answers on this stream, by path with dots.
	Properties map[string]string
	// Callbacks counts log, done and delete as they were called on the plugin.
	Callbacks struct{ Log, Done, Delete int }

	gw     *Gateway
	worker *Worker
	root   *root // nil if no plugin context was made
	id     uint32

	route, requestID         string
	clearRoute, routeCleared bool
}

// NewStream makes a stream on this worker; nothing has been sent on it.
func (w *Worker) NewStream() *Stream {
	g := w.gw
	g.requestID++
	s := &Stream{
		Stream: g.host.NewStream(), gw: g, worker: w, route: g.opts.Route, clearRoute: true,
		requestID:   fmt.Sprintf("00000000-0000-4000-8000-%012d", g.requestID),
		FilterState: map[string]string{}, Properties: map[string]string{},
		Span: map[string]string{},
	}
	s.OnBegin = s.enter
	s.OnRoute = func() int {
		if g.OnRoute == nil {
			return 0
		}
		return g.OnRoute(s)
	}
	return s
}

// Request sends a whole request on a new stream; see Send.
func (w *Worker) Request(method, path, body string, headers ...string) *Stream {
	s := w.NewStream()
	s.Send(method, path, body, headers...)
	return s
}

// Send sends a whole request, with its request ID; see [fakehost.Stream.Send].
func (s *Stream) Send(method, path, body string, headers ...string) {
	s.Stream.Send(s.requestID, method, path, body, headers...)
}

// To sends the stream to another route and cluster; it must be called before RequestHeaders.
func (s *Stream) To(route, cluster string) *Stream {
	s.route, s.Cluster = route, cluster
	return s
}

// enter makes the plugin's context, or decides what happens without one.
func (s *Stream) enter() {
	r := s.worker.usable()
	if r == nil {
		if !s.gw.opts.FailOpen {
			s.Reply(fakehost.Reply{Code: 503, Details: fakehost.DetailsFailStream})
		}
		return
	}
	s.root, s.id = r, r.vm.allocate()
	s.Name = fmt.Sprintf("stream %d of %s", s.id, s.worker.name)
	s.Filter, s.StopIteration = filter{s}, r.vm.code.abi == ABI02100 || s.gw.opts.AllowStopIteration
	s.OnEnd = func() { r.forget(s) }
	r.streams = append(r.streams, s)
	r.vm.streams[s.id] = s
	r.vm.callback(s.id, "proxy_on_context_create", uint64(r.ctx))
}

// RouteCleared reports whether a change of the request's headers made the gateway choose the route again. It does on
// Higress and Envoy unless the plugin has set the property clear_route_cache to off.
func (s *Stream) RouteCleared() bool { return s.routeCleared }

// ID returns the plugin's context id, 0 if no plugin context was made.
func (s *Stream) ID() uint32 { return s.id }

// Worker returns the thread of the stream.
func (s *Stream) Worker() *Worker { return s.worker }

// filter is the plugin's context of a stream.
type filter struct{ s *Stream }

var callbacks = [...]struct {
	export string
	args   int // count and end, as far as the export takes them
}{
	fakehost.RequestHeaders:   {"proxy_on_request_headers", 2},
	fakehost.RequestBody:      {"proxy_on_request_body", 2},
	fakehost.RequestTrailers:  {"proxy_on_request_trailers", 1},
	fakehost.ResponseHeaders:  {"proxy_on_response_headers", 2},
	fakehost.ResponseBody:     {"proxy_on_response_body", 2},
	fakehost.ResponseTrailers: {"proxy_on_response_trailers", 1},
	fakehost.Log:              {"proxy_on_log", 0},
	fakehost.Done:             {"proxy_on_done", 0},
	fakehost.Delete:           {"proxy_on_delete", 0},
}

// Call implements [fakehost.Filter].
func (f filter) Call(c fakehost.Callback, count int, end bool) (answer int, replied bool) {
	vm, args := f.s.root.vm, []uint64{uint64(count), 0}
	if end {
		args[1] = 1
	}
	if !vm.failed {
		switch c {
		case fakehost.Log:
			f.s.Callbacks.Log++
		case fakehost.Done:
			f.s.Callbacks.Done++
		case fakehost.Delete:
			f.s.Callbacks.Delete++
		}
	}
	result, replied := vm.callback(f.s.id, callbacks[c].export, args[:callbacks[c].args]...)
	return int(uint32(result)), replied
}

// headerMap returns a map as the guest may see it now. When the stream is logged all maps can be read once more.
func (s *Stream) headerMap(kind uint32) (h *fakehost.Headers, writable bool) {
	in, out, logging := s.Request, s.Response, s.Logging
	switch kind {
	case mapRequestHeaders:
		return visible(&in.Headers, in.ShowsHeaders, logging)
	case mapRequestTrailers:
		return visible(&in.Trailers, in.ShowsTrailers, false)
	case mapResponseHeaders:
		return visible(&out.Headers, out.ShowsHeaders, logging && s.Replied)
	default:
		return visible(&out.Trailers, out.ShowsTrailers, logging && out.HasTrailers())
	}
}

func visible(h *fakehost.Headers, shown, logging bool) (*fakehost.Headers, bool) {
	if shown || logging {
		return h, shown && !logging
	}
	return nil, false
}
