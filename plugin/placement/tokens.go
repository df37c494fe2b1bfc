package placement

import (
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/answer"
	"github.com/warmgate/warmgate/lb/price"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/learned"
)

// This file is how many tokens a request took: by the usage in its answer, or else by what has passed of both.

// envelope is how many bytes an answer in one piece has around its text, about.
const envelope = 250

// tokens returns the tokens of a request whose answer is over. Of one that no model can have worked on there are none.
// What nobody has seen of an answer does not count: a client that leaves has got what has passed. An error has none;
// but behind a time that is over a model has worked.
func (s *Serving) tokens() (t price.Tokens) {
	pl := s.Of
	r := &pl.Response
	if pl.Idle() || s.Refused > 0 || r.Status == 101 || r.Status >= 400 && r.Status != 504 {
		return t
	}
	if unserved, _ := r.Unserved(pl.Gateway); unserved {
		return t
	}
	var u answer.Usage
	known := false
	if r.Answer != nil {
		u, known = r.Answer.Usage(r.Complete)
	}
	p := s.passed()
	estimated := !known
	if u.Prompt == 0 {
		u.Prompt = int(s.estimatePrompt(p))
		u.Cached = int(s.expectedCached() * float64(u.Prompt))
		estimated = estimated || u.Prompt > 0
	}
	// usage in each event counts at least as many tokens as there were events
	short := int64(u.Output) < p.Events
	if !known || short && (u.Output == 0 || !r.Complete) || p.Events == 0 && !r.Complete {
		estimated, u.Output = true, max(u.Output, int(s.estimateOutput(p)))
	}
	if tally := s.tally(); !known && tally.Thoughts > 0 {
		u.Reasoning = int(int64(u.Output) * tally.Thoughts / tally.Events)
	}
	u.Cached, u.Reasoning = min(u.Cached, u.Prompt), min(u.Reasoning, u.Output)
	return price.Tokens{
		Input: int64(u.Prompt - u.Cached), Cached: int64(u.Cached),
		Output: int64(u.Output - u.Reasoning), Reasoning: int64(u.Reasoning), Estimated: estimated,
	}
}

// tally returns how many events of the answer had output.
func (s *Serving) tally() (t answer.Tally) {
	if a := s.Of.Response.Answer; a != nil {
		t = a.Tally()
	}
	return t
}

// passed returns what has passed of the request and its answer. Where events were not counted, parts stand for them;
// the first one of most streams announces them, and the last one ends them.
func (s *Serving) passed() (p learned.Passed) {
	pl := s.Of
	r := &pl.Response
	if w := &pl.Prompt.Work; !w.Info.Media {
		p.Text, p.Body = int64(w.Text), int64(pl.Body.Received)
	}
	switch tally := s.tally(); {
	case tally.Events > 0: // also of a stream that has come in one part
		p.Events = tally.Events
		if seen := r.Bytes - r.Skipped; seen > 0 {
			p.Events += p.Events * int64(r.Skipped) / int64(seen)
		}
	case !r.Streamed:
	case r.Outputs > 1:
		p.Events = r.Outputs
	default:
		p.Events = max(1, r.Parts-1)
		if r.Complete {
			p.Events = max(1, r.Parts-2)
		}
	}
	return p
}

func (s *Serving) rateKey() learned.RateKey {
	return learned.RateKey{Cluster: s.Of.Scope, Model: s.Of.Prompt.Work.Model.Model}
}

// estimatePrompt returns about how many tokens the prompt has. As with [request.Work.Estimate], only bytes that have
// come count, and those of a body of which nothing was read mean little: they count for at most twice what is typical.
func (s *Serving) estimatePrompt(p learned.Passed) int64 {
	pl := s.Of
	if !s.computed() || pl.Traits.Opaque || pl.Traits.Encoded {
		return 0
	}
	if p.Text+p.Body == 0 && pl.Config.Unit == lb.Tokens {
		return pl.Lease.Reservation.Request.PromptTokens
	}
	rates, most := &pl.Shared.Prompts.Rates, int64(pl.Config.MaxRequestTokens)
	if pl.Prompt.Work.Seen == 0 {
		typical, _ := rates.Typical(s.rateKey(), pl.Config.OutputTokens)
		most = min(most, learned.MaxTimesTypical*max(1, typical))
	}
	return min(rates.Prompt(s.rateKey(), p, pl.Config.BytesPerToken), most)
}

// computed reports whether a model has worked on the request, as far as is known: of a call that is not listed, the
// answer has to show it.
func (s *Serving) computed() bool {
	pl := s.Of
	return pl.What == prompt.Computes || pl.Computes() && pl.Response.Shows() >= learned.ShowsOutput
}

// expectedCached returns which share of the prompt was expected in a cache where it was served: by its blocks, or
// where no policy knows these, by other prompts.
func (s *Serving) expectedCached() float64 {
	pl := s.Of
	if pl.Prompt.Chain == nil {
		return pl.Prompt.Work.CachedShare()
	}
	if !pl.Prompt.Chain.HasBlocks() || pl.Lease.Addr != pl.Lease.Chosen || pl.Config.Shadow {
		return 0
	}
	return pl.Prompt.Chain.Cached
}

// estimateOutput returns about how many tokens of the answer have passed.
func (s *Serving) estimateOutput(p learned.Passed) int64 {
	pl := s.Of
	r := &pl.Response
	switch {
	case r.Streamed || p.Events > 0:
		return pl.Shared.Prompts.Rates.Output(s.rateKey(), p)
	case r.API == answer.OtherAPI || r.Bytes == 0:
		return 0
	case r.Encoded: // its bytes say nothing
		_, typical := pl.Shared.Prompts.Rates.Typical(s.rateKey(), pl.Config.OutputTokens)
		return typical
	}
	return max(1, int64(float64(r.Bytes-envelope)/pl.Config.BytesPerToken))
}

// learnRates has a complete answer with usage show how many tokens what has passed stands for.
func (s *Serving) learnRates() {
	pl := s.Of
	r := &pl.Response
	if !r.Complete || r.Answer == nil || !pl.Computes() || pl.Trial {
		return
	}
	u, known := r.Answer.Usage(true)
	if !known {
		return
	}
	p := s.passed()
	if s.tally().Events == 0 {
		p.Events = 0
	}
	pl.Shared.Prompts.Rates.Observe(s.rateKey(), p, int64(u.Prompt), int64(u.Output))
}
