package core

import (
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/learned"
)

// Some calls have the shape of requests, but no model works on them: [prompt.CallOf] knows them by method and path.
// They are placed by requests in flight, and nothing is learned from them; no budget, no cap and no queue is for them.
// Of a call that is only assumed to compute nothing, for want of a body or by its answers, caps, queues and health are.

// meetCall finds out what the call makes an engine do. bodiless is whether it has no body.
func (pl *placement) meetCall(bodiless bool) {
	pl.traits.read(pl)
	method := pl.traits.value(":method")
	pl.what = prompt.CallOf(method, pl.traits.path, bodiless)
	if pl.what == prompt.Unlisted || pl.what == prompt.Bodiless {
		pl.pattern = learned.PatternOf(method, pl.traits.path, pl.what == prompt.Bodiless)
		if cl := pl.plugin.vm.clusters[pl.scope]; cl != nil {
			pl.what = cl.calls.Judge(pl.pattern, pl.what)
		}
	}
	pl.held.meet(method)
	pl.facts.meet()
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
func (j *judging) judged() lb.Verdict {
	pl := j.pl
	verdict := j.verdict()
	if pl.facts.isFact(verdict) || pl.idle() && !(verdict == lb.Failure && isUnreached(pl.Details())) {
		return lb.Neutral
	}
	return verdict
}
