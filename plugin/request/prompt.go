package request

import (
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/answer"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/learned"
	"github.com/warmgate/warmgate/plugin/stats"
)

// Prompt is what is read of a request for its choice: its prompt, and how much work that is.
type Prompt struct {
	of    *Subject
	Chain *Chain // for prefix_cache, nil where the prompt does not matter
	Work  Work   // with unit: tokens
	Model string // its name, "" if that was not read
	Usage answer.Usage
	Used  bool // the answer has shown its usage
}

// inspected takes over what is known of a body that could be read.
func (u *Prompt) inspected(b *Content) {
	of := u.of
	u.Model = b.parts.ModelName(b.Text)
	u.Work = Work{Info: b.info, Seen: len(b.Text) + b.skipped}
	u.Work.Model = learned.Key{
		Model: xxhash.Sum64String(u.Model), Class: of.classID(), Tenant: of.Traits.tenantID(of.Config),
	}
	if b.whole && !b.info.Media && !b.info.Stateful && b.info.API != prompt.Unknown {
		u.Work.Text = b.info.TextBytes
	}
	if of.Config.ReadsPrompt() && of.Computes() {
		u.chainPrompt(b)
	}
}

// chainPrompt cuts the prompt of the body into blocks. The route, and the tenant if there is a header for it, are part
// of every key. A prompt that the server puts more in front of than was sent is never seen as a whole. A body that was
// not read to its end has no blocks: what isolates its prompt from others may stand there.
func (u *Prompt) chainPrompt(b *Content) {
	of := u.of
	chainer, tenant := of.prompts.chainer(of.Config), ""
	if of.Config.Prefix.TenantHeader != "" {
		tenant = of.Traits.Header(of.Config.Prefix.TenantHeader)
	}
	now, key := of.env.Clock(), u.Work.Model
	model := learned.ModelID{Cluster: of.Scope, Model: key.Model}
	var first *learned.FirstTexts
	if of.Trial {
		first = of.prompts.Firsts.Try(model)
	} else {
		first = of.prompts.Firsts.Of(now, model)
	}
	var mediaBytes []int
	var bytesPerToken float64
	if b.info.Media {
		key.Cluster, key.Guess = of.Scope, clusters.GuessOf(of.Config)
		mediaBytes, bytesPerToken = of.prompts.Models.MediaBytes(key)
	}
	skipped := first.Skipped(now)
	chainer.Expect(skipped, mediaBytes)
	blocks, length := chainer.Chain(b.Text, &b.parts, of.Scope, of.Gateway.Route(), tenant)
	changed := first.Observe(chainer.First())
	if n, bytes, sizes := chainer.Media(); n > 0 && bytesPerToken > 0 {
		u.Work.media = learned.Media{Count: n, Tokens: float64(bytes) / bytesPerToken, Sizes: slices.Clone(sizes)}
	}
	if !b.ended {
		if blocks = nil; !of.Trial {
			of.env.Stats.Count(statname.With(stats.Unread, "cause", b.unread), 1)
		}
	}
	if of.Config.Prefix.TenantHeader != "" { // requests without the header are one tenant's
		chainer.Claim(blocks, tenant)
	}
	u.Chain = &Chain{
		Blocks: slices.Clone(blocks), Length: length, Planned: now,
		shape: of.Traits.shapeOr(b.info.API), Uncached: b.info.BypassCache, whole: b.whole && !b.info.Stateful,
		model: u.Model, first: first, skipped: skipped && changed,
	}
}

// EstimateWork estimates how much work the request is likely to be: size bytes of its body have come, all of it or not.
func (u *Prompt) EstimateWork(r *lb.Request, size int, ended bool) {
	of := u.of
	w := &u.Work
	w.Model.Cluster, w.Model.Guess, w.Open = of.Scope, clusters.GuessOf(of.Config), !ended
	w.typical = of.prompts.Models.Typical(w.Model, w.Info.MaxTokens)
	w.Said = of.Hints.outputTokens()
	w.Sampled = !of.Trial && of.Cluster.Samples.Take(w.Info.MaxTokens)
	if p := u.Chain; p != nil {
		r.Blocks, r.PromptBytes, r.BypassCache = p.Blocks, p.Length+w.Unseen(size), p.Uncached
	}
	r.PromptTokens, r.OutputTokens = w.Estimate(of.Config, size)
	w.Streamed = w.Info.Stream
}

// AssumeTypical counts a request of which nothing is read as a typical one, for other configurations of its cluster
// that count tokens.
func (u *Prompt) AssumeTypical(r *lb.Request) {
	of := u.of
	typical := of.prompts.Models.Typical(learned.Key{Cluster: of.Scope, Guess: of.Cluster.Guess}, 0)
	r.PromptTokens, r.OutputTokens = int64(typical.Prompt), int64(math.Round(typical.Output))
}
