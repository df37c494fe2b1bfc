package memstore

import (
	"math"
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb/prefixindex"
	"github.com/warmgate/warmgate/lb/prompt"
)

// page is a page of the prefix index: a list of entries as package prefixindex describes them.
type page []byte

const (
	maxHolders  = prefixindex.MaxHolders
	holderSize  = prefixindex.HolderSize
	entrySize   = prefixindex.EntrySize
	mostEntries = prefixindex.MaxEntries
	pageMost    = prefixindex.MaxPageSize
	seenTick    = prefixindex.Tick
	freshFor    = prefixindex.FreshTicks
)

func tickOf(now time.Duration) uint16 { return uint16(now / seenTick) }

// entry is one block in a page.
type entry []byte

// search returns where the block's entry is, -1 if it is not there. It looks first at an offset where it may well be.
func (p page) search(key uint64, guess int) int {
	if guess+entrySize <= len(p) && wire.Uint64(p, guess) == key {
		return guess
	}
	for at := 0; at+entrySize <= len(p); at += entrySize {
		if wire.Uint64(p, at) == key {
			return at
		}
	}
	return -1
}

// at returns the entry at an offset.
func (p page) at(offset int) entry { return entry(p[offset : offset+entrySize]) }

// find returns the block's entry, nil if it is not there.
func (p page) find(key uint64) entry {
	if at := p.search(key, 0); at >= 0 {
		return p.at(at)
	}
	return nil
}

// turnover returns how many ticks ago the entry was written that has a quarter of a full page's behind it: the longer,
// the less is lost by what pushes others out. What goes itself may be further in front than the last, where tenants
// with few entries have some, and would have to be searched for.
func (p page) turnover(now uint16) uint16 {
	at := min(len(p)/entrySize, mostEntries*3/4) - 1
	if at < 0 {
		return math.MaxUint16
	}
	_, age := p.at(at*entrySize).endpoint(0, now)
	return age
}

// in says whether the entry is that of one of the blocks.
func (e entry) in(blocks []prompt.Block) bool {
	key := wire.Uint64(e, 0)
	return slices.ContainsFunc(blocks, func(b prompt.Block) bool { return b.Key == key })
}

// endpoint returns the i-th endpoint, 0 if there is none, and how many ticks ago it was seen.
func (e entry) endpoint(i int, now uint16) (endpoint uint32, age uint16) {
	h := e[8+i*holderSize:]
	return wire.Uint32(h, 0), now - wire.Uint16(h, 4)
}

// put moves the endpoint to the front. It returns false if nothing had to change: the endpoint was noted a moment ago, or as
// many others were.
func (e entry) put(endpoint uint32, now uint16) bool {
	at := maxHolders - 1 // whose place it takes
	for i := range maxHolders {
		held, age := e.endpoint(i, now)
		if held == endpoint || held == 0 {
			if held != 0 && age < freshFor {
				return false
			}
			at = i
			break
		}
		if i == maxHolders-1 && age < freshFor {
			return false
		}
	}
	copy(e[8+holderSize:8+(at+1)*holderSize], e[8:8+at*holderSize])
	wire.PutUint32(e, 8, endpoint)
	wire.PutUint16(e, 12, now)
	return true
}

// drop takes the endpoint out. It returns false if it was not there.
func (e entry) drop(endpoint uint32) bool {
	for i := range maxHolders {
		if held, _ := e.endpoint(i, 0); held == endpoint {
			copy(e[8+i*holderSize:], e[8+(i+1)*holderSize:])
			clear(e[entrySize-holderSize:])
			return true
		}
	}
	return false
}

// note returns the page with the endpoint noted for each of the blocks, and whether it had to change. If it had to, all of the
// blocks come to the front, so that a beginning that is in use stays while the ends of prompts come and go; what has not been there
// for longest is at the end. What is too much is taken out by shrink.
func (p page) note(blocks []prompt.Block, endpoint uint32, now uint16) (page, bool) {
	changed := false
	for _, b := range blocks {
		if e := p.find(b.Key); e == nil || e.put(endpoint, now) {
			changed = true
		}
	}
	if !changed {
		return p, false
	}
	front := make(page, 0, len(p)+len(blocks)*entrySize)
	for _, b := range blocks {
		e := p.find(b.Key)
		if e == nil {
			e = make(entry, entrySize)
			wire.PutUint64(e, 0, b.Key)
			e.put(endpoint, now)
		}
		front = append(front, e...)
	}
	for at := 0; at+entrySize <= len(p); at += entrySize {
		if e := entry(p[at : at+entrySize]); !e.in(blocks) {
			front = append(front, e...)
		}
	}
	return front.shrink(), true
}

// forget returns the page without the endpoint at any of the blocks, and whether it had to change. What nobody has any more goes.
// The page itself is overwritten.
func (p page) forget(blocks []prompt.Block, endpoint uint32) (page, bool) {
	left, changed := p[:0], false
	for at := 0; at+entrySize <= len(p); at += entrySize {
		e := entry(p[at : at+entrySize])
		if e.in(blocks) && e.drop(endpoint) {
			changed = true
			if first, _ := e.endpoint(0, 0); first == 0 {
				continue
			}
		}
		left = append(left, e...)
	}
	return left, changed
}

// shrink returns the page without what is too much in it. One entry after the other goes, the last one of those tenants that have
// most: so tenants share a full page, and none can push out what another remembers as long as it has more itself. What no tenant
// has claimed counts as one more tenant's.
func (p page) shrink() page {
	over := len(p)/entrySize - mostEntries
	if over <= 0 {
		return p
	}
	count := p.tenants()
	most := slices.Max(count[:])
	if most == len(p)/entrySize { // all are of one
		return p[:pageMost]
	}
	for over > 0 {
		at := p.last(&count, most)
		if at < 0 {
			most--
			continue
		}
		count[p.tenant(at)]--
		p = slices.Delete(p, at, at+entrySize)
		over--
	}
	return p
}

// tenants returns how many entries each tenant has.
func (p page) tenants() (count [256]int) {
	for at := 0; at+entrySize <= len(p); at += entrySize {
		count[p.tenant(at)]++
	}
	return count
}

// last returns where the last entry of a tenant is that has at least so many, -1 if none has.
func (p page) last(count *[256]int, most int) int {
	at := (len(p)/entrySize - 1) * entrySize
	for at >= 0 && count[p.tenant(at)] < most {
		at -= entrySize
	}
	return at
}

// tenant returns whose entry there is at an offset.
func (p page) tenant(at int) byte { return p[at+7] }
