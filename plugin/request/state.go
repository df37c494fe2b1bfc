package request

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/stores"
)

// What an engine keeps – an answer that the next request refers to, a conversation, a file, a batch – is at that engine
// only. The id in an answer is recorded in the store, like a prompt of one block that the endpoint has: with the same
// bounds, the same shares of tenants, and for all workers and gateways. Calls that refer to it go there.

const (
	// heldTTL is how long an id is known after it was last used.
	heldTTL = 24 * time.Hour
	// heldCredit outweighs any load, and the cost of another tier: elsewhere the call would fail.
	heldCredit = 1e15
	// heldMemory is the least that the index of ids may use, here or in Redis.
	heldMemory = 1 << 20
)

// State is what a call has to do with what engines keep.
type State struct {
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
func (h *State) meet(method string) {
	path := h.of.Traits.Path
	h.ID, h.inBody = prompt.HeldInPath(path), prompt.NamesHeld(method, path)
	h.Makes = prompt.MakesHeld(method, path)
}

// TakeOver takes over what another choice for the same request has found out.
func (h *State) TakeOver(from *State) { h.ID, h.inBody, h.Makes = from.ID, from.inBody, from.Makes }

// ReadBody finds out what the call refers to by its body.
func (h *State) ReadBody(body []byte) {
	if h.inBody && h.ID == "" {
		h.ID = prompt.HeldInBody(body)
	}
}

// prefix returns what stands for an id in the store.
func (h *State) prefix(id string) lb.Prefix {
	of := h.of
	memory := of.Config.Prefix.IndexMemory
	memory.Local, memory.Remote = max(memory.Local, heldMemory), max(memory.Remote, heldMemory)
	block := of.prompts.chainer(of.Config).Held(of.Traits.tenantName(of.Config), of.Scope, id)
	return lb.Prefix{
		Blocks: []prompt.Block{block}, Bytes: block.End, TTL: heldTTL, Credit: heldCredit, IndexMemory: memory,
	}
}

// Plan has the plan place the call where what it refers to is: there only, even if that is full, where the gateway
// keeps the records itself; with Redis, whose answer comes with the placement, elsewhere if that is full. Budgets are
// placed by a rule of their own, and so are sessions, unless it is known here that what they refer to is elsewhere.
func (h *State) Plan(now time.Duration, in *stores.Stores, p *lb.Plan) {
	h.Asked, h.lost = false, false
	if h.ID == "" || h.of.Config.Shadow {
		return
	}
	before := p.Prefix
	p.Prefix, h.Asked = h.prefix(h.ID), true
	known, at := !h.of.Config.UsesRedis(), -1
	if known {
		at = in.Local.Holder(now, p)
	}
	switch {
	case at >= 0 && !p.HasBudget():
		p.List, p.Home = lb.NewList(p.Candidates[at:at+1:at+1]), lb.Home{}
	case p.HasBudget() || p.Home.LoadFactor > 0:
		p.Prefix, h.Asked, h.lost = before, false, known && at < 0
	}
}

// Placed returns the reason to count for a request that was placed, where so many blocks of what it asks for are: what
// it refers to may be at no endpoint that could be chosen.
func (h *State) Placed(reason lb.Reason, cached int) lb.Reason {
	if lost := h.lost || h.Asked && cached == 0; lost && reason == lb.ReasonChosen {
		return lb.ReasonStateLost
	}
	return reason
}

// Learn takes the part of a good answer that is passing, size bytes, and returns what stands for what the endpoint has
// made.
func (h *State) Learn(size int) (made []lb.Prefix) {
	if !h.Makes || size == 0 || h.of.Config.Shadow {
		return nil
	}
	h.answer = append(h.answer, h.of.Gateway.ResponseBody(0, min(size, prompt.HeldBytes-len(h.answer)))...)
	ids := prompt.HeldInAnswer(h.answer)
	for _, id := range ids {
		if !slices.Contains(h.made, id) {
			h.made = append(h.made, id)
			made = append(made, h.prefix(id))
		}
	}
	if len(ids) > 0 && !h.inBody || len(h.answer) >= prompt.HeldBytes { // behind an answer's id are those of its parts
		h.Makes, h.answer, h.made = false, nil, nil
	}
	return made
}

// LosesPrompt reports whether the endpoint does not have what was recorded of it when the request was placed, so many
// blocks: it has failed it, or knows nothing of what it refers to. Where nothing was known of that, only an answer
// shows that it has.
func (h *State) LosesPrompt(verdict lb.Verdict, cached, status int) bool {
	if h.Asked {
		return cached == 0 && verdict != lb.Success || status == 404 || status == 410
	}
	return verdict > lb.Overload || verdict == lb.Overload && status > 0 || h.of.Facts.refused
}
