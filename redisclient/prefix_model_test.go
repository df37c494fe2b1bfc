package redisclient_test

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/redisclient"
)

// pagesModel is what prefix.lua keeps in the pages of a scope, written from its description once more.
type pagesModel struct {
	slots int
	pages map[int][]byte
}

const (
	modelEntry = 32
	modelMost  = 63
	modelFresh = 8
)

// newPagesModel returns the model of a scope whose plans let it use so many bytes.
func newPagesModel(scope string, bytes int) *pagesModel {
	return &pagesModel{max(16, bytes/(2240+len(redisclient.KeysOf(scope).Page))), map[int][]byte{}}
}

func endpointOf(addr string) uint32 { return uint32(xxhash.Sum64String(addr)) }

// tickNow returns what the clock of a server on this machine says.
func tickNow() uint16 { return uint16(time.Now().Unix() / 4) }

// part is a run of blocks and where its page is.
type part struct {
	slot   int
	blocks []prompt.Block
}

// parts cuts blocks into runs: 2, 2, 4, 8, and from then on 16. Each has a slot of its own.
func (m *pagesModel) parts(blocks []prompt.Block) (out []part) {
	taken := map[int]bool{}
	for _, n := range []int{2, 2, 4, 8, 16, 16, 16, 16, 16, 16, 16} {
		if n = min(n, len(blocks)); n > 0 {
			slot := int(blocks[0].Key % uint64(m.slots))
			for taken[slot] {
				slot = (slot + 1) % m.slots
			}
			taken[slot] = true
			out = append(out, part{slot, blocks[:n]})
			blocks = blocks[n:]
		}
	}
	return out
}

// seek returns the entry of a block, nil if there is none. It points into the page.
func (m *pagesModel) seek(slot int, block uint64) []byte {
	for p := m.pages[slot]; len(p) >= modelEntry; p = p[modelEntry:] {
		if binary.LittleEndian.Uint64(p) == block {
			return p[:modelEntry]
		}
	}
	return nil
}

// match returns how many of its blocks each endpoint has.
func (m *pagesModel) match(p *lb.Prefix, now uint16) map[uint32]int {
	held, n := map[uint32]int{}, 0
	for _, part := range m.parts(p.Blocks) {
		found := false
		for _, b := range part.blocks {
			n++
			e := m.seek(part.slot, b.Key)
			for i := 8; i < len(e); i += 6 {
				endpoint, seen := binary.LittleEndian.Uint32(e[i:]), binary.LittleEndian.Uint16(e[i+4:])
				keeps := p.TTL
				for _, l := range p.Less {
					if l.Endpoint == endpoint {
						keeps = l.For
					}
				}
				if endpoint != 0 && time.Duration(now-seen)*4*time.Second <= keeps {
					held[endpoint], found = n, true
				}
			}
		}
		if !found {
			break
		}
	}
	return held
}

// noted returns the holders with the endpoint in front, nil if they stay as they are.
func noted(holders []byte, endpoint uint32, now uint16) []byte {
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

// note remembers that the endpoint has the blocks.
func (m *pagesModel) note(blocks []prompt.Block, endpoint uint32, now uint16) {
	for _, part := range m.parts(blocks) {
		var front []byte
		changed := false
		for _, b := range part.blocks {
			holders := make([]byte, 24)
			if e := m.seek(part.slot, b.Key); e != nil {
				holders = e[8:]
			}
			if anew := noted(holders, endpoint, now); anew != nil {
				holders, changed = anew, true
			}
			front = append(binary.LittleEndian.AppendUint64(front, b.Key), holders...)
		}
		if !changed {
			continue
		}
		rest := bytes.Clone(m.pages[part.slot])
		for _, b := range part.blocks {
			rest = without(rest, b.Key)
		}
		front = append(front, rest...)
		m.pages[part.slot] = shared(front[:len(front)/modelEntry*modelEntry])
	}
}

// shared returns the page with so many entries as it may have. What goes is, one after the other, the last entry of those tenants
// that have most.
func shared(page []byte) []byte {
	for len(page) > modelMost*modelEntry {
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

// without returns the page without a block's entry.
func without(page []byte, block uint64) []byte {
	for at := 0; at+modelEntry <= len(page); at += modelEntry {
		if binary.LittleEndian.Uint64(page[at:]) == block {
			return append(page[:at], page[at+modelEntry:]...)
		}
	}
	return page
}

// forget takes back that the endpoint has more than the first n blocks.
func (m *pagesModel) forget(blocks []prompt.Block, endpoint uint32, n int) {
	for _, part := range m.parts(blocks) {
		for _, b := range part.blocks {
			if n--; n >= 0 {
				continue
			}
			e := m.seek(part.slot, b.Key)
			for i := 8; i < len(e); i += 6 {
				if binary.LittleEndian.Uint32(e[i:]) == endpoint {
					copy(e[i:], e[i+6:])
					clear(e[modelEntry-6:])
					if bytes.Equal(e[8:], make([]byte, 24)) {
						m.pages[part.slot] = without(m.pages[part.slot], b.Key)
					}
					break
				}
			}
		}
		if len(m.pages[part.slot]) == 0 {
			delete(m.pages, part.slot)
		}
	}
}
