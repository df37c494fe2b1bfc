package core

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/answer"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/stats"
)

// Usage in responses shows how much of a prompt was cached, against what was expected, and how long prompts and answers
// of a model are in tokens.

// readsUsage reports whether the usage in the response matters.
func (s *serving) readsUsage() bool {
	pl := s.pl
	r := &pl.response
	return pl.phase == phaseLeased && r.status >= 200 && r.status < 300 && !r.encoded &&
		(pl.prompt.work.sampled || pl.prompt.chain.hasBlocks() || pl.lease.budget.target.addr != "" ||
			pl.wait.sharesTokens() || pl.what == prompt.Quiet)
}

// learnUsage puts the usage in the response into the outcome, beside what was expected, and into what is known of the
// model. The output of an answer that broke off is not known.
func (s *serving) learnUsage(now time.Duration, o *lb.Outcome) {
	pl := s.pl
	if pl.response.answer == nil || !pl.computes() || !s.readsUsage() {
		return
	}
	u, ok := pl.response.answer.Usage(pl.response.complete)
	if !ok {
		return
	}
	if pl.prompt.chain.hasBlocks() {
		s.compareCached(pl.prompt.chain, u, o)
	}
	used := int64(u.Output)
	if !pl.response.complete { // at least what was estimated of the output was used
		used = max(used, pl.prompt.work.output)
	}
	pl.lease.used(int64(u.Prompt) + used)
	w := &pl.prompt.work
	u.Output /= max(1, w.info.N) // reported for all answers together
	if !pl.response.complete || w.info.N > 1 && w.info.API == prompt.Unknown {
		u.Output = -1 // so far; or it is not known of how many answers, because not every API has n
	}
	pl.cluster.Samples.HasRead(w.info.MaxTokens)
	known := pl.plugin.vm.prompts.models
	known.Observe(now, w.model, w.text, w.info.MaxTokens, u)
	if w.media.Count > 0 && pl.prompt.chain != nil && pl.prompt.chain.whole {
		text := float64(w.info.TextBytes)/w.typical.BytesPerToken + float64(w.info.TokenIDs)
		known.ObserveMedia(w.model, w.media, float64(u.Prompt)-text)
	}
}

// compareCached puts into the outcome what was expected to be cached of a prompt, and what was.
//
// Nothing was expected where another endpoint served than the chosen one, or where only a part of the prompt was seen.
// Usage in answers that broke off only shows that the endpoint reports.
func (s *serving) compareCached(p *promptChain, u answer.Usage, o *lb.Outcome) {
	pl := s.pl
	o.PlannedAt, o.PromptTokens, o.CachedTokens = p.planned, int64(u.Prompt), int64(min(u.Cached, u.Prompt))
	o.API, o.Source = p.shape, p.source()
	if pl.lease.addr == pl.lease.chosen && pl.response.complete && p.whole {
		o.ExpectedTokens = int64(p.cached * float64(u.Prompt))
	}
	v := pl.plugin.vm
	if pl.lease.addr == pl.lease.chosen && pl.response.complete && p.whole && u.Prompt > 0 {
		share := float64(o.CachedTokens) / float64(u.Prompt)
		if v.showMatch(p, share); p.skipped {
			p.first.Answered(p.planned, p.cached, share)
		}
	}
	v.Stats.Count(stats.Prompt, uint64(o.PromptTokens))
	v.Stats.Count(stats.Cached, uint64(o.CachedTokens))
	v.Stats.Count(stats.Expected, uint64(o.ExpectedTokens))
	pl.cluster.Prompts.UsedBy(pl.plugin, pl.cfg)
	if p.whole {
		pl.cluster.Prompts.Sizes.Observe(u.Prompt, len(p.blocks))
	}
}

// showMatch shows how well the expectation of a request was met.
func (v *VM) showMatch(p *promptChain, cached float64) {
	if e, known := v.prompts.errors.Observe(p.shape, p.model, p.cached, cached); known {
		name := statname.With(stats.MatchError, "api", e.API, "model", e.Model)
		v.Stats.SetIf(name, uint64(math.Round(e.Percent)))
	}
}
