package main

import (
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
)

// This file is about usage in responses: how much of a prompt was cached, against what was expected, and how long
// prompts and answers of a model are in tokens.

const (
	// usageWithin is how many bytes from the end of each part of a response are read. Usage is in its last event, or at
	// the end of an answer in one piece.
	usageWithin = 2 << 10
	// sampleFirst is how many answers with usage of a cluster are read, and then one answer in sampleEvery: reading
	// costs a call of the gateway for each part. Of requests beyond sampleMost one in sampleEvery is read, since most
	// answers may come without usage. With prefix_cache all are read.
	sampleFirst = 64
	sampleEvery = 16
	sampleMost  = sampleEvery * sampleFirst
)

// samples reports whether the answer to the next request of the cluster is to be read.
func (cl *cluster) samples() bool {
	return cl.usages < sampleFirst && cl.weighed < sampleMost || cl.weighed%sampleEvery == 0
}

// reads reports whether the response is to be read for its usage.
func (s *stream) reads() bool {
	return s.phase == phaseLeased && s.status >= 200 && s.status < 300 && !s.encoded &&
		(s.work.sampled || s.prompted != nil && len(s.prompted.blocks) > 0)
}

// skipEncoded gives up reading a response that is encoded, and counts it.
func (s *stream) skipEncoded() {
	if !s.reads() {
		return
	}
	encoding := s.ResponseHeader("content-encoding")
	if s.encoded = encoding != "" && !strings.EqualFold(encoding, "identity"); s.encoded {
		s.plugin.vm.stats.count(statEncoded, 1)
	}
}

// read looks for the usage in a part of the response.
func (s *stream) read(size int) {
	if s.usage == nil {
		s.usage = &prompt.UsageReader{}
	}
	from := max(0, size-usageWithin)
	if from > 0 {
		s.usage.Skip()
	}
	s.usage.Read(s.ResponseBody(from, usageWithin))
}

// learn compares what was expected with the usage in the response, remembers it, and puts it into the outcome. Of an
// answer that broke off the output is not known.
func (s *stream) learn(now time.Duration, o *lb.Outcome) {
	if s.usage == nil {
		return
	}
	u, ok := s.usage.Usage(s.complete)
	if !ok {
		return
	}
	if p := s.prompted; p != nil && len(p.blocks) > 0 {
		s.compare(p, u, o)
	}
	w := &s.work
	u.Output /= max(1, w.info.N) // reported for all answers together
	if !s.complete || w.info.N > 1 && w.info.Shape == prompt.Unknown {
		u.Output = -1 // so far; or it is not known of how many answers, because not every API has n
	}
	s.cluster.usages++
	s.plugin.vm.models.observe(now, w.model, w.typical, w.text, w.info.MaxTokens, u)
}

// compare puts into the outcome what was expected to be cached of a prompt, and what was.
//
// Nothing was expected where another endpoint served than the chosen one, or where only a part of the prompt was seen.
// Usage in answers that broke off only shows that the endpoint reports.
func (s *stream) compare(p *prompted, u prompt.Usage, o *lb.Outcome) {
	o.Planned, o.PromptTokens, o.CachedTokens = p.planned, int64(u.Prompt), int64(min(u.Cached, u.Prompt))
	o.Shape, o.Source = p.shape, p.source()
	if s.addr == s.chosen && s.complete && p.whole {
		o.ExpectedTokens = int64(p.cached * float64(u.Prompt))
	}
	v := s.plugin.vm
	v.stats.count(statPrompt, uint64(o.PromptTokens))
	v.stats.count(statCached, uint64(o.CachedTokens))
	v.stats.count(statExpected, uint64(o.ExpectedTokens))
	s.cluster.prompts.asked(s.plugin, s.cfg)
	if p.whole {
		s.cluster.prompts.told(u.Prompt, len(p.blocks))
	}
}

// modelOf names the model that a body asks for.
func (s *stream) modelOf(body []byte, parts *prompt.Parts) modelKey {
	return modelKey{model: xxhash.Sum64String(parts.ModelName(body)), tenant: s.tenant()}
}
