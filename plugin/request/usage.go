package request

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

// LearnUsage puts the usage in the response into the outcome, beside what was expected, and into what is known of the
// model. It returns how many tokens were used, if that is known: the output of an answer that broke off is not, but it
// is at least what was estimated. asChosen is whether the chosen endpoint has served.
func (u *Prompt) LearnUsage(
	now time.Duration, a *answer.Reader, complete, asChosen bool, o *lb.Outcome,
) (used int64, known bool) {
	if a == nil || !u.of.Computes() {
		return 0, false
	}
	is, ok := a.Usage(complete)
	if !ok {
		return 0, false
	}
	u.Usage, u.Used = is, true
	if u.Chain.HasBlocks() {
		u.compareCached(is, asChosen && complete, o)
	}
	used = int64(is.Output)
	if !complete {
		used = max(used, u.Work.Output)
	}
	used += int64(is.Prompt)
	w := &u.Work
	is.Output /= max(1, w.Info.N) // reported for all answers together
	if !complete || w.Info.N > 1 && w.Info.API == prompt.Unknown {
		is.Output = -1 // so far; or it is not known of how many answers, because not every API has n
	}
	u.of.Cluster.Samples.HasRead(w.Info.MaxTokens)
	models := u.of.prompts.Models
	models.Observe(now, w.Model, w.Text, w.Info.MaxTokens, is)
	if w.media.Count > 0 && u.Chain != nil && u.Chain.whole {
		text := float64(w.Info.TextBytes)/w.typical.BytesPerToken + float64(w.Info.TokenIDs)
		models.ObserveMedia(w.Model, w.media, float64(is.Prompt)-text)
	}
	return used, true
}

// compareCached puts into the outcome what was expected to be cached of a prompt, and what was.
//
// Nothing was expected where another endpoint served than the chosen one, or where only a part of the prompt was seen.
// Usage in answers that broke off only shows that the endpoint reports. asExpected is whether neither is so.
func (u *Prompt) compareCached(is answer.Usage, asExpected bool, o *lb.Outcome) {
	p, stat := u.Chain, u.of.env.Stats
	o.PlannedAt, o.PromptTokens, o.CachedTokens = p.Planned, int64(is.Prompt), int64(min(is.Cached, is.Prompt))
	o.API, o.Source = p.shape, p.Source()
	if asExpected && p.whole {
		o.ExpectedTokens = int64(p.Cached * float64(is.Prompt))
	}
	if asExpected && p.whole && is.Prompt > 0 {
		share := float64(o.CachedTokens) / float64(is.Prompt)
		if u.showMatch(share); p.skipped {
			p.first.Answered(p.Planned, p.Cached, share)
		}
	}
	stat.Count(stats.Prompt, uint64(o.PromptTokens))
	stat.Count(stats.Cached, uint64(o.CachedTokens))
	stat.Count(stats.Expected, uint64(o.ExpectedTokens))
	if p.whole {
		u.of.Cluster.Prompts.Sizes.Observe(is.Prompt, prompt.Recorded(p.Blocks))
	}
}

// showMatch shows how well the expectation of a request was met.
func (u *Prompt) showMatch(cached float64) {
	p := u.Chain
	if e, known := u.of.prompts.errors.Observe(p.shape, p.model, p.Cached, cached); known {
		name := statname.With(stats.MatchError, "api", e.API, "model", e.Model)
		u.of.env.Stats.SetIf(name, uint64(math.Round(e.Percent)))
	}
}
