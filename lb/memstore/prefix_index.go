package memstore

import (
	"errors"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prefixindex"
	"github.com/warmgate/warmgate/lb/prompt"
)

// prefixIndex remembers which endpoints have which prompts in their cache, for all workers of a gateway. Each block has
// an entry in a page. Pages are the buckets of a hash table with two places for an entry: the page that the block's own
// key names, or the one that the block before it is in. So the blocks of a prompt mostly lie together, and a prompt of
// many blocks needs few pages; and where many prompts branch off from one block, which would crowd its page, each goes
// on in a page of its own. Which of the two it is follows from what is lost there (the power of two choices: Azar,
// Broder, Karlin and Upfal, 1994), so what is remembered depends on all the room that there is, not on where prompts
// branch off.
//
// It is a cache itself: pages are overwritten when they are full, and what a worker fails to write is lost.
type prefixIndex struct {
	kv    lb.KV
	slots int
	pages []loaded // that the prompt last looked for has led to
	spans []span   // of its blocks, as far as they are known
}

// loaded is a page and where it is.
type loaded struct {
	slot int
	page page
	cas  uint32
	read bool // it is as it was in memory
	more int  // blocks that the prompt will put into it
}

// span is a part of a prompt whose blocks are in one page.
type span struct {
	page     int // which of those that were read
	from, to int // places of its blocks in the prompt
}

// spanOf returns how many blocks of a prompt, from number n on, are put into a page at once. With more at the
// beginning, a tenant would have many blocks in few pages, and lose what is more than its part of a page. Farther
// behind, fewer pages to read and write count for more.
func spanOf(n int) int {
	if n < 32 {
		return 8
	}
	return 16
}

// holding is an endpoint, by the lower half of the hash of its address, and how many of a prompt's blocks it has.
type holding struct {
	endpoint uint32
	blocks   int
}

// look finds the blocks of a prompt that are known, and sets spans to them.
func (x *prefixIndex) look(p *lb.Prefix) {
	x.slots = max(p.IndexMemory.Local/pageMost, prefixindex.MinPages)
	x.pages, x.spans = x.pages[:0], x.spans[:0]
	at := 0 // behind the last block that was found, in its page
	for k, b := range p.Blocks {
		if n := len(x.spans); n > 0 {
			s := &x.spans[n-1]
			if found := x.pages[s.page].page.search(b.Key, at); found >= 0 {
				s.to, at = k+1, found+entrySize
				continue
			}
		}
		own := x.open(x.slotOf(b))
		found := x.pages[own].page.search(b.Key, 0)
		if found < 0 {
			return
		}
		x.spans, at = append(x.spans, span{own, k, k + 1}), found+entrySize
	}
}

// slotOf returns the number of the page that the block's key names.
func (x *prefixIndex) slotOf(b prompt.Block) int { return int(b.Key % uint64(x.slots)) }

// open returns which of the pages read the one with the number is. It reads it if it is none of them.
func (x *prefixIndex) open(slot int) int {
	for i := range x.pages {
		if x.pages[i].slot == slot {
			return i
		}
	}
	x.pages = append(x.pages, loaded{slot: slot})
	x.load(&x.pages[len(x.pages)-1])
	return len(x.pages) - 1
}

func pageKey(slot int) string { return "warmgate/1/prefix/" + strconv.Itoa(slot) }

// load reads a page. One that cannot be read is empty, and is not written.
func (x *prefixIndex) load(l *loaded) {
	val, cas, err := x.kv.Get(pageKey(l.slot))
	l.page, l.cas, l.read = val, cas, err == nil || errors.Is(err, lb.ErrNotFound)
}

// match returns who has how much of the prompt. An endpoint that has a block has all before it: it computed them to get
// there, and engines drop the ends of prompts first.
func (x *prefixIndex) match(now time.Duration, p *lb.Prefix) []holding {
	x.look(p)
	var held []holding
	tick := tickOf(now)
	for _, s := range x.spans {
		at := 0
		for k := s.from; k < s.to; k++ {
			at = x.pages[s.page].page.search(p.Blocks[k].Key, at)
			e := x.pages[s.page].page.at(at)
			at += entrySize
			for h := range maxHolders {
				if endpoint, age := e.endpoint(h, tick); endpoint != 0 && age <= tickOf(p.TTLOf(endpoint)) {
					held = hold(held, endpoint, k+1)
				}
			}
		}
	}
	return held
}

// hold notes that the endpoint has n blocks.
func hold(held []holding, endpoint uint32, n int) []holding {
	for i := range held {
		if held[i].endpoint == endpoint {
			held[i].blocks = n
			return held
		}
	}
	return append(held, holding{endpoint, n})
}

// note remembers that the endpoint has the prompt for which match was called last.
func (x *prefixIndex) note(now time.Duration, p *lb.Prefix, endpoint uint32) {
	tick := tickOf(now)
	x.place(p.Blocks, tick)
	for i := range x.pages {
		blocks := x.blocksIn(i, p.Blocks)
		x.change(&x.pages[i], func(old page) (page, bool) { return old.note(blocks, endpoint, tick) })
	}
}

// blocksIn returns those of the prompt's blocks that spans have in a page.
func (x *prefixIndex) blocksIn(page int, blocks []prompt.Block) (in []prompt.Block) {
	for _, s := range x.spans {
		switch {
		case s.page != page:
		case in == nil: // most pages have one part
			in = blocks[s.from:s.to:s.to]
		default:
			in = append(in, blocks[s.from:s.to]...)
		}
	}
	return in
}

// place finds places for the blocks that are not known: for a few at a time, the page that the blocks before them are
// in or the one that the first of them names.
func (x *prefixIndex) place(blocks []prompt.Block, tick uint16) {
	from := 0
	if n := len(x.spans); n > 0 {
		from = x.spans[n-1].to
	}
	for from < len(blocks) {
		to := min(from+spanOf(from), len(blocks))
		in := x.open(x.slotOf(blocks[from]))
		if n := len(x.spans); n > 0 {
			if before := x.spans[n-1].page; x.pages[before].suits(to-from, &x.pages[in], tick) {
				in = before
			}
		}
		x.pages[in].more += to - from
		x.spans, from = append(x.spans, span{in, from, to}), to
	}
}

// suits says whether n new blocks go into the page, where the blocks before them are, and not into their own one. They
// do while the page has few entries, since what lies together is read at once. Then the page with fewer entries is
// taken, or of two full ones that with the older entries. No prompt puts more than half a page into one at once.
func (l *loaded) suits(n int, own *loaded, tick uint16) bool {
	here, there := len(l.page)/entrySize+l.more+n, len(own.page)/entrySize+own.more+n
	switch {
	case !l.read || !own.read:
		return l.read
	case here <= mostEntries/4:
		return true
	case l.more+n > mostEntries/2:
		return false
	case here <= mostEntries || there <= mostEntries:
		return here < there
	}
	return l.page.turnover(tick) > own.page.turnover(tick)
}

// forget forgets that the endpoint has more than the first n blocks of the prompt, also those behind one that was lost,
// which look does not find. Whatever page they are in is that of one of the blocks.
func (x *prefixIndex) forget(p *lb.Prefix, endpoint uint32, n int) {
	x.slots = max(p.IndexMemory.Local/pageMost, prefixindex.MinPages)
	x.pages, x.spans = x.pages[:0], x.spans[:0]
	for _, b := range p.Blocks {
		x.open(x.slotOf(b))
	}
	for i := range x.pages {
		x.change(&x.pages[i], func(old page) (page, bool) { return old.forget(p.Blocks[min(n, len(p.Blocks)):], endpoint) })
	}
}

// change writes what edit makes of a page.
func (x *prefixIndex) change(l *loaded, edit func(page) (page, bool)) {
	const tries = 3
	for try := range tries {
		if try > 0 {
			x.load(l)
		}
		if !l.read {
			return
		}
		p, changed := edit(l.page)
		if !changed || !errors.Is(x.kv.Set(pageKey(l.slot), p, l.cas), lb.ErrMismatch) {
			return
		}
	}
}
