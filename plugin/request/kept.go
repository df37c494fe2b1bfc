package request

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
)

// What an engine keeps – an answer that the next request refers to, a conversation, a file, a batch – is at that engine
// only. The id in an answer is recorded in the store, like a prompt of one block that the endpoint has: with the same
// bounds, the same shares of tenants, and for all workers and gateways. Calls that refer to it go there.

const (
	// keptTTL is how long an id is known after it was last used.
	keptTTL = 24 * time.Hour
	// keptCredit outweighs any load, and the cost of another tier: elsewhere the call would fail.
	keptCredit = 1e15
	// keptMemory is the least that the index of ids may use, here or in Redis.
	keptMemory = 1 << 20
)

// Kept is what a call has to do with what engines keep.
type Kept struct {
	of     *Subject
	ID     string // of what it refers to, "" for nothing
	inBody bool   // that may be in the body
	Makes  bool   // its answer may name something new
	Asked  bool   // it is placed where that is, if that is known
	lost   bool   // it is placed by another rule, and it is known that no endpoint that could be chosen has that
	answer []byte // the beginning of the answer, until all ids were found
	made   []string
}

// meet finds out what the call refers to by its path.
func (k *Kept) meet(method string) {
	path := k.of.Traits.Path
	k.ID, k.inBody = prompt.HeldInPath(path), prompt.NamesHeld(method, path)
	k.Makes = prompt.MakesHeld(method, path)
}

// TakeOver takes over what another choice for the same request has found out.
func (k *Kept) TakeOver(from *Kept) { k.ID, k.inBody, k.Makes = from.ID, from.inBody, from.Makes }

// ReadBody finds out what the call refers to by its body.
func (k *Kept) ReadBody(body []byte) {
	if k.inBody && k.ID == "" {
		k.ID = prompt.HeldInBody(body)
	}
}

// prefix returns what stands for an id in the store.
func (k *Kept) prefix(id string) lb.Prefix {
	of := k.of
	memory := of.Config.Prefix.IndexMemory
	memory.Local, memory.Remote = max(memory.Local, keptMemory), max(memory.Remote, keptMemory)
	block := of.prompts.chainer(of.Config).Held(of.Traits.tenantName(of.Config), of.Scope, id)
	return lb.Prefix{
		Blocks: []prompt.Block{block}, Bytes: block.End, TTL: keptTTL, Credit: keptCredit, IndexMemory: memory,
	}
}

// Plan has the plan place the call where what it refers to is: there only, even if that is full, where the gateway
// keeps the records itself; with Redis, whose answer comes with the placement, elsewhere if that is full. Budgets are
// placed by a rule of their own, and so are sessions, unless it is known here that what they refer to is elsewhere.
func (k *Kept) Plan(now time.Duration, holder func(time.Duration, *lb.Plan) int, p *lb.Plan) {
	k.Asked, k.lost = false, false
	if k.ID == "" || k.of.Config.Shadow {
		return
	}
	before := p.Prefix
	p.Prefix, k.Asked = k.prefix(k.ID), true
	known, at := !k.of.Config.UsesRedis(), -1
	if known {
		at = holder(now, p)
	}
	switch {
	case at >= 0 && !p.HasBudget():
		p.List, p.Home = lb.NewList(p.Candidates[at:at+1:at+1]), lb.Home{}
	case p.HasBudget() || p.Home.LoadFactor > 0:
		p.Prefix, k.Asked, k.lost = before, false, known && at < 0
	}
}

// Placed returns the reason to count for a request that was placed, where so many blocks of what it asks for are: what
// it refers to may be at no endpoint that could be chosen.
func (k *Kept) Placed(reason lb.Reason, cached int) lb.Reason {
	if lost := k.lost || k.Asked && cached == 0; lost && reason == lb.ReasonChosen {
		return lb.ReasonStateLost
	}
	return reason
}

// Learn takes the part of a good answer that is passing, size bytes, and returns what stands for what the endpoint has
// made.
func (k *Kept) Learn(size int) (made []lb.Prefix) {
	if !k.Makes || size == 0 || k.of.Config.Shadow {
		return nil
	}
	k.answer = append(k.answer, k.of.Gateway.ResponseBody(0, min(size, prompt.HeldBytes-len(k.answer)))...)
	ids := prompt.HeldInAnswer(k.answer)
	for _, id := range ids {
		if !slices.Contains(k.made, id) {
			k.made = append(k.made, id)
			made = append(made, k.prefix(id))
		}
	}
	if len(ids) > 0 && !k.inBody || len(k.answer) >= prompt.HeldBytes { // behind an answer's id are those of its parts
		k.Makes, k.answer, k.made = false, nil, nil
	}
	return made
}

// LosesPrompt reports whether the endpoint does not have what was recorded of it when the request was placed, so many
// blocks: it has failed it, or knows nothing of what it refers to. Where nothing was known of that, only an answer
// shows that it has.
func (k *Kept) LosesPrompt(verdict lb.Verdict, cached, status int) bool {
	if k.Asked {
		return cached == 0 && verdict != lb.Success || status == 404 || status == 410
	}
	return verdict > lb.Overload || verdict == lb.Overload && status > 0 || k.of.Facts.refused
}
