package request

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

// Facts is what a request has to do with facts about models.
type Facts struct {
	of      *Subject
	inPath  uint64 // digest of the name of its model, where the path has that, 0 where it has not
	Model   uint64 // digest of its model's name, where only that is read of a body, else 0
	length  int64  // of the prompt and the answer that is wanted, in bytes as far as is known
	refusal []byte // the beginning of the answer, if that is one
	refused bool   // the endpoint does not have the model, or not with such a context
}

// NeedsBody reports whether the body has to be read for its model: the configuration always goes by it, or the
// endpoints of the cluster differ in what they have, or may do so, or it is not known yet.
func (f *Facts) NeedsBody() bool {
	of := f.of
	cl := of.known()
	return of.isForModel() &&
		(of.Config.NeedsModel() || cl != nil && cl.Facts.Active(of.env.Clock()) || f.readsLists()) &&
		(f.inPath == 0 || of.Traits.Length == 0) && // else all is known
		(of.Traits.Multipart || !of.Traits.notJSON && !of.Traits.Encoded)
}

// meet reads the model in the path.
func (f *Facts) meet() {
	if !f.of.isForModel() {
		return
	}
	if name := prompt.ModelInPath(f.of.Traits.Path); name != "" {
		f.inPath = xxhash.Sum64String(name)
	}
}

// MayNameModel reports whether the body may name a model.
func (s *Subject) MayNameModel() bool { return s.Computes() && !s.Traits.notJSON && !s.Traits.Encoded }

// peekWithin is how much of a body is looked at for the name of its model where nothing else matters: most have it in
// front.
const peekWithin = 1 << 10

// PeekModel reads the model in the beginning of a body, of which size bytes have come, and which is not read otherwise.
func (s *Subject) PeekModel(size int) {
	s.Prompt.Model, _ = prompt.MemberText(s.Gateway.RequestBody(0, min(size, peekWithin)), []string{"model"})
}

// ReadModel reads the model in a body of which nothing else matters.
func (f *Facts) ReadModel(body []byte) {
	if !f.NeedsBody() {
		return
	}
	var name string
	if f.of.Traits.Multipart {
		name = prompt.ModelInParts(body)
	} else {
		name, _ = prompt.MemberText(body, []string{"model"})
	}
	if name != "" {
		f.Model = xxhash.Sum64String(name)
		f.of.Prompt.Model = name // for what is measured: a body that is read is not looked at once more
	}
}

// bytesPerToken is what a token of an answer that is wanted counts for beside the bytes of a prompt.
const bytesPerToken = 4

// Put puts into the request what facts about models depend on: size bytes of the body have come.
func (f *Facts) Put(r *lb.Request, size int) {
	of := f.of
	if !of.isForModel() {
		return
	}
	size = max(size, of.Traits.Length)
	f.length = int64(size)
	if w := &of.Prompt.Work; w.Seen > 0 {
		text := float64(w.Info.TextBytes+bytesPerToken*w.Info.TokenIDs) * float64(max(size, w.Seen)) / float64(w.Seen)
		f.length = int64(text) + bytesPerToken*int64(w.Info.MaxTokens)
	}
	r.ModelID, r.ModelName, r.Length = f.id(), f.ModelID(), f.length
}

// ModelID returns the same number for all requests for one model, 0 if it is not known.
func (f *Facts) ModelID() uint64 {
	// engines with such paths read no other one
	return cmp.Or(f.inPath, f.of.Prompt.Work.Model.Model, f.Model)
}

// id returns the same number for all requests for one model by one path, since an endpoint may serve a model in one
// API and not in another; 0 if the model is not known. It is not inlined, for the size of the artifacts.
//
//go:noinline
func (f *Facts) id() uint64 {
	of := f.of
	model := f.ModelID()
	if model == 0 {
		return 0
	}
	return (model ^ xxhash.Sum64String(prompt.APIPath(of.Traits.Path, of.What))) | 1
}

// isOther reports whether a refusal names another model than was read: engines take the last of several members of one
// name, and some any spelling of the name. Some add a tag.
func (f *Facts) isOther(name string) bool {
	model, _, _ := strings.Cut(name, ":")
	id := f.ModelID()
	return name != "" && xxhash.Sum64String(name) != id && xxhash.Sum64String(model) != id
}

// refusedStatus stands for the status of a refusal whose answer has a good one.
const refusedStatus = 400

// ReadsRefusal reports whether more of an answer with the status is needed to know why the request is refused.
func (f *Facts) ReadsRefusal(status int) bool {
	return status >= 400 && status < 500 && f.of.isForModel() && len(f.refusal) < prompt.RefusalBytes
}

// ReadRefusal takes the part of an answer that is passing, size bytes, if it may say why the request is refused.
func (f *Facts) ReadRefusal(size, status int) {
	if size > 0 && f.ReadsRefusal(status) {
		f.refusal = append(f.refusal, f.of.Gateway.ResponseBody(0, min(size, prompt.RefusalBytes-len(f.refusal)))...)
	}
}

// IsFact reports whether the endpoint, which has answered with the status, has refused the request for its model or its
// length. It notes that, and what it has served.
func (f *Facts) IsFact(verdict lb.Verdict, addr string, status int) bool {
	of := f.of
	known, now := of.Cluster.Facts, of.env.Clock()
	switch {
	case !of.isForModel() || of.Config.Shadow:
	case verdict == lb.Success && !of.Computes(): // some engines count with one tokenizer, whatever the model
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
			if why == prompt.ContextTooLong || of.Prompt.Work.Info.MaxTokens > 0 {
				known.TooLong(now, model, addr, f.length)
			}
			f.refused = true
		}
	}
	return f.refused
}

// inRegion stands for the endpoints of another region, where these have addresses.
func inRegion(name string) string { return "region " + name }

// NoteAbsentIn notes that another region has answered that it has not what the request is for: its model, most likely,
// and if not, then no other request for that has to go there.
func (f *Facts) NoteAbsentIn(region string) {
	if f.of.isForModel() {
		f.of.Cluster.Facts.Absent(f.of.env.Clock(), f.id(), inRegion(region))
	}
}

// IsAbsentIn reports whether another region has answered so lately.
func (f *Facts) IsAbsentIn(region string) bool {
	model := f.id()
	return model != 0 && f.of.Cluster.Facts.IsAbsent(f.of.env.Clock(), model, inRegion(region))
}

// StatesFact reports whether an answer that is not complete is an error that says that the endpoint does not have the
// model, or not with such a context. Then it is a fact as it is under the status for it.
func (f *Facts) StatesFact(a *answer.Reader) bool {
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
func (f *Facts) readsLists() bool {
	of := f.of
	if !of.Config.ReadsModelLists() {
		return false
	}
	cl := of.known()
	return cl == nil || cl.Metrics.ListsUnread(of.env.Clock(), of.Config)
}
