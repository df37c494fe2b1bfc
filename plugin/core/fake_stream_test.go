package core

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/host"
)

// fakeStream is a request in the fake gateway: the filter chain with the plugin as its only filter, and the router.
type fakeStream struct {
	process *fakeProcess
	worker  *fakeWorker
	id      uint32
	core    *Stream
	request streamtest.Request
	headers map[string]string

	inside          bool // a callback of the plugin runs
	held            bool
	growing         bool     // the plugin is shown all of the body that is held
	joined          bool     // the latest part is held with those before it
	stopped         bool     // not even the body comes to the plugin
	waiting         []func() // callbacks that are still to come
	resumed         bool     // as soon as the callback that runs has ended
	buffered        string
	hidden          int // bytes of that in front of those that a callback shows
	shown, bodySize int
	bodyEnd         bool              // the last frame has come
	sent            map[string]string // trailers
	steer           string
	others          []string

	routed   bool
	endpoint int    // -1 for none
	served   string // address that the gateway reports in place of the endpoint's
	cluster  string // that the request is routed to by now, "" for the cluster of all
	received streamtest.Received
	reply    *streamtest.Result // a local reply that waits for the callback to end

	began, answered bool   // the response's headers have come, and a part of its body
	passing         string // the part of the response
	details         string
	note            string
	result          streamtest.Result
	ended           bool
}

// open takes a request from the client.
func (w *fakeWorker) open(r streamtest.Request) *fakeStream {
	s := &fakeStream{process: w.process, worker: w, request: r, endpoint: -1, id: uint32(1000 + len(w.process.streams))}
	w.process.streams[s.id] = s
	s.core = w.current.NewStream(s.id, s)
	s.headers = map[string]string{":method": r.Method, ":path": r.Path, ":authority": r.Authority}
	s.steer = "a client's wish" // that got past the filters in front of the plugin
	for _, h := range r.Headers {
		if s.headers[h[0]] = h[1]; h[0] == "x-higress-target-cluster" {
			s.cluster = h[1] // by the route, until the plugin changes it
		}
	}
	hasBody := len(r.Frames) > 0 || len(r.Trailers) > 0 || r.Unended
	s.bodyEnd = !hasBody
	s.callback(func() host.Action { return s.core.OnRequestHeaders(!hasBody) }, stopHeaders, s.route)
	for i, frame := range r.Frames {
		s.frame(frame, i == len(r.Frames)-1 && !r.Unended && len(r.Trailers) == 0)
	}
	if len(r.Trailers) > 0 {
		s.trailers(r.Trailers)
	}
	return s
}

// trailers end the request.
func (s *fakeStream) trailers(list [][2]string) {
	if s.ended {
		return
	}
	if s.stopped {
		s.waiting = append(s.waiting, func() { s.trailers(list) })
		return
	}
	s.sent = pairs(list)
	s.callback(func() host.Action { return s.core.OnRequestTrailers() }, stopTrailers, s.release)
}

func pairs(list [][2]string) map[string]string {
	m := map[string]string{}
	for _, p := range list {
		m[p[0]] = p[1]
	}
	return m
}

// stopOf is what the gateway stops when a callback returns Stop.
type stopOf int

const (
	stopHeaders stopOf = iota // the body does not come to the plugin either
	stopBody                  // the next part comes alone
	stopTrailers
)

// callback runs one of the plugin's callbacks and then what the gateway does unless the plugin holds the request.
func (s *fakeStream) callback(f func() host.Action, of stopOf, next func()) {
	var a host.Action
	s.in(func() { a = f() })
	switch {
	case s.reply != nil:
		s.answer(*s.reply)
	case a == host.Stop && of == stopHeaders:
		s.held, s.stopped = true, true
	case a != host.Proceed:
		s.held, s.growing = true, a == host.Hold || of == stopTrailers
	default:
		next()
	}
}

// frame takes a part of the body.
func (s *fakeStream) frame(data string, end bool) {
	if s.ended {
		return
	}
	if s.stopped {
		s.waiting = append(s.waiting, func() { s.frame(data, end) })
		return
	}
	s.buffered += data
	s.bodySize += len(data)
	size := len(data)
	s.joined = s.held && s.growing && len(s.buffered) > size
	if s.hidden = len(s.buffered) - size; s.held && s.growing {
		if size, s.hidden = len(s.buffered), 0; s.process.stale && size > len(data) {
			size -= len(data)
		}
	}
	s.bodyEnd, s.shown = end, size
	s.callback(func() host.Action { return s.core.OnRequestBody(size, end) }, stopBody, s.release)
}

// release lets what was held go on.
func (s *fakeStream) release() {
	s.held, s.stopped = false, false
	s.route()
	s.flush()
	waiting := s.waiting
	s.waiting = nil
	for _, f := range waiting {
		f()
	}
}

func (s *fakeStream) flush() {
	if s.endpoint < 0 {
		return
	}
	s.received.Body += s.buffered
	s.buffered = ""
	if s.sent != nil {
		s.received.Trailers = s.sent
	}
	s.received.Ended = s.received.Ended || s.bodyEnd || s.sent != nil
}

// route is the router, and before it a filter that may answer.
func (s *fakeStream) route() {
	if s.routed || s.ended {
		return
	}
	s.routed = true
	if s.steer == "a client's wish" {
		s.process.t.Error("the plugin let the client steer")
	}
	if s.request.Local != 0 {
		s.details = "later_filter"
		s.answer(streamtest.Result{Status: s.request.Local})
		return
	}
	if s.process.sites != nil && s.process.sites[s.target()] == nil {
		s.details = "cluster_not_found"
		s.answer(streamtest.Result{Status: 503})
		return
	}
	s.attempt(s.process.pick(s.steer, s.target()))
	s.flush()
}

// target returns the cluster that the request is routed to.
func (s *fakeStream) target() string { return cmp.Or(s.cluster, fakeCluster) }

// pick is the gateway's choice in a cluster: the plugin's endpoint if it is usable, else the next one.
func (p *fakeProcess) pick(addr, cluster string) int {
	usable := func(i int) bool {
		return p.endpoints[i].State == lb.Healthy && (p.sites == nil || slices.Contains(p.sites[cluster], i))
	}
	for i, e := range p.endpoints {
		if e.Addr == addr && usable(i) {
			return i
		}
	}
	for range p.endpoints {
		p.next++
		if i := p.next % len(p.endpoints); usable(i) {
			return i
		}
	}
	return -1
}

func (s *fakeStream) attempt(i int) {
	s.endpoint = i
	switch {
	case i < 0:
		s.details = "no_healthy_upstream"
	case s.process.endpoints[i].refuses:
		s.details = "upstream_reset_before_response_started{connection_failure}"
	default:
		s.received.Headers = s.headers
		return
	}
	s.answer(streamtest.Result{Status: 503})
}

// answer is a local reply: it passes the plugin's response callbacks.
func (s *fakeStream) answer(r streamtest.Result) {
	s.reply, s.held, s.began = nil, false, true
	s.result = r
	if s.result.Headers == nil {
		s.result.Headers = map[string]string{}
	}
	s.result.Headers[":status"] = strconv.Itoa(r.Status)
	s.response(func() { s.core.OnResponseHeaders(r.Body == "") })
	if r.Body != "" {
		s.passing = r.Body
		s.response(func() { s.core.OnResponseBody(len(r.Body), true) })
	}
	s.end()
}

// response runs a callback for the response.
func (s *fakeStream) response(f func()) {
	if !s.ended {
		s.in(f)
	}
}

// in runs a callback of the plugin in the worker's VM. The plugin may be called for another request in between.
func (s *fakeStream) in(f func()) {
	s.process.inside = s.worker.vm
	before := s.process.effective
	s.inside, s.process.effective = true, s
	f()
	if s.process.effective != s {
		s.process.t.Error("the plugin left its own request for another one")
	}
	s.inside, s.process.effective = false, before
	if before == nil {
		s.process.settle()
	}
}

func (s *fakeStream) end() {
	if s.ended {
		return
	}
	s.in(s.core.OnDone)
	s.ended, s.held = true, false
	s.process.access = append(s.process.access, s.note)
}

// called is called for every call that the plugin makes on the request. Outside the request's callbacks its context has
// to be entered.
func (s *fakeStream) called(name string) {
	if s.process.effective != s {
		s.process.t.Errorf("%s was called while the request is not the one that calls act on", name)
	}
	s.process.call(name)
}

// Cluster implements Stream, as do the methods below.
func (s *fakeStream) Cluster() string { s.called("Cluster"); return s.target() }

func (s *fakeStream) SetCluster(header, cluster string) {
	s.called("SetCluster")
	if s.routed {
		s.process.t.Error("the plugin chose a cluster after the router had")
	}
	if s.cluster = cluster; cluster == "" {
		delete(s.headers, header)
		return
	}
	s.headers[header] = cluster
}

func (s *fakeStream) Route() string { s.called("Route"); return fakeRoute }

func (s *fakeStream) RequestHeaders() (list [][2]string) {
	s.called("RequestHeaders")
	for name, value := range s.headers {
		list = append(list, [2]string{name, value})
	}
	return list
}

func (s *fakeStream) HoldBody(int) { s.called("HoldBody") }

func (s *fakeStream) RequestBody(from, most int) []byte {
	s.called("RequestBody")
	begin := s.hidden + min(from, s.shown)
	return s.process.lend(s.buffered[begin:min(begin+most, s.hidden+s.shown)])
}

func (s *fakeStream) Steer(addr string, others []string) error {
	s.called("Steer")
	if s.routed {
		s.process.t.Error("the plugin chose an endpoint after the router had")
	}
	if addr == "" || slices.Contains(others, addr) {
		s.process.t.Errorf("the plugin chose %q, then %q", addr, others)
	}
	if s.process.steerErr == nil {
		s.steer, s.others = addr, others
	}
	return s.process.steerErr
}

func (s *fakeStream) Unsteer() {
	s.called("Unsteer")
	s.steer, s.others = "", nil
}

func (s *fakeStream) ServedBy() string {
	s.called("ServedBy")
	if s.endpoint < 0 || s.served != "" {
		return s.served
	}
	return s.process.endpoints[s.endpoint].Addr
}

func (s *fakeStream) Client() string {
	s.called("Client")
	return cmp.Or(s.request.Client, "127.0.0.1") + ":50000"
}

func (s *fakeStream) ResponseHeader(name string) string {
	s.called("ResponseHeader")
	return s.result.Headers[name]
}

func (s *fakeStream) SetResponseHeader(name, value string) {
	s.called("SetResponseHeader")
	s.result.Headers[name] = value
}

func (s *fakeStream) RemoveResponseHeader(name string) {
	s.called("RemoveResponseHeader")
	delete(s.result.Headers, name)
}

func (s *fakeStream) SetRequestHeader(name, value string) {
	s.called("SetRequestHeader")
	s.headers[name] = value
}

func (s *fakeStream) Details() string { s.called("Details"); return s.details }

func (s *fakeStream) SetNote(text string) { s.called("SetNote"); s.note = text }

func (s *fakeStream) Note() string { s.called("Note"); return s.note }

func (s *fakeStream) Resume() {
	s.called("Resume")
	if s.inside || !s.held || s.resumed {
		s.process.t.Error("the plugin resumed a request that was not held")
		return
	}
	s.resumed = true
	s.process.later = append(s.process.later, func() {
		if s.resumed = false; !s.ended {
			s.release()
		}
	})
}

func (s *fakeStream) Reply(status int, headers [][2]string, body string) {
	s.called("Reply")
	r := streamtest.Result{Status: status, Headers: pairs(headers), Body: body}
	if s.details = "warmgate"; s.inside {
		s.reply = &r
		return
	}
	s.process.later = append(s.process.later, func() { s.answer(r) })
}

func (s *fakeStream) ResponseBody(from, most int) []byte {
	return s.process.lend(s.passing[from:min(len(s.passing), from+most)])
}
