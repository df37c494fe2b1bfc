package core

import (
	"bytes"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
)

// What an endpoint refuses because it does not have the model, or not with such a context, is no fault of it: it is a
// fact about the model there. This file is how a request shows its model and its length, and its answer such a fact.

// factUse is what a request has to do with facts about models.
type factUse struct {
	inPath  uint64 // digest of the name of its model, where the path has that, 0 where it has not
	model   uint64 // digest of its model's name, where only that is read of a body, 0 if it was not
	length  int64  // of the prompt and the answer that is wanted, in bytes as far as is known
	alone   bool   // nothing else is read of the body: it is never held for longer than body_timeout
	refusal []byte // the beginning of the answer, if that is one
	refused bool   // the endpoint does not have the model, or not with such a context
}

// readsFacts reports whether the body has to be read for its model: the endpoints of the cluster differ in what they
// have, or may do so, or it is not known yet.
func (s *Stream) readsFacts() bool {
	cl := s.plugin.vm.clusters[s.scope]
	return s.isForModel() && (cl != nil && cl.facts.Active(s.plugin.vm.now()) || s.readsLists()) &&
		(s.facts.inPath == 0 || s.traits.length == 0) && // else all is known
		(s.traits.parts || !s.traits.notJSON && !s.traits.encoded)
}

// meetModel reads the model in the path.
func (s *Stream) meetModel() {
	if !s.isForModel() {
		return
	}
	if name := prompt.ModelInPath(s.traits.path); name != "" {
		s.facts.inPath = xxhash.Sum64String(name)
	}
}

// readModel reads the model in a body of which nothing else matters.
func (s *Stream) readModel(body []byte) {
	if !s.readsFacts() {
		return
	}
	var name string
	if s.traits.parts {
		name = prompt.ModelInParts(body)
	} else {
		name, _ = prompt.MemberText(body, []string{"model"})
	}
	if name != "" {
		s.facts.model = xxhash.Sum64String(name)
	}
}

// partsBytes is how much of a multipart body is read for its model: clients put files behind it.
const partsBytes = 64 << 10

// readParts reads the next part of a multipart body until its model has come. Each part comes alone, so that the
// request goes on after body_timeout although no more comes.
func (s *Stream) readParts(size int, end bool) Action {
	b, l := s.plugin.vm.bodies, s.body.long
	if l == nil {
		l = &longBody{}
		s.body.long, s.body.held, s.body.alone = l, true, true
	}
	text := s.RequestBody(0, min(size, partsBytes-len(l.parts)))
	l.parts = append(l.parts, text...)
	s.body.received += size
	l.size += size
	b.held += size
	l.kept += len(text)
	b.kept += len(text)
	complete := bytes.IndexByte(text, '\n') >= 0 && prompt.ModelInParts(l.parts) != ""
	if end || complete || s.body.received >= partsBytes || !b.hasRoom() {
		return s.inspect(s.body.received, end)
	}
	return s.awaitMore(Stop)
}

// bytesPerToken is what a token of an answer that is wanted counts for beside the bytes of a prompt.
const bytesPerToken = 4

// factsOf puts into the request what facts about models depend on: size bytes of the body have come.
func (s *Stream) factsOf(r *lb.Request, size int) {
	if !s.isForModel() {
		return
	}
	size = max(size, s.traits.length)
	s.facts.length = int64(size)
	if w := &s.work; w.seen > 0 {
		text := float64(w.info.TextBytes+bytesPerToken*w.info.TokenIDs) * float64(max(size, w.seen)) / float64(w.seen)
		s.facts.length = int64(text) + bytesPerToken*int64(w.info.MaxTokens)
	}
	r.ModelID, r.ModelName, r.Length = s.factID(), s.modelID(), s.facts.length
}

// factID returns the same number for all requests for one model by one path, since an endpoint may serve a model in one
// API and not in another; 0 if the model is not known.
func (s *Stream) factID() uint64 {
	model := s.modelID()
	if model == 0 {
		return 0
	}
	return (model ^ xxhash.Sum64String(prompt.APIPath(s.traits.path, s.what))) | 1
}

// isOther reports whether a refusal names another model than was read: engines take the last of several members of one
// name, and some any spelling of the name. Some add a tag.
func (s *Stream) isOther(name string) bool {
	model, _, _ := strings.Cut(name, ":")
	id := s.modelID()
	return name != "" && xxhash.Sum64String(name) != id && xxhash.Sum64String(model) != id
}

// refusedStatus stands for the status of a refusal whose answer has a good one.
const refusedStatus = 400

// readsRefusal reports whether more of the answer is needed to know why the request is refused.
func (s *Stream) readsRefusal() bool {
	return s.phase == phaseLeased && s.response.status >= 400 && s.response.status < 500 && s.isForModel() &&
		len(s.facts.refusal) < prompt.RefusalBytes
}

// readRefusal takes the part of an answer that is passing, size bytes, if it may say why the request is refused.
func (s *Stream) readRefusal(size int) {
	if r := &s.facts; size > 0 && s.readsRefusal() {
		r.refusal = append(r.refusal, s.ResponseBody(0, min(size, prompt.RefusalBytes-len(r.refusal)))...)
	}
}

// isFact reports whether the endpoint has refused the request for its model or its length. It notes that, and what it
// has served.
func (s *Stream) isFact(verdict lb.Verdict) bool {
	l, f := &s.lease, s.cluster.facts
	now := s.plugin.vm.now()
	switch {
	case !s.isForModel() || !s.response.reached || s.cfg.Shadow:
	case verdict == lb.Success && !s.computes(): // some engines count with one tokenizer, whatever the model
	case verdict == lb.Success:
		f.Served(now, s.factID(), l.addr, s.facts.length)
	case verdict == lb.Rejected:
		model := s.factID()
		status := s.response.status
		if status < 300 {
			status = refusedStatus
		}
		switch why, name := prompt.ReadRefusal(status, s.facts.refusal); why {
		case prompt.UnknownModel:
			if s.isOther(name) {
				model = 0
			}
			f.Absent(now, model, l.addr)
			s.facts.refused = true
		case prompt.ContextTooLong, prompt.AnswerTooLong:
			if why == prompt.ContextTooLong || s.work.info.MaxTokens > 0 { // else the answer is not in the length
				f.TooLong(now, model, l.addr, s.facts.length)
			}
			s.facts.refused = true
		}
	}
	return s.facts.refused
}
