package memstore

import (
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/queue"
)

// locate sets rows to the row of each candidate, and returns the table with rows for those that had none. scratch is
// memory to reuse.
func (sc *scope) locate(t table, l lb.List, scratch *[]uint64) (table, error) {
	cs := l.Candidates
	if len(cs) == 0 { // as sc.located is where nothing is known, whatever the rows are
		sc.rows, sc.listKey, sc.located = sc.rows[:0], 0, l
		return t, nil
	}
	if sc.rowsGeneration == t.generation() && sameEndpoints(&sc.located, &l) {
		sc.located = l
		return t, nil
	}
	if len(cs) == 1 {
		return sc.locateOne(t, l)
	}
	hashes := (*scratch)[:0]
	for i := range cs {
		hashes = append(hashes, lb.EndpointHash(cs[i].Addr))
	}
	*scratch = hashes
	at := make(map[uint64]int, t.rows())
	for i := range t.rows() {
		at[t.hash(i)] = i
	}
	for _, h := range hashes {
		if _, ok := at[h]; ok {
			continue
		}
		var err error
		if t, err = t.withRows(hashes); err != nil {
			return nil, err
		}
		for i := range t.rows() {
			at[t.hash(i)] = i
		}
		break
	}
	sc.rows, sc.listKey = sc.rows[:0], 0
	for _, h := range hashes {
		sc.rows = append(sc.rows, at[h])
		sc.listKey += uint32(h>>32) * uint32(h|1) // the order does not matter
	}
	sc.located, sc.rowsGeneration = l, t.generation()
	return t, nil
}

// locateOne is locate for one candidate, without an index of all rows.
func (sc *scope) locateOne(t table, l lb.List) (table, error) {
	t, row, err := rowOf(t, l.Candidates[0].Addr)
	if err != nil {
		return nil, err
	}
	h := t.hash(row)
	sc.rows, sc.listKey = append(sc.rows[:0], row), uint32(h>>32)*uint32(h|1)
	sc.located, sc.rowsGeneration = l, t.generation()
	return t, nil
}

// sameEndpoints reports whether two lists have the same endpoints in the same order. All else may differ.
func sameEndpoints(a, b *lb.List) bool {
	if len(a.Candidates) != len(b.Candidates) {
		return false
	}
	if a.Digest() == b.Digest() {
		return true
	}
	for i := range a.Candidates {
		if a.Candidates[i].Addr != b.Candidates[i].Addr {
			return false
		}
	}
	return true
}

// keepHashes keeps the hashes of the table's rows.
func (sc *scope) keepHashes(t table) {
	sc.hashes = sc.hashes[:0]
	for i := range t.rows() {
		sc.hashes = append(sc.hashes, t.hash(i))
	}
	sc.hashesGeneration = t.generation()
}

// rowOf returns the row of the endpoint, and the table with a row for it.
func rowOf(t table, addr string) (table, int, error) {
	h := lb.EndpointHash(addr)
	if row := t.find(h); row != noRow {
		return t, row, nil
	}
	t, err := t.withRows([]uint64{h})
	if err != nil {
		return nil, noRow, err
	}
	return t, t.find(h), nil
}

// list returns the number of the list of the plan's endpoints in the queue, false if there are too many.
func (sc *scope) list(q *queue.Queue, p *lb.Plan) (number int, ok bool) {
	key := sc.listKey ^ p.Wait.Limits
	if p.HasBudget() {
		key = ^key
	}
	if number, ok = q.List(key, sc.entries(nil, p)); ok && p.HasBudget() {
		q.SetBudgets(number, p.Budget.AgeBonus)
	}
	return number, ok
}

// entries appends the endpoints of the plan.
func (sc *scope) entries(entries []queue.Entry, p *lb.Plan) []queue.Entry {
	for i := range p.Candidates {
		c := &p.Candidates[i]
		e := queue.Entry{Row: sc.rows[i], Cap: c.Cap, TokenCap: c.TokenCap}
		if p.HasBudget() {
			e.Limits = p.Budget.Limits[i]
		}
		entries = append(entries, e)
	}
	return entries
}
