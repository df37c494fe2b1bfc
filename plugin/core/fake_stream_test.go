package core

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/warmgate/warmgate/e2e/fakehost"
	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/internal/state"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/measured"
)

// fakeStream is a request in the fake gateway, as its client and its model server see it, and as the plugin does.
type fakeStream struct {
	streamtest.Player
	process *fakeProcess
	worker  *fakeWorker
	id      uint32
	core    *Stream
	request streamtest.Request

	inside  bool // a callback of the plugin runs
	resumed bool // as soon as the callback that runs has ended
	joined  bool // the part of the body that the callback is for is held with those before it
	reply   *fakehost.Reply
	cluster string // that the request is routed to by now, "" for the cluster of all
	served  string // address that the gateway reports in place of the endpoint's
	note    string
	fields  []measured.Field // of its span
	logged  []measured.Field // of the access log
	shown   int              // bytes of each part of the body that the gateway shows, 0 for all
}

const clientsWish = "a client's wish" // that got past the filters in front of the plugin

// open takes a request from the client.
func (w *fakeWorker) open(r streamtest.Request) *fakeStream {
	p := w.process
	s := &fakeStream{process: p, worker: w, request: r, id: uint32(1000 + len(p.streams))}
	p.streams[s.id] = s
	s.Stream, s.Index = p.host.NewStream(), p.index
	s.Name, s.Filter, s.StopIteration, s.Override = "the request "+strconv.Itoa(int(s.id)), s, true, clientsWish
	s.core = NewStream(w.current, s.id, s)
	if p.explained != nil {
		s.core.Explain(r.Path, func(e *state.Explanation) {
			p.explained(e)
			s.Reply(200, nil, "{}")
		})
	}
	for _, h := range r.Headers {
		if h[0] == "x-higress-target-cluster" {
			s.cluster = h[1] // by the route, until the plugin changes it
		}
	}
	s.OnRoute = s.route
	s.OnEnd = func() { p.access = append(p.access, s.note) }
	s.Start(r)
	s.Settle = p.redis.await
	return s
}

// route is what is between the plugin and the router: a filter that may answer.
func (s *fakeStream) route() int {
	if s.Override == clientsWish {
		s.process.t.Error("the plugin let the client steer")
	}
	s.Stream.Cluster = s.target()
	s.process.place(s.Stream.Cluster)
	return s.request.Local
}

// target returns the cluster that the request is routed to.
func (s *fakeStream) target() string { return cmp.Or(s.cluster, fakeCluster) }

// index returns the number of the endpoint with that address.
func (p *fakeProcess) index(addr string) int {
	return slices.IndexFunc(p.endpoints, func(e *fakeEndpoint) bool { return e.Addr == addr })
}

// place tells the router of the endpoints that a cluster has now.
func (p *fakeProcess) place(cluster string) {
	var list []*fakehost.Endpoint
	for i, e := range p.endpoints {
		if p.sites != nil && (p.outdated[cluster] || !slices.Contains(p.sites[cluster], i)) {
			continue
		}
		if e.at.Addr, e.at.Refuses, e.at.Health = e.Addr, e.refuses, fakehost.Healthy; e.State != lb.Healthy {
			e.at.Health = fakehost.Unhealthy
		}
		list = append(list, &e.at)
	}
	if p.sites != nil && p.sites[cluster] == nil {
		delete(p.host.Clusters, cluster)
		return
	}
	if p.host.Clusters[cluster] == nil {
		p.host.Clusters[cluster] = &fakehost.Cluster{}
	}
	p.host.Clusters[cluster].Set(list)
}

// moveTo lets another endpoint have the request, without an attempt that the plugin could see; -1 for none.
func (s *fakeStream) moveTo(i int) {
	if i < 0 {
		s.MoveTo(nil)
		return
	}
	e := s.process.endpoints[i]
	e.at.Addr = e.Addr
	s.MoveTo(&e.at)
}

// serveIn does so with an endpoint of another cluster.
func (s *fakeStream) serveIn(cluster string, i int) {
	s.cluster = cluster
	s.moveTo(i)
}

// Retry implements [streamtest.Stream].
func (s *fakeStream) Retry() int {
	s.Stream.Cluster = s.target()
	s.process.place(s.Stream.Cluster)
	return s.Player.Retry()
}

// answer is a reply of the gateway.
func (s *fakeStream) answer(status int, details string) {
	s.Stream.Reply(fakehost.Reply{Code: status, Details: details})
}

// endedBy returns a request that has ended with such details.
func (p *fakeProcess) endedBy(details string) *fakeStream {
	s := &fakeStream{process: p}
	s.Stream = p.host.NewStream()
	s.Reset(details)
	return s
}

// endBy ends the stream, as one of four ends in turn: complete, reset by either side, failed.
func (s *fakeStream) endBy(i int) {
	switch i % 4 {
	case 0:
		s.Finish()
	case 1:
		s.ResetByClient()
	case 2:
		s.ResetByUpstream()
	default:
		s.Head(500)
		s.Finish()
	}
}

// end breaks the request off.
func (s *fakeStream) end() { s.Reset(s.Stream.Details) }

// leave is a client that leaves, unless the request is over.
func (s *fakeStream) leave() {
	if !s.Ended {
		s.ResetByClient()
	}
}

// conclude has the model server answer, or the client leave if the request waits in front of the server. Neither
// happens to one that is over.
func (s *fakeStream) conclude() {
	if s.Reached && !s.Ended {
		s.Finish()
		return
	}
	s.leave()
}

// Call implements [fakehost.Filter].
func (s *fakeStream) Call(c fakehost.Callback, count int, end bool) (answer int, replied bool) {
	a, stop := host.Proceed, 0
	s.in(func() {
		switch c {
		case fakehost.RequestHeaders:
			a, stop = s.core.OnRequestHeaders(end), fakehost.HeadersStopWatermark
		case fakehost.RequestBody:
			s.joined = s.Request.Buffering()
			a, stop = s.core.OnRequestBody(count, end), fakehost.DataStopWatermark
		case fakehost.RequestTrailers:
			a, stop = s.core.OnRequestTrailers(), fakehost.HeadersStopIteration
		case fakehost.ResponseHeaders:
			s.core.OnResponseHeaders(end)
		case fakehost.ResponseBody:
			s.core.OnResponseBody(count, end)
		case fakehost.ResponseTrailers:
			s.core.OnResponseTrailers()
		case fakehost.Done:
			s.core.OnDone()
		}
	})
	if reply := s.reply; reply != nil {
		s.reply = nil
		s.Stream.Reply(*reply)
		return 0, true
	}
	return map[host.Action]int{host.Hold: fakehost.HeadersStopIteration, host.Stop: stop}[a], false
}

// response runs a callback for the response, which nothing of the gateway follows.
func (s *fakeStream) response(f func()) {
	if !s.Ended {
		s.in(f)
	}
}

// answerBegins shows the plugin the headers of a response, which nothing of the gateway follows.
func (s *fakeStream) answerBegins(status string, end bool) {
	s.Response.Headers, s.Response.ShowsHeaders = fakehost.H(":status", status), true
	s.response(func() { s.core.OnResponseHeaders(end) })
	s.Response.ShowsHeaders = false
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
	if s.Routed {
		s.process.t.Error("the plugin chose a cluster after the router had")
	}
	if s.cluster = cluster; cluster == "" {
		s.writable(s.Request).Del(header)
		return
	}
	s.writable(s.Request).Set(header, cluster)
}

func (s *fakeStream) Route() string { s.called("Route"); return fakeRoute }

func (s *fakeStream) RequestHeaders() [][2]string {
	s.called("RequestHeaders")
	return s.Request.Headers.Clone()
}

func (s *fakeStream) HoldBody(int) { s.called("HoldBody") }

func (s *fakeStream) ReleaseHeaders() {
	s.called("ReleaseHeaders")
	if s.joined {
		s.process.t.Error("headers are released while the part that the callback is for is held")
	}
}

// header returns a header of the request as it is now.
func (s *fakeStream) header(name string) string { return s.Request.Headers.Get(name) }

// writable returns the headers of one direction, which a gateway lets the plugin change until they go on.
func (s *fakeStream) writable(h *fakehost.Half) *fakehost.Headers {
	if !h.ShowsHeaders {
		s.process.t.Error("the plugin changes headers that have gone on")
	}
	return &h.Headers
}

// lend returns at most most bytes from the given place of those that the gateway shows.
func (s *fakeStream) lend(of *fakehost.Half, from, most int) []byte {
	shown, _ := of.Body()
	from = min(from, len(shown))
	return s.process.lend(string(shown[from:min(from+most, len(shown))]))
}

func (s *fakeStream) RequestBody(from, most int) []byte {
	s.called("RequestBody")
	if s.shown > 0 {
		most = max(0, min(most, s.shown-from))
	}
	return s.lend(s.Request, from, most)
}

func (s *fakeStream) Steer(addr string, others []string) error {
	s.called("Steer")
	if s.Routed {
		s.process.t.Error("the plugin chose an endpoint after the router had")
	}
	if addr == "" || slices.Contains(others, addr) {
		s.process.t.Errorf("the plugin chose %q, then %q", addr, others)
	}
	if s.process.steerErr == nil {
		s.Override, s.Others = addr, others
	}
	return s.process.steerErr
}

func (s *fakeStream) Unsteer() {
	s.called("Unsteer")
	s.Override, s.Others = "", nil
}

func (s *fakeStream) ServedBy() string {
	s.called("ServedBy")
	return cmp.Or(s.served, s.Stream.Upstream())
}

func (s *fakeStream) SubsetHint() []byte { s.called("SubsetHint"); return s.process.hint }

func (s *fakeStream) Client() string {
	s.called("Client")
	return cmp.Or(s.request.Client, "127.0.0.1") + ":50000"
}

func (s *fakeStream) ResponseHeader(name string) string {
	s.called("ResponseHeader")
	return s.Response.Headers.Get(name)
}

// ResponseHeaders returns them in the order of their names.
func (s *fakeStream) ResponseHeaders() [][2]string {
	s.called("ResponseHeaders")
	return s.Response.Headers.Clone()
}

func (s *fakeStream) SetResponseHeader(name, value string) {
	s.called("SetResponseHeader")
	s.writable(s.Response).Set(name, value)
}

func (s *fakeStream) RemoveResponseHeader(name string) {
	s.called("RemoveResponseHeader")
	s.writable(s.Response).Del(name)
}

func (s *fakeStream) SetRequestHeader(name, value string) {
	s.called("SetRequestHeader")
	s.writable(s.Request).Set(name, value)
}

func (s *fakeStream) RemoveRequestHeader(name string) {
	s.called("RemoveRequestHeader")
	s.writable(s.Request).Del(name)
}

func (s *fakeStream) Attempts() int { s.called("Attempts"); return s.Stream.Attempts }

func (s *fakeStream) Details() string { s.called("Details"); return s.Stream.Details }

func (s *fakeStream) SetNote(text []byte) { s.called("SetNote"); s.note = string(text) }

func (s *fakeStream) Note() string { s.called("Note"); return s.note }

func (s *fakeStream) Resume() {
	s.called("Resume")
	if s.inside || !s.Held() || s.resumed {
		s.process.t.Error("the plugin resumed a request that was not held")
		return
	}
	s.resumed = true
	s.Request.Hide()
	s.process.later = append(s.process.later, func() {
		if s.resumed = false; !s.Ended {
			s.Request.Continue()
		}
	})
}

func (s *fakeStream) Reply(status int, headers [][2]string, body string) {
	s.called("Reply")
	r := fakehost.Reply{Code: status, Details: "warmgate", Headers: headers, Body: []byte(body)}
	if s.inside {
		s.reply = &r
		return
	}
	s.process.later = append(s.process.later, func() { s.Stream.Reply(r) })
}

func (s *fakeStream) ResponseBody(from, most int) []byte { return s.lend(s.Response, from, most) }
