package core

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
	// heldTTL is how long an id is known after it was last used.
	heldTTL = 24 * time.Hour
	// heldCredit outweighs any load, and the cost of another tier: elsewhere the call would fail.
	heldCredit = 1e15
	// heldMemory is the least that the index of ids may use, here or in Redis.
	heldMemory = 1 << 20
)

// heldUse is what a call has to do with what engines keep.
type heldUse struct {
	pl     *choice
	id     string // of what it refers to, "" for nothing
	inBody bool   // that may be in the body
	makes  bool   // its answer may name something new
	asked  bool   // it is placed where that is, if that is known
	lost   bool   // it is placed by another rule, and it is known that no endpoint that could be chosen has that
	answer []byte // the beginning of the answer, until all ids were found
	made   []string
}

// meet finds out what the call refers to by its path.
func (h *heldUse) meet(method string) {
	path := h.pl.traits.path
	h.id, h.inBody = prompt.HeldInPath(path), prompt.NamesHeld(method, path)
	h.makes = prompt.MakesHeld(method, path)
}

// readBody finds out what the call refers to by its body.
func (h *heldUse) readBody(body []byte) {
	if h.inBody && h.id == "" {
		h.id = prompt.HeldInBody(body)
	}
}

// prefix returns what stands for an id in the store.
func (h *heldUse) prefix(id string) lb.Prefix {
	pl := h.pl
	memory := pl.cfg.Prefix.IndexMemory
	memory.Local, memory.Remote = max(memory.Local, heldMemory), max(memory.Remote, heldMemory)
	block := pl.plugin.vm.prompts.chainer(pl.cfg).Held(pl.traits.tenantName(pl.cfg), pl.scope, id)
	return lb.Prefix{
		Blocks: []prompt.Block{block}, Bytes: block.End, TTL: heldTTL, Credit: heldCredit, IndexMemory: memory,
	}
}

// plan has the plan place the call where what it refers to is: there only, even if that is full, where the gateway
// keeps the records itself; with Redis, whose answer comes with the placement, elsewhere if that is full. Budgets are
// placed by a rule of their own, and so are sessions, unless it is known here that what they refer to is elsewhere.
func (h *heldUse) plan(now time.Duration, p *lb.Plan) {
	pl := h.pl
	h.asked, h.lost = false, false
	if h.id == "" || pl.cfg.Shadow {
		return
	}
	before := p.Prefix
	p.Prefix, h.asked = h.prefix(h.id), true
	known, at := !pl.cfg.UsesRedis(), -1
	if known {
		at = pl.plugin.vm.stores.local.Holder(now, p)
	}
	switch {
	case at >= 0 && !p.HasBudget():
		p.List, p.Home = lb.NewList(p.Candidates[at:at+1:at+1]), lb.Home{}
	case p.HasBudget() || p.Home.LoadFactor > 0:
		p.Prefix, h.asked, h.lost = before, false, known && at < 0
	}
}

// placed returns the reason to count for a request that was placed: what it refers to may be at no endpoint that
// could be chosen.
func (h *heldUse) placed(reason lb.Reason) lb.Reason {
	lost := h.lost || h.asked && h.pl.lease.reservation.grant.Cached == 0
	if lost && reason == lb.ReasonChosen {
		return lb.ReasonStateLost
	}
	return reason
}

// readsBegin reports whether more of the beginning of the answer is to be read.
func (s *serving) readsBegin() bool { return s.pl.held.makes || s.pl.facts.readsRefusal() }

// learn takes the part of an answer that is passing, size bytes, and records what the endpoint has made.
func (h *heldUse) learn(size int) {
	pl := h.pl
	r := &pl.response
	if !h.makes || pl.phase != phaseLeased || r.status < 200 || r.status >= 300 || pl.cfg.Shadow {
		return
	}
	if size == 0 {
		return
	}
	h.answer = append(h.answer, pl.gateway.ResponseBody(0, min(size, prompt.HeldBytes-len(h.answer)))...)
	ids := prompt.HeldInAnswer(h.answer)
	for _, id := range ids {
		if slices.Contains(h.made, id) {
			continue
		}
		h.made = append(h.made, id)
		l := &pl.lease
		made := lb.Plan{Scope: l.reservation.plan.Scope, Prefix: h.prefix(id)}
		l.store.RecordPrompt(l.now(), l.reservation.id, &made, l.addr)
	}
	if len(ids) > 0 && !h.inBody || len(h.answer) >= prompt.HeldBytes { // behind an answer's id are those of its parts
		h.makes, h.answer, h.made = false, nil, nil
	}
}

// losesPrompt reports whether the endpoint does not have what was recorded of it when the request was placed: it has
// failed it, or knows nothing of what it refers to. Where nothing was known of that, only an answer shows that it has.
func (h *heldUse) losesPrompt(verdict lb.Verdict) bool {
	pl := h.pl
	if h.asked {
		lost := pl.lease.reservation.grant.Cached == 0 && verdict != lb.Success
		return lost || pl.response.status == 404 || pl.response.status == 410
	}
	return verdict > lb.Overload || verdict == lb.Overload && pl.response.status > 0 || pl.facts.refused
}
