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
	refusal []byte // the beginning of the answer, if that is one
	refused bool   // the endpoint does not have the model, or not with such a context
}

// readsFacts reports whether the body has to be read for its model: the endpoints of the cluster differ in what they
// have, or may do so, or it is not known yet.
func (pl *placement) readsFacts() bool {
	cl := pl.plugin.vm.clusters[pl.scope]
	return pl.isForModel() && (cl != nil && cl.facts.Active(pl.plugin.vm.now()) || pl.readsLists()) &&
		(pl.facts.inPath == 0 || pl.traits.length == 0) && // else all is known
		(pl.traits.parts || !pl.traits.notJSON && !pl.traits.encoded)
}

// meetModel reads the model in the path.
func (pl *placement) meetModel() {
	if !pl.isForModel() {
		return
	}
	if name := prompt.ModelInPath(pl.traits.path); name != "" {
		pl.facts.inPath = xxhash.Sum64String(name)
	}
}

// readModel reads the model in a body of which nothing else matters.
func (pl *placement) readModel(body []byte) {
	if !pl.readsFacts() {
		return
	}
	var name string
	if pl.traits.parts {
		name = prompt.ModelInParts(body)
	} else {
		name, _ = prompt.MemberText(body, []string{"model"})
	}
	if name != "" {
		pl.facts.model = xxhash.Sum64String(name)
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
func (pl *placement) factsOf(r *lb.Request, size int) {
	if !pl.isForModel() {
		return
	}
	size = max(size, pl.traits.length)
	pl.facts.length = int64(size)
	if w := &pl.work; w.seen > 0 {
		text := float64(w.info.TextBytes+bytesPerToken*w.info.TokenIDs) * float64(max(size, w.seen)) / float64(w.seen)
		pl.facts.length = int64(text) + bytesPerToken*int64(w.info.MaxTokens)
	}
	r.ModelID, r.ModelName, r.Length = pl.factID(), pl.modelID(), pl.facts.length
}

// factID returns the same number for all requests for one model by one path, since an endpoint may serve a model in one
// API and not in another; 0 if the model is not known.
func (pl *placement) factID() uint64 {
	model := pl.modelID()
	if model == 0 {
		return 0
	}
	return (model ^ xxhash.Sum64String(prompt.APIPath(pl.traits.path, pl.what))) | 1
}

// isOther reports whether a refusal names another model than was read: engines take the last of several members of one
// name, and some any spelling of the name. Some add a tag.
func (pl *placement) isOther(name string) bool {
	model, _, _ := strings.Cut(name, ":")
	id := pl.modelID()
	return name != "" && xxhash.Sum64String(name) != id && xxhash.Sum64String(model) != id
}

// refusedStatus stands for the status of a refusal whose answer has a good one.
const refusedStatus = 400

// readsRefusal reports whether more of the answer is needed to know why the request is refused.
func (pl *placement) readsRefusal() bool {
	return pl.phase == phaseLeased && pl.response.status >= 400 && pl.response.status < 500 && pl.isForModel() &&
		len(pl.facts.refusal) < prompt.RefusalBytes
}

// readRefusal takes the part of an answer that is passing, size bytes, if it may say why the request is refused.
func (pl *placement) readRefusal(size int) {
	if r := &pl.facts; size > 0 && pl.readsRefusal() {
		r.refusal = append(r.refusal, pl.ResponseBody(0, min(size, prompt.RefusalBytes-len(r.refusal)))...)
	}
}

// isFact reports whether the endpoint has refused the request for its model or its length. It notes that, and what it
// has served.
func (pl *placement) isFact(verdict lb.Verdict) bool {
	l, f := &pl.lease, pl.cluster.facts
	now := pl.plugin.vm.now()
	switch {
	case !pl.isForModel() || !pl.response.reached || pl.cfg.Shadow:
	case verdict == lb.Success && !pl.computes(): // some engines count with one tokenizer, whatever the model
	case verdict == lb.Success:
		f.Served(now, pl.factID(), l.addr, pl.facts.length)
	case verdict == lb.Rejected:
		model := pl.factID()
		status := pl.response.status
		if status < 300 {
			status = refusedStatus
		}
		switch why, name := prompt.ReadRefusal(status, pl.facts.refusal); why {
		case prompt.UnknownModel:
			if pl.isOther(name) {
				model = 0
			}
			f.Absent(now, model, l.addr)
			pl.facts.refused = true
		case prompt.ContextTooLong, prompt.AnswerTooLong:
			if why == prompt.ContextTooLong || pl.work.info.MaxTokens > 0 { // else the answer is not in the length
				f.TooLong(now, model, l.addr, pl.facts.length)
			}
			pl.facts.refused = true
		}
	}
	return pl.facts.refused
}
