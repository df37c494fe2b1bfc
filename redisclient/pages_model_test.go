package redisclient_test

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/redisclient"
)

// pagesModel is a second implementation of prefix.lua, from its description: the pages of a scope.
type pagesModel struct {
	key   string // of the hash
	slots uint64
	pages map[uint64][]byte
}

const (
	modelEntry       = 32
	modelPageEntries = 63
	modelFresh       = 8
)

// newPagesModel returns the model of a scope whose index may use so many bytes.
func newPagesModel(scope string, bytes int) *pagesModel {
	slots := max(16, bytes/2144)
	return &pagesModel{
		redisclient.KeysOf(scope).Pages + strconv.FormatInt(int64(slots), 36), uint64(slots), map[uint64][]byte{},
	}
}

func endpointTag(addr string) uint32 { return uint32(xxhash.Sum64String(addr)) }

// tickNow returns the time in ticks of a server on this machine.
func tickNow() uint16 { return uint16(time.Now().Unix() / 4) }

// modelField returns the field of a page.
func modelField(slot uint64) string {
	return string([]byte{byte(slot), byte(slot >> 8), byte(slot >> 16)})
}

// modelPart is consecutive blocks of a prompt that are in one page.
type modelPart struct {
	slot   uint64
	blocks []prompt.Block
	at     []int // the positions of their entries; nil for blocks without entries
}

// ownPage returns the page that a block's key determines.
func (m *pagesModel) ownPage(b prompt.Block) uint64 { return b.Key % m.slots }

// matchedParts returns the parts of the blocks that match.
func (m *pagesModel) matchedParts(blocks []prompt.Block) (parts []modelPart) {
	next := 0
	for k, b := range blocks {
		if n := len(parts); n > 0 {
			p := &parts[n-1]
			if at := m.find(p.slot, b.Key, next); at >= 0 {
				p.blocks, p.at, next = append(p.blocks, b), append(p.at, at), at+modelEntry
				continue
			}
		}
		at := m.find(m.ownPage(b), b.Key, 0)
		if at < 0 {
			return parts
		}
		parts, next = append(parts, modelPart{m.ownPage(b), blocks[k : k+1 : k+1], []int{at}}), at+modelEntry
	}
	return parts
}

// place appends parts for the blocks that do not match: eight blocks each, 16 behind the first 32.
func (m *pagesModel) place(parts []modelPart, blocks []prompt.Block, now uint16) []modelPart {
	more := map[uint64]int{}
	at := 0
	for _, p := range parts {
		at += len(p.blocks)
	}
	blocks = blocks[at:]
	for len(blocks) > 0 {
		n := 8
		if at >= 32 {
			n = 16
		}
		n = min(n, len(blocks))
		at += n
		slot := m.ownPage(blocks[0])
		if len(parts) > 0 && m.prefers(parts[len(parts)-1].slot, slot, blocks[:n], more, now) {
			slot = parts[len(parts)-1].slot
		}
		parts = append(parts, modelPart{slot: slot, blocks: blocks[:n]})
		more[slot] += n
		blocks = blocks[n:]
	}
	return parts
}

// prefers reports whether more blocks should be in the page of the block before them rather than in their own page.
func (m *pagesModel) prefers(slot, own uint64, blocks []prompt.Block, more map[uint64]int, now uint16) bool {
	n, tenant := len(blocks), blocks[0].Tenant()
	fill := func(slot uint64) float64 { return float64(len(m.pages[slot]))/modelEntry + float64(more[slot]+n) }
	turnover := func(slot uint64) int {
		page := wholeEntries(m.pages[slot])
		for n := min(len(page)/modelEntry, 47); n > 0; n-- {
			if e := page[(n-1)*modelEntry:]; e[7] == tenant {
				return int(now-binary.LittleEndian.Uint16(e[12:])+modelFresh) - modelFresh
			}
		}
		return 1 << 16
	}
	switch {
	case fill(slot) <= modelPageEntries/4:
		return true
	case more[slot]+n > modelPageEntries/2:
		return false
	case fill(slot) > modelPageEntries && fill(own) > modelPageEntries:
		return turnover(slot) > turnover(own)
	}
	return fill(slot) < fill(own)
}

// find returns where the entry of a block is, -1 if there is none. If there are several, for a block that was lost and
// recorded again, it is the one behind the previous block's, else the first.
func (m *pagesModel) find(slot, block uint64, next int) int {
	page := m.pages[slot]
	is := func(at int) bool { return at+modelEntry <= len(page) && binary.LittleEndian.Uint64(page[at:]) == block }
	if is(next) {
		return next
	}
	for at := range len(page) / modelEntry {
		if is(at * modelEntry) {
			return at * modelEntry
		}
	}
	return -1
}

// match returns how many leading blocks each endpoint has.
func (m *pagesModel) match(p *lb.Prefix, now uint16) map[uint32]int {
	held, n := map[uint32]int{}, 0
	for _, part := range m.matchedParts(p.Blocks) {
		for _, at := range part.at {
			n++
			e := m.pages[part.slot][at : at+modelEntry]
			for i := 8; i < len(e); i += 6 {
				endpoint, seen := binary.LittleEndian.Uint32(e[i:]), binary.LittleEndian.Uint16(e[i+4:])
				keeps := p.TTL
				for _, l := range p.ShortTTL {
					if l.Endpoint == endpoint {
						keeps = l.TTL
					}
				}
				if endpoint != 0 && time.Duration(now-seen)*4*time.Second <= keeps {
					held[endpoint] = n
				}
			}
		}
	}
	return held
}

// withHolder returns the endpoints of an entry with the endpoint in front, nil if they stay as they are.
func withHolder(holders []byte, endpoint uint32, now uint16) []byte {
	place := 18
	for i := 0; i < 24; i += 6 {
		holder, age := binary.LittleEndian.Uint32(holders[i:]), now-binary.LittleEndian.Uint16(holders[i+4:])
		switch {
		case holder == 0:
		case holder == endpoint && age < modelFresh, i == 18 && age < modelFresh:
			return nil
		case holder != endpoint:
			continue
		}
		place = i
		break
	}
	out := binary.LittleEndian.AppendUint32(nil, endpoint)
	out = binary.LittleEndian.AppendUint16(out, now)
	out = append(out, holders[:place]...)
	return append(out, holders[place+6:]...)
}

// record records that the endpoint has the blocks.
func (m *pagesModel) record(blocks []prompt.Block, endpoint uint32, now uint16) {
	type content struct {
		front   []byte
		moved   []int
		changed bool
	}
	pages := map[uint64]*content{}
	for _, part := range m.place(m.matchedParts(blocks), blocks, now) {
		c := pages[part.slot]
		if c == nil {
			c = &content{}
			pages[part.slot] = c
		}
		for i, b := range part.blocks {
			holders := make([]byte, 24)
			if part.at != nil {
				copy(holders, m.pages[part.slot][part.at[i]+8:])
				c.moved = append(c.moved, part.at[i])
			}
			if updated := withHolder(holders, endpoint, now); updated != nil {
				holders, c.changed = updated, true
			}
			c.front = append(binary.LittleEndian.AppendUint64(c.front, b.Key), holders...)
		}
	}
	for slot, c := range pages {
		if c.changed {
			page := append(c.front, without(m.pages[slot], c.moved)...)
			m.pages[slot] = evict(wholeEntries(page))
		}
	}
}

// wholeEntries returns the page without an incomplete entry at its end.
func wholeEntries(page []byte) []byte { return page[:len(page)/modelEntry*modelEntry] }

// evict returns the page with at most as many entries as it may have. The last entry of the tenant with the most
// entries is evicted, one after the other.
func evict(page []byte) []byte {
	for len(page) > modelPageEntries*modelEntry {
		count := map[byte]int{}
		for at := 7; at < len(page); at += modelEntry {
			count[page[at]]++
		}
		most := slices.Max(slices.Collect(maps.Values(count)))
		at := len(page) - modelEntry
		for count[page[at+7]] < most {
			at -= modelEntry
		}
		page = append(page[:at:at], page[at+modelEntry:]...)
	}
	return page
}

// without returns the page without the entries at some places.
func without(page []byte, places []int) (left []byte) {
	for at := 0; at < len(page); at += modelEntry {
		if !slices.Contains(places, at) {
			left = append(left, page[at:min(at+modelEntry, len(page))]...)
		}
	}
	return left
}

// forget deletes the record that the endpoint has more than the first n blocks. Each block is searched in the page of
// the block before it, and in the own pages of the blocks up to it, of which the latest eight.
func (m *pagesModel) forget(blocks []prompt.Block, endpoint uint32, n int) {
	var named []uint64
	last, any := uint64(0), false
	for k, b := range blocks {
		if own := m.ownPage(b); len(m.pages[own]) > 0 && !slices.Contains(named, own) {
			named = append(named, own)
		}
		places := slices.Clone(named[max(0, len(named)-8):])
		slices.Reverse(places)
		if any && !slices.Contains(places, last) {
			places = append(places, last)
		}
		still, at := false, uint64(0)
		for _, slot := range places {
			there := m.removeHolder(slot, b.Key, endpoint, k >= n)
			switch {
			case there && any && slot == last:
				still = true
			case there && at == 0:
				at = slot + 1
			}
		}
		if !still && at > 0 {
			last, any = at-1, true
		}
	}
}

// removeHolder removes the endpoint from all entries of a block in a page if out is true, and reports whether there are
// any entries. A page without entries is deleted.
func (m *pagesModel) removeHolder(slot, key uint64, endpoint uint32, out bool) (there bool) {
	for at := 0; at+modelEntry <= len(m.pages[slot]); {
		e := m.pages[slot][at : at+modelEntry]
		at += modelEntry
		if binary.LittleEndian.Uint64(e) != key {
			continue
		}
		there = true
		for i := 8; out && i < len(e); i += 6 {
			if binary.LittleEndian.Uint32(e[i:]) == endpoint {
				copy(e[i:], e[i+6:])
				clear(e[modelEntry-6:])
				if bytes.Equal(e[8:], make([]byte, 24)) {
					at -= modelEntry
					if m.pages[slot] = without(m.pages[slot], []int{at}); len(m.pages[slot]) < modelEntry {
						delete(m.pages, slot)
					}
				}
				break
			}
		}
	}
	return there
}
