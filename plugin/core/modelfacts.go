package core

import (
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/answer"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/host"
)

// What an endpoint refuses because it does not have the model, or not with such a context, is no fault of it: it is a
// fact about the model there. This file is how a request shows its model and its length, and its answer such a fact.

// factUse is what a request has to do with facts about models.
type factUse struct {
	pl      *choice
	inPath  uint64 // digest of the name of its model, where the path has that, 0 where it has not
	model   uint64 // digest of its model's name, where only that is read of a body, 0 if it was not
	length  int64  // of the prompt and the answer that is wanted, in bytes as far as is known
	refusal []byte // the beginning of the answer, if that is one
	refused bool   // the endpoint does not have the model, or not with such a context
}

// readsFacts reports whether the body has to be read for its model: the endpoints of the cluster differ in what they
// have, or may do so, or it is not known yet.
func (f *factUse) readsFacts() bool {
	pl := f.pl
	cl := pl.plugin.vm.clusters[pl.scope]
	return pl.isForModel() && (cl != nil && cl.facts.Active(pl.plugin.vm.Clock()) || f.readsLists()) &&
		(f.inPath == 0 || pl.traits.length == 0) && // else all is known
		(pl.traits.parts || !pl.traits.notJSON && !pl.traits.encoded)
}

// meet reads the model in the path.
func (f *factUse) meet() {
	if !f.pl.isForModel() {
		return
	}
	if name := prompt.ModelInPath(f.pl.traits.path); name != "" {
		f.inPath = xxhash.Sum64String(name)
	}
}

// readModel reads the model in a body of which nothing else matters.
func (f *factUse) readModel(body []byte) {
	if !f.readsFacts() {
		return
	}
	var name string
	if f.pl.traits.parts {
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
	pl := f.pl
	if !pl.isForModel() {
		return
	}
	size = max(size, pl.traits.length)
	f.length = int64(size)
	if w := &pl.prompt.work; w.seen > 0 {
		text := float64(w.info.TextBytes+bytesPerToken*w.info.TokenIDs) * float64(max(size, w.seen)) / float64(w.seen)
		f.length = int64(text) + bytesPerToken*int64(w.info.MaxTokens)
	}
	r.ModelID, r.ModelName, r.Length = f.id(), pl.judge.modelID(), f.length
}

// id returns the same number for all requests for one model by one path, since an endpoint may serve a model in one
// API and not in another; 0 if the model is not known.
func (f *factUse) id() uint64 {
	pl := f.pl
	model := pl.judge.modelID()
	if model == 0 {
		return 0
	}
	return (model ^ xxhash.Sum64String(prompt.APIPath(pl.traits.path, pl.what))) | 1
}

// isOther reports whether a refusal names another model than was read: engines take the last of several members of one
// name, and some any spelling of the name. Some add a tag.
func (f *factUse) isOther(name string) bool {
	model, _, _ := strings.Cut(name, ":")
	id := f.pl.judge.modelID()
	return name != "" && xxhash.Sum64String(name) != id && xxhash.Sum64String(model) != id
}

// refusedStatus stands for the status of a refusal whose answer has a good one.
const refusedStatus = 400

// readsRefusal reports whether more of the answer is needed to know why the request is refused.
func (f *factUse) readsRefusal() bool {
	pl := f.pl
	return pl.phase == phaseLeased && pl.response.status >= 400 && pl.response.status < 500 && pl.isForModel() &&
		len(f.refusal) < prompt.RefusalBytes
}

// readRefusal takes the part of an answer that is passing, size bytes, if it may say why the request is refused.
func (f *factUse) readRefusal(size int) {
	if size > 0 && f.readsRefusal() {
		f.refusal = append(f.refusal, f.pl.gateway.ResponseBody(0, min(size, prompt.RefusalBytes-len(f.refusal)))...)
	}
}

// isFact reports whether the endpoint has refused the request for its model or its length. It notes that, and what it
// has served.
func (f *factUse) isFact(verdict lb.Verdict) bool {
	pl := f.pl
	l, known := &pl.lease, pl.cluster.facts
	now := pl.plugin.vm.Clock()
	switch {
	case !pl.isForModel() || !pl.response.reached || pl.cfg.Shadow:
	case verdict == lb.Success && !pl.computes(): // some engines count with one tokenizer, whatever the model
	case verdict == lb.Success:
		known.Served(now, f.id(), l.addr, f.length)
	case verdict == lb.Rejected:
		model := f.id()
		status := pl.response.status
		if status < 300 {
			status = refusedStatus
		}
		switch why, name := prompt.ReadRefusal(status, f.refusal); why {
		case prompt.UnknownModel:
			if f.isOther(name) {
				model = 0
			}
			known.Absent(now, model, l.addr)
			f.refused = true
		case prompt.ContextTooLong, prompt.AnswerTooLong:
			// without a limit on the answer, that is not in the length
			if why == prompt.ContextTooLong || pl.prompt.work.info.MaxTokens > 0 {
				known.TooLong(now, model, l.addr, f.length)
			}
			f.refused = true
		}
	}
	return f.refused
}

// statesFact reports whether the answer is an error that says that the endpoint does not have the model, or not with
// such a context. Then it is a fact as it is under the status for it.
func (f *factUse) statesFact() bool {
	r := &f.pl.response
	if r.outcome == answer.Complete || r.answer.HasOutput() || !f.pl.isForModel() {
		return false
	}
	text := r.answer.Fault()
	if why, _ := prompt.ReadRefusal(refusedStatus, text); why == prompt.OtherRefusal {
		return false
	}
	f.refusal = text
	return true
}

// readsLists reports whether the lists of the request's cluster are read, and are not known yet.
func (f *factUse) readsLists() bool {
	pl := f.pl
	if !pl.cfg.ReadsModelLists() {
		return false
	}
	cl := pl.plugin.vm.clusters[pl.scope]
	return cl == nil || cl.metrics.ListsUnread(pl.plugin.vm.Clock(), pl.cfg)
}

// awaitsLists reports whether the request waits until the lists of its cluster are known: it names a model, and is sent
// where that has been chosen.
func (f *factUse) awaitsLists() bool {
	pl := f.pl
	if !pl.cfg.ReadsModelLists() || pl.cfg.Shadow || pl.lease.reservation.request.ModelID == 0 {
		return false
	}
	w := &pl.metrics.waiter
	w.Context, w.Recovered, w.Known = pl.context, pl.grantRecovered, func() {
		if pl.phase == phaseListing {
			pl.goOn(f.listed())
		}
	}
	return pl.plugin.vm.lists.Await(w, pl.cluster.metrics, pl.cfg, pl.cfg.BodyTimeout)
}

// listed decides for a request that has waited for lists.
func (f *factUse) listed() host.Action {
	pl := f.pl
	v := pl.plugin.vm
	view := v.views.of(v.Clock(), pl.scope, pl.cfg)
	if view == nil {
		return pl.pass(lb.ReasonNoEndpoints)
	}
	return pl.place(view)
}
