package redisclient

import (
	"encoding/binary"
	"math"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
)

const (
	// maxBlocks of a prompt are looked for.
	maxBlocks = prompt.MaxBlocks
	// lessAtHand is for how many endpoints that keep less than the others terms need no memory.
	lessAtHand = 16
	// pageBytes is what a server needs for a full page: two KiB for the page, the rest to find it and to let it expire.
	// The name of its key comes on top.
	pageBytes = 2048 + 192
	// tick is the unit of time in runs.
	tick = 4 * time.Second
	// exactly is up to where a script's numbers are exact.
	exactly = 1 << 53
)

// chain is a prompt's blocks as scripts want them: from block number from on.
type chain struct {
	slots  []int  // of its runs
	counts []byte // of the blocks of each
	blocks []prompt.Block
}

// chainOf returns the blocks of the plan's prompt from number n on.
func (s *Store) chainOf(sc *scope, p *lb.Prefix, n int) chain {
	s.runs = lb.AppendRuns(s.runs[:0], p.Blocks[:min(len(p.Blocks), maxBlocks)], pages(p.Shared, sc.keys.Page))
	var c chain
	for _, r := range s.runs {
		if skip := max(0, n-r.From); skip < len(r.Blocks) {
			c.slots = append(c.slots, r.Slot)
			c.counts = append(c.counts, byte(len(r.Blocks)-skip))
			c.blocks = append(c.blocks, r.Blocks[skip:]...)
		}
	}
	return c
}

// pages returns for how many full pages with such keys a server needs so many bytes.
func pages(bytes int, key string) int { return bytes / (pageBytes + len(key)) }

// appendPages appends the keys of the pages.
func (c *chain) appendPages(b []byte, key string) []byte {
	var name [160]byte
	for _, slot := range c.slots {
		b = appendArg(b, strconv.AppendUint(append(name[:0], key...), uint64(slot), 36))
	}
	return b
}

// append appends the chain as scripts want it: how many blocks each run has, their keys, and numbers for each of them.
func (c *chain) append(b []byte, numbers ...func(i int) uint32) []byte {
	var room [16 + 16*maxBlocks]byte
	at := append(room[:0], c.counts...)
	for _, block := range c.blocks {
		at = binary.LittleEndian.AppendUint64(at, block.Key)
	}
	for _, of := range numbers {
		for i := range c.blocks {
			at = binary.LittleEndian.AppendUint32(at, of(i))
		}
	}
	return appendArg(b, at)
}

// appendTerms appends what the request adds, and what the prompt's n blocks are worth where they are cached.
func appendTerms(b []byte, p *lb.Plan, tokens int64, n int) []byte {
	var terms [38 + 6*lessAtHand]byte
	at := binary.LittleEndian.AppendUint64(terms[:0], math.Float64bits(float64(tokens)))
	at = binary.LittleEndian.AppendUint32(at, uint32(p.Tie))
	at = append(at, byte(p.Unit))
	if n == 0 {
		return appendArg(b, at)
	}
	at = append(at, byte(n))
	x := &p.Prefix
	for _, f := range []float64{x.Credit, float64(x.Length), float64(min(max(x.Tokens, 0), exactly))} {
		at = binary.LittleEndian.AppendUint64(at, math.Float64bits(f))
	}
	for _, k := range x.Less {
		at = binary.LittleEndian.AppendUint32(at, k.Endpoint)
		at = binary.LittleEndian.AppendUint16(at, uint16(min(max(0, k.For), lb.MaxTTL)/tick))
	}
	return appendArg(b, at)
}

// reservationOf returns the command of a reservation, and its script. A plan with blocks has one of its own, so that
// plans without them take no longer.
func (s *Store) reservationOf(sc *scope, v *view, id lb.LeaseID, p *lb.Plan) (*script, []byte) {
	var c chain
	sp, args, tokens := scriptReserve, 2, clamp(p.Tokens)
	if p.Prefix.Asks() {
		c = s.chainOf(sc, &p.Prefix, 0)
		sp, args, tokens = scriptPrompt, 4, min(max(p.Tokens, -exactly), exactly)
	}
	size := 320 + len(c.slots)*(len(sc.keys.Page)+16) + len(c.blocks)*16
	b := sp.command(make([]byte, 0, size), 3+len(c.slots), args)
	b = appendArg(b, sc.keys.Table)
	b = appendArg(b, sc.keys.Own)
	b = appendArg(b, v.key)
	b = c.appendPages(b, sc.keys.Page)
	b = appendID(b, id)
	b = appendTerms(b, p, tokens, len(c.blocks))
	if sp == scriptReserve {
		return sp, b
	}
	b = appendInt(b, min(p.Prefix.TTL, lb.MaxTTL).Milliseconds())
	numbers := []func(int) uint32{func(i int) uint32 { return uint32(c.blocks[i].End) }}
	if p.Prefix.Worth != nil {
		numbers = append(numbers, func(i int) uint32 { return p.Prefix.Worth[i] })
	}
	return sp, c.append(b, numbers...)
}

// Note implements [lb.Store]. What does not get through is learned when the prompt is seen again.
func (s *Store) Note(now time.Duration, _ lb.LeaseID, p *lb.Plan, addr string) {
	if !p.Prefix.Asks() {
		return
	}
	sc := s.scope(p.Scope)
	c := s.chainOf(sc, &p.Prefix, 0)
	b := scriptNote.command(nil, len(c.slots), 3)
	b = c.appendPages(b, sc.keys.Page)
	b = appendArg(b, binary.LittleEndian.AppendUint32(nil, lb.HolderOf(addr)))
	b = c.append(b)
	b = appendInt(b, min(p.Prefix.TTL, lb.MaxTTL).Milliseconds())
	s.background(now, scriptNote, sc, b, func(time.Duration, Value, error) {})
}

// Forget implements [lb.Store]. What does not get through is noted until it is too old.
func (s *Store) Forget(now time.Duration, _ lb.LeaseID, p *lb.Plan, addr string, n int) {
	if n >= min(len(p.Prefix.Blocks), maxBlocks) {
		return
	}
	sc := s.scope(p.Scope)
	c := s.chainOf(sc, &p.Prefix, n)
	b := scriptForget.command(nil, len(c.slots), 2)
	b = c.appendPages(b, sc.keys.Page)
	b = appendArg(b, binary.LittleEndian.AppendUint32(nil, lb.HolderOf(addr)))
	b = c.append(b)
	s.background(now, scriptForget, sc, b, func(time.Duration, Value, error) {})
}
