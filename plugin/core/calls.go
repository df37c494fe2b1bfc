package core

import (
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
)

// Some calls have the shape of requests, but no model works on them: [prompt.CallOf] knows them by method and path.
// They are placed by requests in flight, and nothing is learned from them; no budget, no cap and no queue is for them.
// Of a call that is only assumed to compute nothing, for want of a body or by its answers, caps, queues and health are.

// meetCall finds out what the call makes an engine do. bodiless is whether it has no body.
func (s *Stream) meetCall(bodiless bool) {
	s.traits.read(s)
	method := s.traits.value(":method")
	s.what = prompt.CallOf(method, s.traits.path, bodiless)
	if s.what == prompt.Unlisted || s.what == prompt.Bodiless {
		s.pattern = patternOf(method, s.traits.path, s.what == prompt.Bodiless)
		if cl := s.plugin.vm.clusters[s.scope]; cl != nil {
			s.what = cl.calls.judge(s.pattern, s.what)
		}
	}
	s.meetHeld(method)
	s.meetModel()
}

// computes reports whether a model works on the request, as far as is known.
func (s *Stream) computes() bool { return s.what == prompt.Computes || s.what == prompt.Unlisted }

// idle reports whether the call is known to compute nothing, or nothing here.
func (s *Stream) idle() bool { return s.what == prompt.Idle || s.what == prompt.Counts }

// isForModel reports whether the call can only be served by an endpoint that has its model, as far as is known.
func (s *Stream) isForModel() bool { return s.what != prompt.Idle && s.what != prompt.Bodiless }

// judged is verdict, less what says nothing of how the endpoint computes: of a call that computes nothing, only that
// the endpoint or the cluster cannot be reached; and no refusal of a model that it does not have, or not with such a
// context.
func (s *Stream) judged() lb.Verdict {
	verdict := s.verdict()
	if s.isFact(verdict) || s.idle() && !(verdict == lb.Failure && isUnreached(s.Details())) {
		return lb.Neutral
	}
	return verdict
}
