package redisclient

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/queue"
)

// isNew is the age of a request that has not waited yet.
const isNew = 1<<32 - 1

// composer composes the commands of a scope's reservations.
type composer struct {
	at    *place
	lists *candidateLists
	pages pages
}

// setCommand sets the command of a reservation by the plan, and its script. Plans with prefix blocks have a script of
// their own, so that those without are not slowed down.
func (co *composer) setCommand(now time.Duration, r *reservation, p *lb.Plan) {
	var room [64 + 6*shortTTLRoom]byte
	x, waits := &p.Prefix, p.Wait.Waits()
	if co.at.isForTenant(p) {
		co.setTenantCommand(r, p)
		return
	}
	l := co.lists.list(p.List, r.limits)
	if r.limits != nil {
		co.setBudgetCommand(now, r, l, p)
		return
	}
	if !x.NeedsLookup() {
		r.script, r.args = scriptReserve, reservationArgs(p, 2)
		if waits {
			r.script = scriptWait
		}
		b := r.script.command(make([]byte, 0, 384+2*len(p.Home.Order)), 3, r.args)
		b = appendID(co.at.appendReserveKeys(b, l.key), r.id)
		b = appendArg(b, appendAdded(room[:0], p, clampTokens(p.Tokens)))
		if waits || len(p.Home.Order) > 0 {
			b = appendArg(b, "")
		}
		r.cmd = co.appendBehind(b, now, l, p)
		return
	}
	r.script, r.args = scriptPrompt, reservationArgs(p, 3)
	if waits {
		r.script = scriptWaitPrompt
	}
	size := 512 + (8+fieldBytes+2*4)*min(len(x.Blocks), maxBlocks) + 2*len(p.Home.Order)
	b := r.script.command(make([]byte, 0, size), 4, r.args)
	b = appendArg(co.at.appendReserveKeys(b, l.key), co.at.keys.PagesKey(x.IndexMemory.Remote))
	b = appendID(b, r.id)
	o := orderOf(x.Blocks)
	if o.n < o.all {
		kept := o
		r.order = &kept
	}
	params := appendAdded(room[:0], p, min(max(p.Tokens, -maxExact), maxExact))
	b = appendArg(b, co.pages.appendPrefix(params, now, x, &o))
	r.cmd = co.appendBehind(appendNumberedChain(b, x, &o), now, l, p)
}

// reservationArgs returns how many arguments the command of a reservation has: so many if it does not wait and has no
// home.
func reservationArgs(p *lb.Plan, least int) int {
	switch {
	case len(p.Home.Order) > 0:
		return 5
	case p.Wait.Waits():
		return 4
	}
	return least
}

// appendBehind appends the arguments behind the chain.
func (co *composer) appendBehind(b []byte, now time.Duration, l *candidateList, p *lb.Plan) []byte {
	order := p.Home.Order
	switch {
	case p.Wait.Waits():
		b = appendWait(b, now, co.at.silence(), l, p)
	case len(order) > 0:
		b = appendArg(b, "")
	}
	if len(order) == 0 {
		return b
	}
	var room [10 + 2*lb.MaxOrder]byte
	home := wire.Writer(room[:0]).Float64(p.Home.LoadFactor).Uint16(uint16(min(max(p.Home.Free, 0), math.MaxUint16)))
	for _, i := range order[:min(len(order), lb.MaxOrder)] {
		home = home.Uint16(i)
	}
	return appendArg(b, home)
}

// setBudgetCommand sets the command of a reservation with budgets. It looks no prompt up: budgets decide.
func (co *composer) setBudgetCommand(now time.Duration, r *reservation, l *candidateList, p *lb.Plan) {
	r.script, r.args = scriptSpend, 2
	if p.Wait.Waits() {
		r.args = 4
	}
	b := r.script.command(make([]byte, 0, 384), 4, r.args)
	b = appendID(appendArg(co.at.appendReserveKeys(b, l.key), co.at.keys.Budget), r.id)
	var room [16]byte
	r.cmd = appendArg(b, wire.Writer(room[:0]).Float64(float64(p.AddedTokens(0))).Float64(max(p.Budget.AgeBonus, 0)))
	if p.Wait.Waits() {
		r.cmd = appendWait(appendArg(r.cmd, ""), now, co.at.silence(), l, p)
	}
}

// appendWait appends how a request waits, in the format of lua/enqueue.lua.
func appendWait(b []byte, now, silence time.Duration, l *candidateList, p *lb.Plan) []byte {
	w := &p.Wait
	millis := func(d time.Duration) uint32 { return uint32(min(max(d, 0), queue.MaxTime) / time.Millisecond) }
	age, strict := uint32(isNew), byte(0)
	if w.Since > 0 {
		age = millis(now - w.Since)
	}
	if w.Strict {
		strict = 1
	}
	var place lb.Place
	if w.Place != nil && w.Since > 0 {
		place = *w.Place
	}
	key := l.endpoints ^ w.Limits
	if l.limits != nil {
		key = ^key
	}
	var room [88]byte
	arg := wire.Writer(room[:0]).Uint32(age).Uint32(millis(w.Max)).Uint32(millis(w.Aging)).
		Uint32(millis(w.Patience)).Uint32(uint32(p.Prefix.DelayMillis())).
		Uint16(uint16(min(max(w.Skip, 0), queue.MaxSkip))).Uint16(w.Class.ID).
		Byte(w.Class.Rank).Uint16(uint16(min(w.Class.Reserved, 1<<16-1))).Byte(strict).Float64(w.Class.Weight).
		Uint32(uint32(max(w.Length, 0))).Uint32(uint32(max(w.TenantLength, 0))).
		Uint32(uint32(max(w.Reserved, 0))).Uint32(key).Uint(6, place.Came).Uint32(place.Number).
		Uint32(millis(silence)).Uint64(w.Tenant)
	if w.Instead != 0 {
		arg = arg.Uint64(uint64(w.Instead))
	}
	return appendArg(b, arg)
}

// reservationOf returns the reservation of a request that waits already.
func (co *composer) reservationOf(now time.Duration, w *waiter) *reservation {
	r := &reservation{
		id: w.id, lease: w.lease, List: w.plan.List, limits: limitsOf(&w.plan), plan: w.plan, waiter: w,
		sentAt: now,
		done:   func(lb.Grant, error) {},
	}
	co.setCommand(now, r, &w.plan)
	return r
}
