package core

import (
	"cmp"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/answer"
	"github.com/warmgate/warmgate/lb/prompt"
)

// What an endpoint refuses because it does not have the model, or not with such a context, is no fault of it: it is a
// fact about the model there. This file is how a request shows its model and its length, and its answer such a fact.

// factUse is what a request has to do with facts about models.
type factUse struct {
	of      *subject
	inPath  uint64 // digest of the name of its model, where the path has that, 0 where it has not
	model   uint64 // digest of its model's name, where only that is read of a body, 0 if it was not
	length  int64  // of the prompt and the answer that is wanted, in bytes as far as is known
	refusal []byte // the beginning of the answer, if that is one
	refused bool   // the endpoint does not have the model, or not with such a context
}

// readsFacts reports whether the body has to be read for its model: the endpoints of the cluster differ in what they
// have, or may do so, or it is not known yet.
func (f *factUse) readsFacts() bool {
	of := f.of
	cl := of.known()
	return of.isForModel() && (cl != nil && cl.Facts.Active(of.env.Clock()) || f.readsLists()) &&
		(f.inPath == 0 || of.traits.length == 0) && // else all is known
		(of.traits.parts || !of.traits.notJSON && !of.traits.encoded)
}

// meet reads the model in the path.
func (f *factUse) meet() {
	if !f.of.isForModel() {
		return
	}
	if name := prompt.ModelInPath(f.of.traits.path); name != "" {
		f.inPath = xxhash.Sum64String(name)
	}
}

// readModel reads the model in a body of which nothing else matters.
func (f *factUse) readModel(body []byte) {
	if !f.readsFacts() {
		return
	}
	var name string
	if f.of.traits.parts {
		name = prompt.ModelInParts(body)
	} else {
		name, _ = prompt.MemberText(body, []string{"model"})
	}
	if name != "" {
		f.model = xxhash.Sum64String(name)
	}
}

// bytesPerToken is what a token of an answer that is wanted counts for beside the bytes of a prompt.
const bytesPerToken = 4

// put puts into the request what facts about models depend on: size bytes of the body have come.
func (f *factUse) put(r *lb.Request, size int) {
	of := f.of
	if !of.isForModel() {
		return
	}
	size = max(size, of.traits.length)
	f.length = int64(size)
	if w := &of.prompt.work; w.seen > 0 {
		text := float64(w.info.TextBytes+bytesPerToken*w.info.TokenIDs) * float64(max(size, w.seen)) / float64(w.seen)
		f.length = int64(text) + bytesPerToken*int64(w.info.MaxTokens)
	}
	r.ModelID, r.ModelName, r.Length = f.id(), f.modelID(), f.length
}

// modelID returns the same number for all requests for one model, 0 if it is not known.
func (f *factUse) modelID() uint64 {
	// engines with such paths read no other one
	return cmp.Or(f.inPath, f.of.prompt.work.model.Model, f.model)
}

// id returns the same number for all requests for one model by one path, since an endpoint may serve a model in one
// API and not in another; 0 if the model is not known.
func (f *factUse) id() uint64 {
	of := f.of
	model := f.modelID()
	if model == 0 {
		return 0
	}
	return (model ^ xxhash.Sum64String(prompt.APIPath(of.traits.path, of.what))) | 1
}

// isOther reports whether a refusal names another model than was read: engines take the last of several members of one
// name, and some any spelling of the name. Some add a tag.
func (f *factUse) isOther(name string) bool {
	model, _, _ := strings.Cut(name, ":")
	id := f.modelID()
	return name != "" && xxhash.Sum64String(name) != id && xxhash.Sum64String(model) != id
}

// refusedStatus stands for the status of a refusal whose answer has a good one.
const refusedStatus = 400

// readsRefusal reports whether more of an answer with the status is needed to know why the request is refused.
func (f *factUse) readsRefusal(status int) bool {
	return status >= 400 && status < 500 && f.of.isForModel() && len(f.refusal) < prompt.RefusalBytes
}

// readRefusal takes the part of an answer that is passing, size bytes, if it may say why the request is refused.
func (f *factUse) readRefusal(size, status int) {
	if size > 0 && f.readsRefusal(status) {
		f.refusal = append(f.refusal, f.of.gateway.ResponseBody(0, min(size, prompt.RefusalBytes-len(f.refusal)))...)
	}
}

// isFact reports whether the endpoint, which has answered with the status, has refused the request for its model or its
// length. It notes that, and what it has served.
func (f *factUse) isFact(verdict lb.Verdict, addr string, status int) bool {
	of := f.of
	known, now := of.cluster.Facts, of.env.Clock()
	switch {
	case !of.isForModel() || of.cfg.Shadow:
	case verdict == lb.Success && !of.computes(): // some engines count with one tokenizer, whatever the model
	case verdict == lb.Success:
		known.Served(now, f.id(), addr, f.length)
	case verdict == lb.Rejected:
		model := f.id()
		if status < 300 {
			status = refusedStatus
		}
		switch why, name := prompt.ReadRefusal(status, f.refusal); why {
		case prompt.UnknownModel:
			if f.isOther(name) {
				model = 0
			}
			known.Absent(now, model, addr)
			f.refused = true
		case prompt.ContextTooLong, prompt.AnswerTooLong:
			// without a limit on the answer, that is not in the length
			if why == prompt.ContextTooLong || of.prompt.work.info.MaxTokens > 0 {
				known.TooLong(now, model, addr, f.length)
			}
			f.refused = true
		}
	}
	return f.refused
}

// statesFact reports whether an answer that is not complete is an error that says that the endpoint does not have the
// model, or not with such a context. Then it is a fact as it is under the status for it.
func (f *factUse) statesFact(a *answer.Reader) bool {
	if a.HasOutput() || !f.of.isForModel() {
		return false
	}
	text := a.Fault()
	if why, _ := prompt.ReadRefusal(refusedStatus, text); why == prompt.OtherRefusal {
		return false
	}
	f.refusal = text
	return true
}

// readsLists reports whether the lists of the request's cluster are read, and are not known yet.
func (f *factUse) readsLists() bool {
	of := f.of
	if !of.cfg.ReadsModelLists() {
		return false
	}
	cl := of.known()
	return cl == nil || cl.Metrics.ListsUnread(of.env.Clock(), of.cfg)
}
