package memstore

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb/prefixindex"
	"github.com/warmgate/warmgate/lb/prompt"
)

// plainHolder is an endpoint that has a block, and when it was recorded.
type plainHolder struct {
	tag  uint32
	tick uint16
}

// plainEntry is an entry of a page, its latest holder in front.
type plainEntry struct {
	key     uint64
	holders []plainHolder
}

func (e *plainEntry) tenant() byte { return byte(e.key >> 56) }

// put makes the endpoint the first holder, unless it or all others were recorded a moment ago.
func (e *plainEntry) put(tag uint32, now uint16) bool {
	at := slices.IndexFunc(e.holders, func(h plainHolder) bool { return h.tag == tag })
	if at < 0 && len(e.holders) == prefixindex.MaxHolders {
		at = len(e.holders) - 1
	}
	if at >= 0 {
		if now-e.holders[at].tick < prefixindex.FreshTicks {
			return false
		}
		e.holders = slices.Delete(e.holders, at, at+1)
	}
	e.holders = slices.Insert(e.holders, 0, plainHolder{tag, now})
	return true
}

// plainPage is a page as a list of entries.
type plainPage []*plainEntry

func (p plainPage) find(key uint64) *plainEntry {
	for _, e := range p {
		if e.key == key {
			return e
		}
	}
	return nil
}

// record is [page.record] by its words.
func (p plainPage) record(blocks []prompt.Block, tag uint32, now uint16) (plainPage, bool) {
	changed := false
	for _, b := range blocks {
		if e := p.find(b.Key); e == nil || e.put(tag, now) {
			changed = true
		}
	}
	if !changed {
		return p, false
	}
	var front plainPage
	for _, b := range blocks {
		e := p.find(b.Key)
		if e == nil {
			e = &plainEntry{b.Key, []plainHolder{{tag, now}}}
		}
		front = append(front, e)
	}
	for _, e := range p {
		if !slices.ContainsFunc(blocks, func(b prompt.Block) bool { return b.Key == e.key }) {
			front = append(front, e)
		}
	}
	for len(front) > prefixindex.MaxEntries {
		front = front.withoutOne()
	}
	return front, true
}

// withoutOne removes the last entry of those of the tenants with most entries.
func (p plainPage) withoutOne() plainPage {
	count := map[byte]int{}
	most := 0
	for _, e := range p {
		count[e.tenant()]++
		most = max(most, count[e.tenant()])
	}
	for i := len(p) - 1; ; i-- {
		if count[p[i].tenant()] == most {
			return slices.Delete(p, i, i+1)
		}
	}
}

// forget removes the endpoint from the entries of the keys, and entries without a holder.
func (p plainPage) forget(forgotten []prompt.Block, tag uint32) (left plainPage, changed bool) {
	for _, e := range p {
		if slices.ContainsFunc(forgotten, func(b prompt.Block) bool { return b.Key == e.key }) {
			before := len(e.holders)
			e.holders = slices.DeleteFunc(e.holders, func(h plainHolder) bool { return h.tag == tag })
			changed = changed || len(e.holders) < before
		}
		if len(e.holders) > 0 {
			left = append(left, e)
		}
	}
	return left, changed
}

// bytes writes the page as it is documented.
func (p plainPage) bytes() page {
	var w wire.Writer
	for _, e := range p {
		w = w.Uint64(e.key)
		for i := range prefixindex.MaxHolders {
			var h plainHolder
			if i < len(e.holders) {
				h = e.holders[i]
			}
			w = w.Uint32(h.tag).Uint16(h.tick)
		}
	}
	return page(w)
}

// drawChain draws the blocks of a prompt of some tenant: prompts have beginnings in common.
func drawChain(rt *rapid.T) (blocks []prompt.Block) {
	tenant := uint64(rapid.IntRange(0, 3).Draw(rt, "tenant"))
	branch := uint64(rapid.IntRange(0, 5).Draw(rt, "branch"))
	for i := range rapid.IntRange(1, 12).Draw(rt, "blocks") {
		key := uint64(i + 1)
		if i >= 2 {
			key += 100 * (branch + 1)
		}
		blocks = append(blocks, prompt.Block{Key: tenant<<56 | key, End: 512 * (i + 1)})
	}
	return blocks
}

// After any history a page is, byte for byte, what a list of entries comes to by the words of the documentation.
func TestPagesAgainstAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var p page
		var model plainPage
		now := uint16(rapid.Uint16().Draw(rt, "tick"))
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			now += uint16(rapid.IntRange(0, 5).Draw(rt, "ticks"))
			blocks, tag := drawChain(rt), uint32(rapid.IntRange(1, 6).Draw(rt, "endpoint"))
			var changed, want bool
			if rapid.IntRange(0, 4).Draw(rt, "forget") == 0 {
				set := keySet{}
				set.set(blocks)
				p, changed = slices.Clone(p).forget(set, tag)
				model, want = model.forget(blocks, tag)
			} else {
				p, changed = p.record(blocks, tag, now)
				model, want = model.record(blocks, tag, now)
			}
			if changed != want || string(p) != string(model.bytes()) {
				rt.Fatalf("tick %d: changed %v, want %v; page\n%s\nwant\n%s", now, changed, want, dump(p),
					dump(model.bytes()))
			}
		}
	})
}

// dump writes down a page for a message.
func dump(p page) (text string) {
	for at := 0; at+entrySize <= len(p); at += entrySize {
		text += fmt.Sprintf("%x ", []byte(p.at(at)))
	}
	return text
}

// A page of another version of the plugin, or damaged memory, may have any bytes: nothing reads or writes outside of
// them, and what is recorded is found.
func TestPagesOfAnyBytes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := page(rapid.SliceOfN(rapid.Byte(), 0, 5*entrySize).Draw(rt, "page"))
		now := rapid.Uint16().Draw(rt, "tick")
		blocks, tag := drawChain(rt), uint32(rapid.IntRange(1, 6).Draw(rt, "endpoint"))
		p.turnover(rapid.Byte().Draw(rt, "tenant"), now)
		after, changed := p.record(blocks, tag, now)
		if changed && len(after)%entrySize != 0 || len(after) > prefixindex.MaxPageSize {
			rt.Fatalf("%d bytes become %d", len(p), len(after))
		}
		for _, b := range blocks {
			if changed && after.find(b.Key) == nil {
				rt.Fatalf("block %x is not there", b.Key)
			}
		}
		set := keySet{}
		set.set(blocks)
		left, _ := slices.Clone(after).forget(set, tag)
		for _, b := range blocks {
			if e := left.find(b.Key); e != nil && changed && e.has(tag) && slices.Equal(after.find(b.Key), e) {
				rt.Fatalf("the endpoint still has block %x", b.Key)
			}
		}
	})
}

// The turnover is the age of the entry behind three quarters of a full page, or of the last one, and falls the busier a
// page is.
func TestTurnoverOfAnyPage(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var p page
		ages := map[uint64]uint16{}
		now := uint16(100)
		for i := range rapid.IntRange(0, 80).Draw(rt, "entries") {
			now += uint16(rapid.IntRange(0, 3).Draw(rt, "ticks"))
			p, _ = p.record([]prompt.Block{{Key: uint64(i + 1), End: 1}}, 1, now)
			ages[uint64(i+1)] = now
		}
		n := len(p) / entrySize
		want := uint16(0xffff)
		if n > 0 {
			at := min(n, 47) - 1
			want = now - ages[wire.Uint64(p, at*entrySize)]
		}
		if got := p.turnover(prompt.NoTenant, now); got != want {
			rt.Fatalf("%d entries: turnover %d, want %d", n, got, want)
		}
	})
}
