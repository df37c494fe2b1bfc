package memstore

import (
	"errors"
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prefixindex"
	"github.com/warmgate/warmgate/lb/prompt"
)

// IndexBlocks returns how many prefix blocks the index holds in the given number of bytes: see [prefixindex.Blocks].
func IndexBlocks(bytes int) int { return prefixindex.Blocks(pagesIn(bytes)) }

// pagesIn returns the number of pages of an index that may use the given number of bytes.
func pagesIn(bytes int) int { return max(bytes/prefixindex.MaxPageSize, prefixindex.MinPages) }

// prefixIndex records which endpoints have which prefix blocks in their KV cache, for all workers of a gateway. Package
// prefixindex describes its pages.
//
// A block goes into the page that its key selects, its own page, or into the page of the block before it. With the page
// of the block before it, the blocks of a prompt are mostly together, and a prompt of many blocks needs few pages. But
// where many prompts branch off from one block, its page would be crowded; there each continues in a page of its own.
// The choice depends on what would be evicted in either page (the power of two choices: Azar, Broder, Karlin and Upfal,
// 1994), so what is retained depends on the size of the whole index and not on where prompts branch off.
//
// The index is itself a cache: full pages evict entries, and a write that fails is lost.
type prefixIndex struct {
	kv     lb.KV
	part   string         // of shared memory: see pageKey
	number int            // of pages, for the latest prompt
	pages  []loadedPage   // that were read for the latest prompt
	blocks []prompt.Block // of the latest prompt, without inner ones
	room   []prompt.Block // reused by blocks
	spans  []span         // of these blocks, as far as they are recorded
	keys   keySet         // reused by forget
}

// loadedPage is a page as it was read.
type loadedPage struct {
	number int
	page   page
	cas    uint32
	ok     bool // it could be read
	added  int  // blocks of the latest prompt that are to be recorded here
}

// span is a range of a prompt's blocks whose entries are in one page.
type span struct {
	page     int // index in prefixIndex.pages
	from, to int // the range of blocks
}

// spanLength returns how many blocks of a prompt, from block n on, are put into one page together. Larger spans at the
// beginning would give a tenant many entries in few pages, and it would lose those beyond its share of a page. Farther
// behind, fewer pages to read and write matter more.
func spanLength(n int) int {
	if n < 32 {
		return 8
	}
	return 16
}

// Match is an endpoint, by its tag, and how many leading blocks of a prompt it is recorded to have.
type Match struct {
	Tag    uint32 // never 0
	Blocks int
}

// start begins with another prompt, of which no page was read yet.
func (x *prefixIndex) start(p *lb.Prefix) {
	x.number = pagesIn(p.IndexMemory.Local)
	x.pages, x.spans = x.pages[:0], x.spans[:0]
	x.blocks = p.Blocks
	if prompt.Recorded(p.Blocks) < len(p.Blocks) {
		x.room = slices.DeleteFunc(append(x.room[:0], p.Blocks...), func(b prompt.Block) bool { return b.Inner })
		x.blocks = x.room
	}
}

// locate sets spans to the leading blocks of the prompt that have entries, up to the first block without. Inner blocks
// do not count.
func (x *prefixIndex) locate(p *lb.Prefix) {
	x.start(p)
	at := 0 // behind the entry that was found last, in its page
	for k, b := range x.blocks {
		if n := len(x.spans); n > 0 {
			s := &x.spans[n-1]
			if found := x.pages[s.page].page.search(b.Key, at); found >= 0 {
				s.to, at = k+1, found+entrySize
				continue
			}
		}
		own := x.open(x.ownPage(b))
		found := x.pages[own].page.search(b.Key, 0)
		if found < 0 {
			return
		}
		x.spans, at = append(x.spans, span{own, k, k + 1}), found+entrySize
	}
}

// ownPage returns the number of the page that the block's key selects.
func (x *prefixIndex) ownPage(b prompt.Block) int { return int(b.Key % uint64(x.number)) }

// open returns the index in pages of the page with the number, and reads it unless it was read before.
func (x *prefixIndex) open(number int) int {
	for i := range x.pages {
		if x.pages[i].number == number {
			return i
		}
	}
	x.pages = append(x.pages, loadedPage{number: number})
	x.load(&x.pages[len(x.pages)-1])
	return len(x.pages) - 1
}

// load reads a page. One that cannot be read is empty, and is not written.
func (x *prefixIndex) load(l *loadedPage) {
	val, cas, err := x.kv.Get(pageKey(x.part, l.number))
	l.page, l.cas, l.ok = val, cas, err == nil || errors.Is(err, lb.ErrNotFound)
}

// find returns the endpoints that match leading blocks of the prompt. An endpoint that has a block has all blocks
// before it: it had to compute them first, and engines evict the ends of prompts first.
func (x *prefixIndex) find(now time.Duration, p *lb.Prefix) []Match {
	x.locate(p)
	var matches []Match
	tick, n, at := tickOf(now), 0, 0 // n is how many of all blocks precede
	for _, s := range x.spans {
		at = 0
		for k := s.from; k < s.to; k++ {
			for p.Blocks[n].Inner {
				n++
			}
			n++
			at = x.pages[s.page].page.search(x.blocks[k].Key, at)
			matches = x.pages[s.page].page.at(at).addTo(matches, n, p, tick)
			at += entrySize
		}
	}
	if n > 0 {
		matches = x.findInner(matches, n, at, p, tick)
	}
	return matches
}

// findInner adds to the matches those of the inner blocks behind the first n, up to the first one without an entry. at
// is behind the entry before them, in its page.
func (x *prefixIndex) findInner(matches []Match, n, at int, p *lb.Prefix, tick uint16) []Match {
	in := x.spans[len(x.spans)-1].page
	for k := n; k < len(p.Blocks); k++ {
		b := p.Blocks[k]
		if !b.Inner {
			continue
		}
		found := x.pages[in].page.search(b.Key, at)
		if found < 0 {
			in = x.open(x.ownPage(b))
			if found = x.pages[in].page.search(b.Key, 0); found < 0 {
				break
			}
		}
		matches, at = x.pages[in].page.at(found).addTo(matches, k+1, p, tick), found+entrySize
	}
	return matches
}

// addTo sets the matches of the entry's holders to n blocks.
func (e entry) addTo(matches []Match, n int, p *lb.Prefix, tick uint16) []Match {
	for h := range maxHolders {
		if tag, age := e.holder(h, tick); tag != 0 && age <= tickOf(p.TTLOf(tag)) {
			matches = setMatch(matches, tag, n)
		}
	}
	return matches
}

// setMatch sets the match of the endpoint to n blocks.
func setMatch(matches []Match, tag uint32, n int) []Match {
	for i := range matches {
		if matches[i].Tag == tag {
			matches[i].Blocks = n
			return matches
		}
	}
	return append(matches, Match{tag, n})
}

// record records that the endpoint has all blocks of the prompt that was located last.
func (x *prefixIndex) record(now time.Duration, p *lb.Prefix, tag uint32) {
	tick := tickOf(now)
	x.place(x.blocks, tick)
	for i := range x.pages {
		blocks := x.blocksIn(i, x.blocks)
		x.change(&x.pages[i], func(old page) (page, bool) { return old.record(blocks, tag, tick) })
	}
}

// recordPrompt records that the endpoint has all blocks of the prompt.
func (x *prefixIndex) recordPrompt(now time.Duration, p *lb.Prefix, tag uint32) {
	x.locate(p)
	x.record(now, p, tag)
}

// blocksIn returns those of the prompt's blocks that are in pages[i].
func (x *prefixIndex) blocksIn(i int, blocks []prompt.Block) (in []prompt.Block) {
	for _, s := range x.spans {
		switch {
		case s.page != i:
		case in == nil: // most pages have one span
			in = blocks[s.from:s.to:s.to]
		default:
			in = append(in, blocks[s.from:s.to]...)
		}
	}
	return in
}

// place adds spans for the blocks that have no entry: each span goes into the page of the blocks before it, or into the
// own page of its first block.
func (x *prefixIndex) place(blocks []prompt.Block, tick uint16) {
	from := 0
	if n := len(x.spans); n > 0 {
		from = x.spans[n-1].to
	}
	for from < len(blocks) {
		to := min(from+spanLength(from), len(blocks))
		in := x.open(x.ownPage(blocks[from]))
		if n := len(x.spans); n > 0 {
			if before := x.spans[n-1].page; x.pages[before].preferred(blocks[from:to], &x.pages[in], tick) {
				in = before
			}
		}
		x.pages[in].added += to - from
		x.spans, from = append(x.spans, span{in, from, to}), to
	}
}

// preferred reports whether new blocks go into the page of the blocks before them, l, and not into their own one. They
// do while l has few entries, since one page is read at once. Otherwise they go into the page with fewer entries, or,
// of two full pages, into the one where the tenant's entries are older. No prompt fills more than half of a page at
// once in this way.
func (l *loadedPage) preferred(blocks []prompt.Block, own *loadedPage, tick uint16) bool {
	n, tenant := len(blocks), blocks[0].Tenant()
	here, there := len(l.page)/entrySize+l.added+n, len(own.page)/entrySize+own.added+n
	switch {
	case !l.ok || !own.ok:
		return l.ok
	case here <= maxEntries/4:
		return true
	case l.added+n > maxEntries/2:
		return false
	case here <= maxEntries || there <= maxEntries:
		return here < there
	}
	return l.page.turnover(tenant, tick) > own.page.turnover(tenant, tick)
}

// forget removes the record that the endpoint has more than the first n blocks of the prompt. It also finds entries
// behind a block without an entry, which locate does not: each is in the own page of one of the blocks. So it reads
// almost as many pages as there are blocks.
func (x *prefixIndex) forget(p *lb.Prefix, tag uint32, n int) {
	if n >= len(p.Blocks) {
		return
	}
	x.start(p)
	for _, b := range p.Blocks {
		x.open(x.ownPage(b))
	}
	if x.keys == nil {
		x.keys = keySet{}
	}
	x.keys.set(p.Blocks[n:])
	for i := range x.pages {
		x.change(&x.pages[i], func(old page) (page, bool) { return old.forget(x.keys, tag) })
	}
}

// change writes the page that edit returns, if edit has changed it. It tries three times in all; then the change is
// lost.
func (x *prefixIndex) change(l *loadedPage, edit func(page) (page, bool)) {
	const tries = 3
	for try := range tries {
		if try > 0 {
			x.load(l)
		}
		if !l.ok {
			return
		}
		p, changed := edit(l.page)
		if !changed || !errors.Is(x.kv.Set(pageKey(x.part, l.number), p, l.cas), lb.ErrMismatch) {
			return
		}
	}
}
