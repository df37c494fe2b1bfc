package lb

import (
	"errors"
	"strconv"
	"time"
)

// prefixIndex remembers which endpoints have which prompts in their cache, for all workers of a gateway. The blocks of a prompt
// are kept in runs: those of one run are in one page, which the first of them names. So a prompt of many blocks needs few
// pages, and a conversation finds all its turns where the first ones are.
//
// It is a cache itself: pages are overwritten when they are full, and what a worker fails to write is lost.
type prefixIndex struct {
	kv   KV
	cuts []Run // of the prompt last looked for
	runs []kept
}

// kept is a run and its page.
type kept struct {
	Run
	key  string
	page page
	cas  uint32
	read bool
}

// holding is an endpoint, by the lower half of the hash of its address, and how many of a prompt's blocks it has.
type holding struct {
	endpoint uint32
	blocks   int
}

// Asks says whether a store has to look for the prompt: it has blocks and a length, and endpoints keep it for a while.
func (p *Prefix) Asks() bool {
	return len(p.Blocks) > 0 && p.Length > 0 && p.TTL >= time.Millisecond
}

// cut sets runs to those of the prompt.
func (x *prefixIndex) cut(p *Prefix) {
	x.cuts = AppendRuns(x.cuts[:0], p.Blocks, p.Room/pageMost)
	x.runs = x.runs[:0]
	for _, r := range x.cuts {
		x.runs = append(x.runs, kept{Run: r, key: "warmgate/1/prefix/" + strconv.Itoa(r.Slot)})
	}
}

// match returns who has how much of the prompt. An endpoint that has a block has all before it: it computed them to get there, and
// engines drop the ends of prompts first. The search ends at a run of which nothing is known.
func (x *prefixIndex) match(now time.Duration, p *Prefix) []holding {
	x.cut(p)
	var held []holding
	tick := tickOf(now)
	for i := range x.runs {
		if !x.load(&x.runs[i]) {
			break
		}
		known := false
		for k, b := range x.runs[i].Blocks {
			e := x.runs[i].page.find(b.Key)
			for h := range len(e) / entrySize * maxHolders {
				if endpoint, age := e.endpoint(h, tick); endpoint != 0 && age <= tickOf(p.keeps(endpoint)) {
					held, known = hold(held, endpoint, x.runs[i].From+k+1), true
				}
			}
		}
		if !known {
			break
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

// load reads the run's page. It returns false if that cannot be read.
func (x *prefixIndex) load(r *kept) bool {
	val, cas, err := x.kv.Get(r.key)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return false
	}
	r.page, r.cas, r.read = val, cas, true
	return true
}

// note remembers that the endpoint has the prompt for which match was called last.
func (x *prefixIndex) note(now time.Duration, endpoint uint32) {
	for i := range x.runs {
		r := &x.runs[i]
		x.change(r, func(p page) (page, bool) { return p.note(r.Blocks, endpoint, tickOf(now)) })
	}
}

// forget forgets that the endpoint has more than the first n blocks of the prompt.
func (x *prefixIndex) forget(p *Prefix, endpoint uint32, n int) {
	x.cut(p)
	for i := range x.runs {
		r := &x.runs[i]
		r.Blocks = r.Blocks[min(max(0, n-r.From), len(r.Blocks)):]
		if len(r.Blocks) == 0 {
			continue
		}
		x.change(r, func(p page) (page, bool) { return p.forget(r.Blocks, endpoint) })
	}
}

// change writes what edit makes of the run's page.
func (x *prefixIndex) change(r *kept, edit func(page) (page, bool)) {
	const tries = 3
	for range tries {
		if !r.read && !x.load(r) {
			return
		}
		r.read = false
		p, changed := edit(r.page)
		if !changed || !errors.Is(x.kv.Set(r.key, p, r.cas), ErrMismatch) {
			return
		}
	}
}
