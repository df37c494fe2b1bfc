package core

import (
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/placement"
	"github.com/warmgate/warmgate/plugin/vm"
)

// This file is where the callbacks of requests come in. Each runs in the context that it is for, and guarded.

// NewStream returns the state of a request that begins under a configuration.
func NewStream(p *vm.Plugin, context uint32, s host.GatewayStream) *Stream {
	p.VM.Serve()
	stream := &Stream{plugin: p}
	stream.Request.Init(s, context, p.VM.Bodies, stream)
	stream.first = newChoice(stream, nil, nil, "")
	return stream
}

// run guards a callback that may hold the request, as that of one of its placements.
func (pl *choice) run(name string, f func() host.Action) host.Action {
	a := host.Proceed
	pl.plugin.VM.Callback(pl.Context, name, func() { a = f() }, func() {
		if pl.stream.answer != nil {
			a = pl.stream.answer.Failed()
			return
		}
		pl.Recovered()
	})
	if settle := pl.stream.settle; settle != nil {
		return settle(a)
	}
	return a
}

// OnRequestHeaders is called once, with end when the request has no body.
func (s *Stream) OnRequestHeaders(end bool) host.Action {
	return s.first.run("request headers", func() host.Action { return s.headersCame(end) })
}

// OnRequestBody is called when more of the body has come: size bytes in all while it is held, else size more.
func (s *Stream) OnRequestBody(size int, end bool) host.Action {
	if s.answer != nil {
		s.Body.Received = size
		return s.first.run("request body", func() host.Action { return s.answer.Read(size, end) })
	}
	if s.first.Phase != placement.PhaseReading { // else it is counted as it is read
		s.Body.Received += size
	}
	inside := s.first.inside
	a := s.first.takeBody(size, end)
	if inside != nil {
		return inside.takeBody(size, end)
	}
	return a
}

func (pl *choice) takeBody(size int, end bool) host.Action {
	if pl.Phase >= placement.PhaseLeased && !end && !pl.Trial && !peeksAt(pl, size) { // else it may wait for Redis
		return host.Proceed
	}
	return pl.run("request body", func() host.Action { return pl.bodyCame(size, end) })
}

// OnRequestTrailers is called when the body was followed by trailers.
func (s *Stream) OnRequestTrailers() host.Action {
	if s.answer != nil {
		return s.first.run("request trailers", func() host.Action { return s.answer.Read(s.Body.Received, true) })
	}
	inside := s.first.inside
	a := s.first.run("request trailers", s.first.trailersCame)
	if inside != nil {
		return inside.run("request trailers", inside.trailersCame)
	}
	return a
}

// OnResponseHeaders is called once, with end when the response has no body.
func (s *Stream) OnResponseHeaders(end bool) {
	if s.answer != nil {
		s.plugin.VM.Callback(s.Context, "response headers", s.answer.Left, nil)
		return
	}
	for pl := s.first; pl != nil; pl = pl.inside {
		s.plugin.VM.Callback(s.Context, "response headers", func() { pl.answerBegins(end) }, nil)
		if end && pl.inside == nil {
			pl.span.update(true)
		}
	}
}

// OnResponseBody is called for every part of the response's body: size bytes.
func (s *Stream) OnResponseBody(size int, end bool) {
	if s.answer != nil {
		return
	}
	for pl := s.first; pl != nil; pl = pl.inside {
		pl.takeAnswer(size, end)
	}
}

func (pl *choice) takeAnswer(size int, end bool) {
	if pl.Response.Passed(size, end) || pl.serving.ReadsBegin() {
		pl.plugin.VM.Callback(pl.Context, "response body", func() { pl.serving.AnswerGoesOn(size, end) }, nil)
	} else {
		pl.Response.Unread = true
	}
	if pl.inside == nil {
		pl.span.update(end)
	}
}

// OnResponseTrailers is called when the response ends with trailers.
func (s *Stream) OnResponseTrailers() {
	for pl := s.first; pl != nil; pl = pl.inside {
		if pl.Response.Complete = true; pl.inside == nil {
			pl.span.update(true)
		}
	}
}

// OnDone is called when the request is over, however it ended. The first call counts.
func (s *Stream) OnDone() {
	if s.answer != nil && !s.Done() {
		s.plugin.VM.Callback(s.Context, "the end of a stream", s.answer.Left, nil)
		s.first.Enter(placement.PhaseDone)
	}
	for pl := s.first; pl != nil && pl.Phase != placement.PhaseDone; pl = pl.inside {
		s.plugin.VM.Callback(s.Context, "the end of a stream", pl.over, pl.Recovered)
	}
}

// over ends a choice, and has the last one of the row reported.
func (pl *choice) over() {
	if pl.end(); pl.inside == nil && pl.Config != nil {
		report(pl)
	}
}

// Done reports whether OnDone was called.
func (s *Stream) Done() bool { return s.first.Phase == placement.PhaseDone }
