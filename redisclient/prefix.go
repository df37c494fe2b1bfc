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
	// pageBytes is what a server needs for a full page: two KiB for the page, the rest to find it and to let it expire. The
	// name of its key comes on top.
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

// appendBlocks appends the counts, and the keys of the blocks.
func (c *chain) appendBlocks(b []byte) []byte {
	b = appendArg(b, c.counts)
	var keys [8 * maxBlocks]byte
	at := keys[:0]
	for _, block := range c.blocks {
		at = binary.LittleEndian.AppendUint64(at, block.Key)
	}
	return appendArg(b, at)
}

// appendNumbers appends a number for each block.
func (c *chain) appendNumbers(b []byte, of func(i int) uint32) []byte {
	var numbers [4 * maxBlocks]byte
	at := numbers[:0]
	for i := range c.blocks {
		at = binary.LittleEndian.AppendUint32(at, of(i))
	}
	return appendArg(b, at)
}

// appendTerms appends what the prompt is worth where it is cached, and for how long that is remembered.
func appendTerms(b []byte, p *lb.Prefix) []byte {
	ttl := min(p.TTL, lb.MaxTTL)
	var terms [32 + 6*lessAtHand]byte
	at := terms[:0]
	for _, f := range []float64{
		p.Credit, float64(p.Length), float64(min(max(p.Tokens, 0), exactly)), float64(ttl.Milliseconds()),
	} {
		at = binary.LittleEndian.AppendUint64(at, math.Float64bits(f))
	}
	for _, k := range p.Less {
		at = binary.LittleEndian.AppendUint32(at, k.Endpoint)
		at = binary.LittleEndian.AppendUint16(at, uint16(min(max(0, k.For), lb.MaxTTL)/tick))
	}
	return appendArg(b, at)
}

// reservationOf returns the command of a reservation, and its script. A plan with blocks has one of its own, so that plans
// without them take no longer.
func (s *Store) reservationOf(sc *scope, v *view, id lb.LeaseID, p *lb.Plan) (*script, []byte) {
	var c chain
	sp, args, tokens := scriptReserve, 4, clamp(p.Tokens)
	if p.Prefix.Asks() {
		c = s.chainOf(sc, &p.Prefix, 0)
		sp, args, tokens = scriptPrompt, 8, min(max(p.Tokens, -exactly), exactly)
		if p.Prefix.Worth != nil {
			args++
		}
	}
	size := 320 + len(c.slots)*(len(sc.keys.Page)+16) + len(c.blocks)*12
	b := sp.command(make([]byte, 0, size), 3+len(c.slots), args)
	b = appendArg(b, sc.keys.Table)
	b = appendArg(b, sc.keys.Own)
	b = appendArg(b, v.key)
	b = c.appendPages(b, sc.keys.Page)
	b = appendID(b, id)
	b = appendInt(b, tokens)
	b = appendInt(b, int64(p.Unit))
	b = appendInt(b, int64(uint32(p.Tie)))
	if sp == scriptPrompt {
		b = c.appendBlocks(appendTerms(b, &p.Prefix))
		b = c.appendNumbers(b, func(i int) uint32 { return uint32(c.blocks[i].End) })
		if p.Prefix.Worth != nil {
			b = c.appendNumbers(b, func(i int) uint32 { return p.Prefix.Worth[i] })
		}
	}
	return sp, b
}

// Note implements [lb.Store]. What does not get through is learned when the prompt is seen again.
func (s *Store) Note(now time.Duration, _ lb.LeaseID, p *lb.Plan, addr string) {
	if !p.Prefix.Asks() {
		return
	}
	sc := s.scope(p.Scope)
	c := s.chainOf(sc, &p.Prefix, 0)
	b := scriptNote.command(nil, len(c.slots), 4)
	b = c.appendPages(b, sc.keys.Page)
	b = appendArg(b, binary.LittleEndian.AppendUint32(nil, lb.HolderOf(addr)))
	b = c.appendBlocks(b)
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
	b := scriptForget.command(nil, len(c.slots), 3)
	b = c.appendPages(b, sc.keys.Page)
	b = appendArg(b, binary.LittleEndian.AppendUint32(nil, lb.HolderOf(addr)))
	b = c.appendBlocks(b)
	s.background(now, scriptForget, sc, b, func(time.Duration, Value, error) {})
}
