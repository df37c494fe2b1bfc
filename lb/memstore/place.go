package memstore

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/queue"
)

// placer decides where requests and tasks go. It knows no more of a table than its draft, which it changes.
type placer struct {
	self *presence

	loads   []lb.Load     // of the candidates: see readLoads
	entries []queue.Entry // memory for those of a plan
	hashes  []uint64      // memory for scope.locate
	matched []int         // memory for matchedBlocks
}

// place chooses an endpoint and counts the request there; or puts it into the queue.
func (pl *placer) place(now time.Duration, d *draft, r *reservation) (err error) {
	sc, p := r.scope, r.plan
	// An earlier try may have set these.
	r.waits, r.refused, r.grant, r.expected = false, nil, lb.Grant{}, 0
	if d.table, err = sc.locate(d.table, p.List, &pl.hashes); err != nil {
		return err
	}
	if p.HasBudget() {
		d.expireTasks(now)
	}
	if pl.replace(d, r); r.refused != nil {
		return nil
	}
	pl.readLoads(d, sc)
	if p.HasBudget() && p.Wait.Waits() && d.queue != nil && d.queue.Waiting() > 0 {
		return pl.enqueue(now, d, r, nil)
	} else if p.HasBudget() {
		return pl.placeByBudget(now, d, r)
	}
	matched := pl.matchedBlocks(sc, d.table, r.matches)
	if p.Wait.Waits() && (d.queue != nil && d.queue.Waiting() > 0 || pl.isPatient(r, matched)) {
		return pl.enqueue(now, d, r, matched)
	}
	choice := lb.Decide(p, pl.loads, matched)
	i := choice.Index
	if i == lb.Full {
		if p.Wait.Waits() {
			return pl.enqueue(now, d, r, matched)
		}
		return lb.ErrFull
	}
	r.grant = lb.Grant{Index: i, Why: choice.Why}
	if matched != nil {
		r.grant.Cached = matched[i]
	}
	r.row, r.tokens = sc.rows[i], p.AddedTokens(r.grant.Cached)
	r.grant.Load = lb.Load{Requests: pl.loads[i].Requests + 1, Tokens: pl.loads[i].Tokens + r.tokens}
	d.take(step{from: noRow, to: r.row, toTokens: r.tokens})
	return nil
}

// readLoads sets pl.loads to those of the candidates.
func (pl *placer) readLoads(d *draft, sc *scope) {
	pl.loads = slices.Grow(pl.loads[:0], len(sc.rows))[:len(sc.rows)]
	rows := d.table[d.rowsAt():]
	for i, row := range sc.rows {
		pl.loads[i] = loadAt(rows, row)
	}
}

// matchedBlocks returns how many leading blocks of the prompt each candidate matches, nil if none matches any.
func (pl *placer) matchedBlocks(sc *scope, t table, matches []Match) []int {
	if len(matches) == 0 {
		return nil
	}
	pl.matched = pl.matched[:0]
	hashes := t[t.hashesAt():]
	for _, row := range sc.rows {
		n, tag := 0, wire.Uint32(hashes, row*hashSize) // the lower half of a hash: lb.EndpointTag
		for _, m := range matches {
			if m.Tag == tag {
				n = m.Blocks
			}
		}
		pl.matched = append(pl.matched, n)
	}
	return pl.matched
}
