package main

import (
	"cmp"
	"math"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/config"
)

// This file is how much work a request is taken to be. A client must not be able to make an endpoint look full with a
// number: only bytes that have come count, and what is only claimed counts for twice what is typical at most.

const (
	// mostTimes is how many times what is typical the answers to one request, or a body that cannot be read, count for
	// at most.
	mostTimes = 2
	// openTokens is what a request counts for until the end of its body has come: no engine works at it before. It is not
	// 0, so that several that come at once go to different endpoints.
	openTokens = 1
	// maxLength bounds a content-length, so that sums with it cannot overflow.
	maxLength = 1 << 40
)

// work is what a request is weighed by, and what its answer is compared with.
type work struct {
	model   modelKey
	typical learned // of such requests, when it was weighed
	info    prompt.Info
	seen    int  // bytes of the body that info is of, 0 when nothing of it could be read
	text    int  // length of the prompt's text, 0 if not all of it was seen
	open    bool // the end of the body has not come yet
	sampled bool // its answer is read for what it teaches
}

// estimate returns how many tokens a request is likely to be if its body has size bytes: those of its prompt, by bytes
// per token, and those it may generate. Together they are no more than the configured maximum.
//
// What was not seen of a body is taken to hold as much text as what was. The length of a body that cannot be read says
// little: it may be an image, or nothing that an engine looks at.
func (w *work) estimate(c *config.Config, size int) (promptTokens, outputTokens int64) {
	most := float64(c.MaxRequestTokens)
	tokens := min(float64(size)/w.typical.bytesPerToken, mostTimes*w.typical.prompt)
	if w.seen > 0 {
		tokens = float64(w.info.TextBytes)/w.typical.bytesPerToken + float64(w.info.TokenIDs)
		tokens *= float64(max(size, w.seen)) / float64(w.seen)
	}
	promptTokens = int64(min(tokens, most))
	if w.info.Shape == prompt.Embeddings || w.info.Shape == prompt.Rerank {
		return promptTokens, 0
	}
	typical := min(math.Ceil(w.typical.output), most)
	answer := cmp.Or(float64(w.info.MaxTokens), typical)
	output := min(answer*float64(max(1, w.info.N)), mostTimes*typical)
	return promptTokens, int64(min(output, most-float64(promptTokens)))
}

// weigh says how much work the request is likely to be: size bytes of its body have come, all of it or not.
func (s *stream) weigh(r *lb.Request, size int, ended bool) {
	w := &s.work
	w.model.cluster, w.model.guess, w.open = s.scope, guessOf(s.cfg), !ended
	w.typical = s.plugin.vm.models.typical(w.model)
	w.sampled = s.cluster.samples()
	s.cluster.weighed++
	if p := s.prompted; p != nil {
		r.Blocks, r.Length, r.Uncached = p.blocks, p.length+max(0, size-w.seen), p.uncached
	}
	r.PromptTokens, r.OutputTokens = w.estimate(s.cfg, size)
	s.streams = w.info.Stream
}

// reweigh is called when the end of the body has come. A lease that was granted before it counts for what has come from
// now on, if that is much more or less. A prefill that is done does not count any more.
func (s *stream) reweigh() {
	w := &s.work
	if !w.open || s.phase != phaseLeased || s.firstBytes && s.streams {
		return
	}
	w.open = false
	size := max(s.received, s.traits.length)
	promptTokens, outputTokens := w.estimate(s.cfg, size)
	plan, cached := &s.ask.plan, 0
	plan.Tokens = promptTokens + outputTokens
	if p := s.prompted; p != nil {
		plan.Prefix.Length = p.length + max(0, size-w.seen)
		if !p.uncached {
			plan.Prefix.Tokens = promptTokens
		}
	}
	if s.addr == s.chosen {
		cached = s.ask.grant.Cached
	}
	tokens := plan.Work(cached)
	if 4*max(tokens-s.tokens, s.tokens-tokens) > s.tokens {
		s.tokens = tokens
		s.store.Amend(s.now(), s.id, "", tokens)
	}
}

// tenant tells requests apart by whose they are, 0 where no header says so.
func (s *stream) tenant() uint64 {
	name := s.cfg.Prefix.TenantHeader
	if name == "" {
		return 0
	}
	return xxhash.Sum64String(s.traits.header(name)) | 1
}
