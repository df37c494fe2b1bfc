package redisclient

import (
	"math"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prefixindex"
	"github.com/warmgate/warmgate/lb/prompt"
)

const (
	// maxBlocks is how many blocks of a prompt are matched and recorded. Further ones are ignored.
	maxBlocks = prompt.MaxBlocks
	// shortTTLRoom is for how many endpoints with a shorter TTL a command is built without allocating.
	shortTTLRoom = 16
	// pageBytes is how many bytes of a server's memory a full page needs: 2016 bytes of entries, rounded up by the
	// allocator, and the field in the hash.
	pageBytes = 2048 + 96
	// fieldBytes is the length of a page's field in the hash.
	fieldBytes = 3
	// tick is the unit of time in pages.
	tick = prefixindex.Tick
	// maxExact is the largest number below which all integers are exact in Lua.
	maxExact = 1 << 53
)

// IndexBlocks returns how many prefix blocks a scope's index remembers in so many bytes of the server's memory.
func IndexBlocks(bytes int) int { return prefixindex.Blocks(pageCount(bytes)) }

// pageCount returns how many pages an index of so many bytes has. prefixindex.MinPages is the least.
func pageCount(bytes int) int { return max(bytes/pageBytes, prefixindex.MinPages) }

// pagesKey returns the key of the scope's pages, for an index of so many bytes. The number of pages is part of the key,
// because it decides in which page a block is: while gateways change from one size to another, each size has its own
// pages.
func (k *Keys) pagesKey(bytes int) string {
	return k.Pages + strconv.FormatInt(int64(pageCount(bytes)), 36)
}

// appendChain appends the blocks of a prompt as one argument, in the format of lua/prefix.lua: their keys, the fields
// of their own pages, then for each function its value for each block.
func appendChain(b []byte, p *lb.Prefix, numbers ...func(i int) uint32) []byte {
	var room [(8 + fieldBytes + 2*4) * maxBlocks]byte
	chain, blocks := wire.Writer(room[:0]), p.Blocks[:min(len(p.Blocks), maxBlocks)]
	pages := uint64(pageCount(p.IndexMemory.Remote))
	for _, block := range blocks {
		chain = chain.Uint64(block.Key)
	}
	for _, block := range blocks {
		chain = chain.Uint(fieldBytes, block.Key%pages)
	}
	for _, of := range numbers {
		for i := range blocks {
			chain = chain.Uint32(of(i))
		}
	}
	return appendArg(b, chain)
}

// appendAdded appends what the request adds to the load, in the format of reserve.lua's params.
func appendAdded(params wire.Writer, p *lb.Plan, tokens int64) wire.Writer {
	return params.Float64(float64(tokens)).Uint32(uint32(p.Random)).Byte(byte(p.Unit)).
		Uint32(uint32(min(max(p.PerRequest, 0), math.MaxUint32)))
}

// appendPrefix appends the credit for what is cached of the prompt, and the TTLs of cache entries.
func (sc *scopeState) appendPrefix(params wire.Writer, now time.Duration, x *lb.Prefix) wire.Writer {
	ttl := min(x.TTL, lb.MaxTTL)
	params = params.Byte(byte(min(len(x.Blocks), maxBlocks))).Float64(x.Credit).Float64(max(x.CreditGrowth, 0)).
		Float64(float64(x.Bytes)).Float64(float64(min(max(x.Tokens, 0), maxExact))).
		Uint32(uint32(ttl.Milliseconds())).Byte(sc.expiryDue(now, pageCount(x.IndexMemory.Remote), ttl))
	for _, k := range x.ShortTTL {
		params = params.Uint32(k.Endpoint).Uint16(uint16(min(max(0, k.TTL), lb.MaxTTL) / tick))
	}
	return params
}

// expiryDue returns 1 if the reservation has to extend the expiry of so many pages, else 0. It has to if less than
// seven eighths of the TTL are left, or if this owner last used another number of pages.
func (sc *scopeState) expiryDue(now time.Duration, pages int, ttl time.Duration) byte {
	if pages == sc.pageCount && sc.pagesExpireAt-now >= ttl-ttl/8 {
		return 0
	}
	sc.pageCount, sc.pagesExpireAt = pages, now+ttl
	return 1
}

// setCommand sets the command of a reservation by the plan, and its script. Plans with prefix blocks have a script of
// their own, so that those without are not slowed down.
func (s *Store) setCommand(now time.Duration, r *reservation, p *lb.Plan) {
	var room [55 + 6*shortTTLRoom]byte
	sc, x, waits := r.lease.scope, &p.Prefix, p.Wait.Waits()
	if sc.isForTenant(p) {
		s.setTenantCommand(r, p)
		return
	}
	l := sc.list(p.List, r.limits, s.owner)
	if r.limits != nil {
		s.setBudgetCommand(now, r, l, p)
		return
	}
	if !x.NeedsLookup() {
		r.script, r.args = scriptReserve, reservationArgs(p, 2)
		if waits {
			r.script = scriptWait
		}
		b := r.script.command(make([]byte, 0, 384+2*len(p.Home.Order)), 3, r.args)
		b = appendID(sc.appendReserveKeys(b, l), r.id)
		b = appendArg(b, appendAdded(room[:0], p, clampTokens(p.Tokens)))
		if waits || len(p.Home.Order) > 0 {
			b = appendArg(b, "")
		}
		r.cmd = s.appendBehind(b, now, sc, l, p)
		return
	}
	r.script, r.args = scriptPrompt, reservationArgs(p, 3)
	if waits {
		r.script = scriptWaitPrompt
	}
	size := 512 + (8+fieldBytes+2*4)*min(len(x.Blocks), maxBlocks) + 2*len(p.Home.Order)
	b := r.script.command(make([]byte, 0, size), 4, r.args)
	b = appendArg(sc.appendReserveKeys(b, l), sc.keys.pagesKey(x.IndexMemory.Remote))
	b = appendID(b, r.id)
	params := appendAdded(room[:0], p, min(max(p.Tokens, -maxExact), maxExact))
	b = appendArg(b, sc.appendPrefix(params, now, x))
	numbers := []func(int) uint32{func(i int) uint32 { return uint32(x.Blocks[i].End) }}
	if x.CreditBytes != nil {
		numbers = append(numbers, func(i int) uint32 { return x.CreditBytes[i] })
	}
	r.cmd = s.appendBehind(appendChain(b, x, numbers...), now, sc, l, p)
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
func (s *Store) appendBehind(b []byte, now time.Duration, sc *scopeState, l *candidateList, p *lb.Plan) []byte {
	order := p.Home.Order
	switch {
	case p.Wait.Waits():
		b = appendWait(b, now, s.silence(sc), l, &p.Wait)
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

// appendReserveKeys appends the keys that every reservation names.
func (sc *scopeState) appendReserveKeys(b []byte, l *candidateList) []byte {
	return appendArg(appendArg(appendArg(b, sc.keys.Table), sc.keys.Leases), l.key)
}

// RecordPrompt implements [lb.Store]. If the command fails, the prompt is recorded when it comes again.
func (s *Store) RecordPrompt(now time.Duration, _ lb.LeaseID, p *lb.Plan, addr string) {
	if !p.Prefix.NeedsLookup() {
		return
	}
	sc := s.scopeOf(p.Scope)
	b := scriptRecord.command(nil, 1, 3)
	b = appendArg(b, sc.keys.pagesKey(p.Prefix.IndexMemory.Remote))
	b = appendArg(b, wire.Writer(nil).Uint32(lb.EndpointTag(addr)))
	b = appendChain(b, &p.Prefix)
	b = appendInt(b, min(p.Prefix.TTL, lb.MaxTTL).Milliseconds())
	s.sendBackground(now, scriptRecord, sc, b, func(time.Duration, Value, error) {})
}

// ForgetPrompt implements [lb.Store]. If the command fails, the record stays until it is too old.
func (s *Store) ForgetPrompt(now time.Duration, _ lb.LeaseID, p *lb.Plan, addr string, n int) {
	if n >= min(len(p.Prefix.Blocks), maxBlocks) {
		return
	}
	sc := s.scopeOf(p.Scope)
	b := scriptForget.command(nil, 1, 3)
	b = appendArg(b, sc.keys.pagesKey(p.Prefix.IndexMemory.Remote))
	b = appendArg(b, wire.Writer(nil).Uint32(lb.EndpointTag(addr)))
	b = appendChain(b, &p.Prefix)
	b = appendInt(b, int64(max(0, n)+1))
	s.sendBackground(now, scriptForget, sc, b, func(time.Duration, Value, error) {})
}
