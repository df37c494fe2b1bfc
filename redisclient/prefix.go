package redisclient

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
)

const (
	// maxBlocks of a prompt are looked for.
	maxBlocks = prompt.MaxBlocks
	// maxRemember is for how long a run is kept at most. It bounds what a server is asked to hold, and ticks must not wrap.
	maxRemember = 48 * time.Hour
	// exactly is up to where a script's numbers are exact.
	exactly = 1 << 53
)

// endpointOf returns what runs know an endpoint by.
func endpointOf(addr string) uint32 { return uint32(xxhash.Sum64String(addr)) }

// chain is a prompt's blocks as scripts want them: from block number from on.
type chain struct {
	runs   []prompt.Block // the first block of each
	counts []byte         // of the blocks of each
	blocks []prompt.Block
}

// chainOf returns the blocks from number n on.
func chainOf(blocks []prompt.Block, n int) chain {
	blocks = blocks[:min(len(blocks), maxBlocks)]
	var c chain
	for from := 0; from < len(blocks); from = lb.RunEnd(from) {
		end := min(lb.RunEnd(from), len(blocks))
		if skip := max(0, n-from); skip < end-from {
			c.runs = append(c.runs, blocks[from])
			c.counts = append(c.counts, byte(end-from-skip))
			c.blocks = append(c.blocks, blocks[from+skip:end]...)
		}
	}
	return c
}

// appendRuns appends the keys of the runs.
func (c *chain) appendRuns(b []byte, key string) []byte {
	var name [160]byte
	for _, first := range c.runs {
		b = appendArg(b, binary.LittleEndian.AppendUint64(append(name[:0], key...), first.Key))
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

// appendEnds appends where the blocks end.
func (c *chain) appendEnds(b []byte) []byte {
	var ends [4 * maxBlocks]byte
	at := ends[:0]
	for _, block := range c.blocks {
		at = binary.LittleEndian.AppendUint32(at, uint32(block.End))
	}
	return appendArg(b, at)
}

// appendTerms appends what the prompt is worth where it is cached, and for how long that is remembered.
func appendTerms(b []byte, p *lb.Prefix) []byte {
	ttl := min(p.TTL, maxRemember)
	var terms [32]byte
	at := terms[:0]
	for _, f := range []float64{
		p.Credit, float64(p.Length), float64(min(max(p.Tokens, 0), exactly)), float64(ttl.Milliseconds()),
	} {
		at = binary.LittleEndian.AppendUint64(at, math.Float64bits(f))
	}
	return appendArg(b, at)
}

// reservationOf returns the command of a reservation, and its script. A plan with blocks has one of its own, so that plans
// without them take no longer.
func reservationOf(sc *scope, v *view, id lb.LeaseID, p *lb.Plan) (*script, []byte) {
	var c chain
	sp, args, tokens := scriptReserve, 4, clamp(p.Tokens)
	if len(p.Prefix.Blocks) > 0 && p.Prefix.Length > 0 && p.Prefix.TTL >= time.Millisecond {
		c = chainOf(p.Prefix.Blocks, 0)
		sp, args, tokens = scriptPrompt, 8, min(max(p.Tokens, -exactly), exactly)
	}
	size := 320 + len(c.runs)*(len(sc.keys.Run)+16) + len(c.blocks)*12
	b := sp.command(make([]byte, 0, size), 3+len(c.runs), args)
	b = appendArg(b, sc.keys.Table)
	b = appendArg(b, sc.keys.Own)
	b = appendArg(b, v.key)
	b = c.appendRuns(b, sc.keys.Run)
	b = appendID(b, id)
	b = appendInt(b, tokens)
	b = appendInt(b, int64(p.Unit))
	b = appendInt(b, int64(uint32(p.Tie)))
	if sp == scriptPrompt {
		b = c.appendEnds(c.appendBlocks(appendTerms(b, &p.Prefix)))
	}
	return sp, b
}

// Forget implements [lb.Store]. What does not get through is noted until it is too old.
func (s *Store) Forget(now time.Duration, p *lb.Plan, addr string, n int) {
	c := chainOf(p.Prefix.Blocks, n)
	if len(c.blocks) == 0 {
		return
	}
	sc := s.scope(p.Scope)
	b := scriptForget.command(nil, len(c.runs), 3)
	b = c.appendRuns(b, sc.keys.Run)
	b = appendArg(b, binary.LittleEndian.AppendUint32(nil, endpointOf(addr)))
	b = c.appendBlocks(b)
	s.background(now, scriptForget, sc, b, func(time.Duration, Value, error) {})
}
