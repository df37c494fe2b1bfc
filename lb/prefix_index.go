package lb

import (
	"errors"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/lb/prompt"
)

// prefixIndex remembers which endpoints have which prompts in their cache, for all workers of a gateway. The blocks of a prompt
// are kept in runs: those of one run are in one page, which the first of them names. So a prompt of many blocks needs few
// pages, and a conversation finds all its turns where the first ones are.
//
// It is a cache itself: pages are overwritten when they are full, and what a worker fails to write is lost.
type prefixIndex struct {
	kv   KV
	runs []run // of the prompt last looked for
}

// RunEnd returns where the run that begins with a block ends: behind 2, 4, 8, 16 and 32 blocks, and then each 16. The first runs are
// short, because many conversations begin with the same prompt, and all that branch off within a run share its room; the longer
// ones behind them, which hold most of a prompt, are each prompt's own. Every store keeps blocks in these runs.
func RunEnd(from int) int { return from + min(max(2, from), 16) }

// run is a part of a prompt and its page.
type run struct {
	from   int // its first block's place in the prompt
	blocks []prompt.Block
	key    string
	page   page
	cas    uint32
	read   bool
}

// holding is an endpoint, by the lower half of the hash of its address, and how many of a prompt's blocks it has.
type holding struct {
	endpoint uint32
	blocks   int
}

// cut sets runs to those of the prompt.
func (x *prefixIndex) cut(p *Prefix) {
	x.runs = x.runs[:0]
	pages := max(1, p.Room/pageMost)
	for from := 0; from < len(p.Blocks); from = RunEnd(from) {
		at := int(p.Blocks[from].Key % uint64(pages))
		x.runs = append(x.runs, run{
			from: from, blocks: p.Blocks[from:min(RunEnd(from), len(p.Blocks))], key: "warmgate/1/prefix/" + strconv.Itoa(at),
		})
	}
}

// match returns who has how much of the prompt. An endpoint that has a block has all before it: it computed them to get there, and
// engines drop the ends of prompts first. The search ends at a run of which nothing is known.
func (x *prefixIndex) match(now time.Duration, p *Prefix) []holding {
	x.cut(p)
	var held []holding
	tick, oldest := tickOf(now), tickOf(p.TTL)
	for i := range x.runs {
		if !x.load(&x.runs[i]) {
			break
		}
		known := false
		for k, b := range x.runs[i].blocks {
			e := x.runs[i].page.find(b.Key)
			for h := range len(e) / entrySize * maxHolders {
				if endpoint, age := e.endpoint(h, tick); endpoint != 0 && age <= oldest {
					held, known = hold(held, endpoint, x.runs[i].from+k+1), true
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
func (x *prefixIndex) load(r *run) bool {
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
		x.change(r, func(p page) (page, bool) { return p.note(r.blocks, endpoint, tickOf(now)) })
	}
}

// forget forgets that the endpoint has more than the first n blocks of the prompt.
func (x *prefixIndex) forget(p *Prefix, endpoint uint32, n int) {
	x.cut(p)
	for i := range x.runs {
		r := &x.runs[i]
		r.blocks = r.blocks[min(max(0, n-r.from), len(r.blocks)):]
		if len(r.blocks) == 0 {
			continue
		}
		x.change(r, func(p page) (page, bool) {
			changed := false
			for _, b := range r.blocks {
				if e := p.find(b.Key); e != nil && e.drop(endpoint) {
					changed = true
				}
			}
			return p, changed
		})
	}
}

// change writes what edit makes of the run's page.
func (x *prefixIndex) change(r *run, edit func(page) (page, bool)) {
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
