package main

import (
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
)

// This file is what responses tell: how much of a prompt was cached, against what was expected, and how long prompts and answers
// of a model are in tokens.

const (
	// usageWithin is how many bytes from the end of each part of a response are read. Usage is in its last event, or at the
	// end of an answer in one piece.
	usageWithin = 2 << 10
	// maxModels is how many models a VM knows. Their names come from clients.
	maxModels = 256
	// learnedShare of what is known of a model comes from the latest response.
	learnedShare = 1.0 / 16
)

// modelKey is a model of a cluster.
type modelKey struct {
	cluster string
	model   uint64 // hash of its name
}

// learned is what the responses of a model have told.
type learned struct {
	bytesPerToken float64 // of prompts, 0 if no response has told
	output        float64 // tokens of an answer, 0 if no response has told
}

// told takes what a response has said into account.
func (l *learned) told(textBytes int, u prompt.Usage) {
	if textBytes > 0 && u.Prompt > 0 {
		const least, most = 0.1, 100 // as in the configuration
		l.bytesPerToken = drift(l.bytesPerToken, min(max(float64(textBytes)/float64(u.Prompt), least), most))
	}
	if u.Output > 0 {
		l.output = drift(l.output, float64(u.Output))
	}
}

func drift(old, latest float64) float64 {
	if old == 0 {
		return latest
	}
	return old + (latest-old)*learnedShare
}

// reads says whether the response is to be read for its usage.
func (s *stream) reads() bool {
	return s.prompted != nil && s.phase == phaseLeased && s.status >= 200 && s.status < 300 && len(s.prompted.blocks) > 0
}

// read looks for the usage in a part of the response.
func (s *stream) read(size int) {
	p := s.prompted
	if p.usage == nil {
		p.usage = &prompt.UsageReader{}
	}
	from := max(0, size-usageWithin)
	if from > 0 {
		p.usage.Skip()
	}
	p.usage.Read(s.ResponseBody(from, usageWithin))
}

// learn compares what was expected with what the response has told, remembers it, and puts it into the outcome.
//
// Nothing was expected where another endpoint served than the chosen one, or where only a part of the prompt was seen. Of an answer
// that broke off it is not known what its end would have told. What such answers tell says only that the endpoint reports.
func (s *stream) learn(now time.Duration, o *lb.Outcome) {
	p := s.prompted
	if p == nil || p.usage == nil {
		return
	}
	u, ok := p.usage.Usage(s.complete)
	if !ok {
		return
	}
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
	if !s.complete {
		u.Output = 0 // so far
	}
	u.Output /= p.answers
	l, _ := v.models.get(now, p.model)
	l.told(p.textBytes, u)
	v.models.put(now, p.model, l)
}

// modelOf names the model that a body asks for.
func (s *stream) modelOf(body []byte, parts *prompt.Parts) modelKey {
	return modelKey{s.scope, xxhash.Sum64String(parts.ModelName(body))}
}
