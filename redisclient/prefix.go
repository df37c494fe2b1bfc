package redisclient

import (
	"encoding/binary"
	"math"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prefixindex"
	"github.com/warmgate/warmgate/lb/prompt"
)

const (
	// maxBlocks of a prompt are looked for.
	maxBlocks = prompt.MaxBlocks
	// lessAtHand is for how many endpoints that keep less than the others terms need no memory.
	lessAtHand = 16
	// pageBytes is what a server needs for a full page: two KiB for the page, the rest to find it in the hash.
	pageBytes = 2048 + 96
	// slotBytes is the length of a page's field in the hash.
	slotBytes = 3
	// tick is the unit of time in pages.
	tick = 4 * time.Second
	// exactly is up to where a script's numbers are exact.
	exactly = 1 << 53
)

// pages returns for how many full pages a server needs so many bytes. There are as many at least as prefixindex.Blocks says.
func pages(bytes int) int { return max(bytes/pageBytes, prefixindex.MinPages) }

// pagesKey returns the key of the scope's pages, if they may take so many bytes. How many they are is in the name,
// because it decides in which page a block is: while gateways roll from one size to another, each size has its own
// pages.
func (k *Keys) pagesKey(bytes int) string {
	return k.Pages + strconv.FormatInt(int64(pages(bytes)), 36)
}

// appendChain appends the blocks of a prompt as scripts want them: their keys, the fields of their own pages, and
// numbers for each.
func appendChain(b []byte, p *lb.Prefix, numbers ...func(i int) uint32) []byte {
	var room [(8 + slotBytes + 2*4) * maxBlocks]byte
	at, blocks, slots := room[:0], p.Blocks[:min(len(p.Blocks), maxBlocks)], uint64(pages(p.IndexMemory.Remote))
	for _, block := range blocks {
		at = binary.LittleEndian.AppendUint64(at, block.Key)
	}
	for _, block := range blocks {
		slot := block.Key % slots
		at = append(at, byte(slot), byte(slot>>8), byte(slot>>16))
	}
	for _, of := range numbers {
		for i := range blocks {
			at = binary.LittleEndian.AppendUint32(at, of(i))
		}
	}
	return appendArg(b, at)
}

// appendTerms appends what the request adds.
func appendTerms(terms []byte, p *lb.Plan, tokens int64) []byte {
	terms = binary.LittleEndian.AppendUint64(terms, math.Float64bits(float64(tokens)))
	terms = binary.LittleEndian.AppendUint32(terms, uint32(p.Random))
	terms = append(terms, byte(p.Unit))
	return binary.LittleEndian.AppendUint32(terms, uint32(min(max(p.PerRequest, 0), math.MaxUint32)))
}

// appendWorth appends what the prompt is worth where it is cached, and for how long that is remembered.
func (sc *scope) appendWorth(terms []byte, now time.Duration, x *lb.Prefix) []byte {
	terms = append(terms, byte(min(len(x.Blocks), maxBlocks)))
	for _, f := range []float64{x.Credit, max(x.CreditGrowth, 0), float64(x.Bytes), float64(min(max(x.Tokens, 0), exactly))} {
		terms = binary.LittleEndian.AppendUint64(terms, math.Float64bits(f))
	}
	ttl := min(x.TTL, lb.MaxTTL)
	terms = binary.LittleEndian.AppendUint32(terms, uint32(ttl.Milliseconds()))
	terms = append(terms, sc.due(now, pages(x.IndexMemory.Remote), ttl))
	for _, k := range x.ShortTTL {
		terms = binary.LittleEndian.AppendUint32(terms, k.Endpoint)
		terms = binary.LittleEndian.AppendUint16(terms, uint16(min(max(0, k.TTL), lb.MaxTTL)/tick))
	}
	return terms
}

// due says, by 1, that the expiry of so many pages has to be put forward: it is less than ttl ahead by more than an
// eighth.
func (sc *scope) due(now time.Duration, pages int, ttl time.Duration) byte {
	if pages == sc.pages && sc.expire-now >= ttl-ttl/8 {
		return 0
	}
	sc.pages, sc.expire = pages, now+ttl
	return 1
}

// reservationOf returns the command of a reservation, and its script. A plan with blocks has one of its own, so that
// plans without them take no longer.
func (s *Store) reservationOf(now time.Duration, sc *scope, v *view, id lb.LeaseID, p *lb.Plan) (*script, []byte) {
	var room [55 + 6*lessAtHand]byte
	x := &p.Prefix
	if !x.NeedsLookup() {
		b := scriptReserve.command(make([]byte, 0, 320), 3, 2)
		b = appendID(sc.appendKeys(b, v), id)
		return scriptReserve, appendArg(b, appendTerms(room[:0], p, clamp(p.Tokens)))
	}
	b := scriptPrompt.command(make([]byte, 0, 448+(8+slotBytes+2*4)*min(len(x.Blocks), maxBlocks)), 4, 3)
	b = appendArg(sc.appendKeys(b, v), sc.keys.pagesKey(x.IndexMemory.Remote))
	b = appendID(b, id)
	terms := appendTerms(room[:0], p, min(max(p.Tokens, -exactly), exactly))
	b = appendArg(b, sc.appendWorth(terms, now, x))
	numbers := []func(int) uint32{func(i int) uint32 { return uint32(x.Blocks[i].End) }}
	if x.CreditBytes != nil {
		numbers = append(numbers, func(i int) uint32 { return x.CreditBytes[i] })
	}
	return scriptPrompt, appendChain(b, x, numbers...)
}

// appendKeys appends the keys that every reservation names.
func (sc *scope) appendKeys(b []byte, v *view) []byte {
	return appendArg(appendArg(appendArg(b, sc.keys.Table), sc.keys.Own), v.key)
}

// RecordPrompt implements [lb.Store]. What does not get through is learned when the prompt is seen again.
func (s *Store) RecordPrompt(now time.Duration, _ lb.LeaseID, p *lb.Plan, addr string) {
	if !p.Prefix.NeedsLookup() {
		return
	}
	sc := s.scope(p.Scope)
	b := scriptNote.command(nil, 1, 3)
	b = appendArg(b, sc.keys.pagesKey(p.Prefix.IndexMemory.Remote))
	b = appendArg(b, binary.LittleEndian.AppendUint32(nil, lb.EndpointTag(addr)))
	b = appendChain(b, &p.Prefix)
	b = appendInt(b, min(p.Prefix.TTL, lb.MaxTTL).Milliseconds())
	s.background(now, scriptNote, sc, b, func(time.Duration, Value, error) {})
}

// ForgetPrompt implements [lb.Store]. What does not get through is noted until it is too old.
func (s *Store) ForgetPrompt(now time.Duration, _ lb.LeaseID, p *lb.Plan, addr string, n int) {
	if n >= min(len(p.Prefix.Blocks), maxBlocks) {
		return
	}
	sc := s.scope(p.Scope)
	b := scriptForget.command(nil, 1, 3)
	b = appendArg(b, sc.keys.pagesKey(p.Prefix.IndexMemory.Remote))
	b = appendArg(b, binary.LittleEndian.AppendUint32(nil, lb.EndpointTag(addr)))
	b = appendChain(b, &p.Prefix)
	b = appendInt(b, int64(max(0, n)+1))
	s.background(now, scriptForget, sc, b, func(time.Duration, Value, error) {})
}
