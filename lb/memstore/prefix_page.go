package memstore

import (
	"math"
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb/prefixindex"
	"github.com/warmgate/warmgate/lb/prompt"
)

// page is a page of the prefix index: a list of entries of 32 bytes, one for each block, those that were recorded last
// in front. lb/prefixindex/page.go describes the format. A page that was never written is empty.
type page []byte

const (
	keySize    = prefixindex.KeySize
	holderSize = prefixindex.HolderSize
	maxHolders = prefixindex.MaxHolders
	entrySize  = prefixindex.EntrySize
	maxEntries = prefixindex.MaxEntries
)

// tickOf returns the tick of a time: it wraps after 65,536 ticks.
func tickOf(now time.Duration) uint16 { return uint16(now / prefixindex.Tick) }

// entry is the entry of one block: its key, and the endpoints that have it, called its holders.
type entry []byte

// search returns the offset of the block's entry, -1 if it has none. It looks at the offset guess first.
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

// find returns the block's entry, nil if it has none.
func (p page) find(key uint64) entry {
	if at := p.search(key, 0); at >= 0 {
		return p.at(at)
	}
	return nil
}

// turnover returns the age in ticks of the tenant's last entry in front of the 48th; behind that is the last quarter of
// a full page. It is the maximum if the tenant has no entry there. The larger it is, the less is lost when new entries
// of the tenant evict old ones. Entries of other tenants say nothing about that: those of one that is protected by its
// share may be old, while the tenant's own come and go. Nor does the entry that would be evicted next: it may be a
// recent one of a tenant with many entries.
func (p page) turnover(tenant byte, now uint16) uint16 {
	at := (min(len(p)/entrySize, maxEntries*3/4) - 1) * entrySize
	for at >= 0 && p.tenant(at) != tenant {
		at -= entrySize
	}
	if at < 0 {
		return math.MaxUint16
	}
	_, age := p.at(at).holder(0, now)
	return age
}

// isOf reports whether the entry is that of one of the blocks.
func (e entry) isOf(blocks []prompt.Block) bool {
	key := wire.Uint64(e, 0)
	return slices.ContainsFunc(blocks, func(b prompt.Block) bool { return b.Key == key })
}

// holder returns the tag of the i-th holder, 0 if there is none, and how many ticks ago it was recorded.
func (e entry) holder(i int, now uint16) (tag uint32, age uint16) {
	h := e[keySize+i*holderSize:]
	return wire.Uint32(h, 0), now - wire.Uint16(h, 4)
}

// put makes the endpoint the first holder; if there are maxHolders others, the last one is dropped. It changes nothing
// and returns false if the endpoint was recorded less than FreshTicks ago, or if all of the others were.
func (e entry) put(tag uint32, now uint16) bool {
	at := maxHolders - 1 // the holder that it replaces
	for i := range maxHolders {
		held, age := e.holder(i, now)
		if held == tag || held == 0 {
			if held != 0 && age < prefixindex.FreshTicks {
				return false
			}
			at = i
			break
		}
		if i == maxHolders-1 && age < prefixindex.FreshTicks {
			return false
		}
	}
	copy(e[keySize+holderSize:keySize+(at+1)*holderSize], e[keySize:keySize+at*holderSize])
	wire.PutUint32(e, keySize, tag)
	wire.PutUint16(e, keySize+4, now)
	return true
}

// has reports whether the endpoint is a holder.
func (e entry) has(tag uint32) bool {
	for i := range maxHolders {
		if wire.Uint32(e, keySize+i*holderSize) == tag {
			return true
		}
	}
	return false
}

// remove removes the endpoint from the holders. It returns false if the endpoint is none.
func (e entry) remove(tag uint32) bool {
	for i := range maxHolders {
		if held, _ := e.holder(i, 0); held == tag {
			copy(e[keySize+i*holderSize:], e[keySize+(i+1)*holderSize:])
			clear(e[entrySize-holderSize:])
			return true
		}
	}
	return false
}

// record returns the page with the endpoint as holder of each of the blocks, and whether that is a change. If it is,
// all of the blocks move to the front, changed or not: so a beginning of prompts that is in use stays, while the ends
// of prompts come and go, and what was not recorded for longest is at the end. What is too much is evicted.
func (p page) record(blocks []prompt.Block, tag uint32, now uint16) (page, bool) {
	changed := false
	for _, b := range blocks {
		if e := p.find(b.Key); e == nil || e.put(tag, now) {
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
			e.put(tag, now)
		}
		front = append(front, e...)
	}
	for at := 0; at+entrySize <= len(p); at += entrySize {
		if e := p.at(at); !e.isOf(blocks) {
			front = append(front, e...)
		}
	}
	return front.evict(), true
}

// keySet is a set of keys of blocks.
type keySet map[uint64]struct{}

func (s keySet) has(key uint64) bool {
	_, ok := s[key]
	return ok
}

// set makes the set that of the blocks.
func (s keySet) set(blocks []prompt.Block) {
	clear(s)
	for _, b := range blocks {
		s[b.Key] = struct{}{}
	}
}

// forget returns the page without the endpoint as holder of any of the blocks with these keys, and whether that is a
// change. Entries without a holder are removed. The page itself is overwritten. The endpoint is compared first: that is
// the cheaper test, and most entries of a full page are of other endpoints.
func (p page) forget(keys keySet, tag uint32) (page, bool) {
	end, changed := 0, false // end of the entries that remain
	for at := 0; at+entrySize <= len(p); at += entrySize {
		e := p.at(at)
		if e.has(tag) && keys.has(wire.Uint64(e, 0)) {
			e.remove(tag)
			changed = true
			if first, _ := e.holder(0, 0); first == 0 {
				continue
			}
		}
		if end < at {
			copy(p[end:], e)
		}
		end += entrySize
	}
	return p[:end], changed
}

// evict returns the page with no more than maxEntries entries. It removes one after another, each time the last entry
// of a tenant that has most entries. So tenants share a full page, and no tenant evicts an entry of another that has
// fewer. The entries without a tenant count as those of one more tenant.
func (p page) evict() page {
	over := len(p)/entrySize - maxEntries
	if over <= 0 {
		return p
	}
	count := p.tenants()
	largest := slices.Max(count[:])
	if largest == len(p)/entrySize { // all are of one tenant
		return p[:prefixindex.MaxPageSize]
	}
	for over > 0 {
		at := p.lastOf(&count, largest)
		if at < 0 {
			largest--
			continue
		}
		count[p.tenant(at)]--
		p = slices.Delete(p, at, at+entrySize)
		over--
	}
	return p
}

// tenants returns the number of entries of each tenant.
func (p page) tenants() (count [256]int) {
	for at := 0; at+entrySize <= len(p); at += entrySize {
		count[p.tenant(at)]++
	}
	return count
}

// lastOf returns the offset of the last entry of a tenant with n entries or more, a negative number if there is none.
func (p page) lastOf(count *[256]int, n int) int {
	at := (len(p)/entrySize - 1) * entrySize
	for at >= 0 && count[p.tenant(at)] < n {
		at -= entrySize
	}
	return at
}

// tenant returns the tenant of the entry at an offset.
func (p page) tenant(at int) byte { return p[at+keySize-1] }
