package memstore

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// Trial is what would become of a plan that is reserved now.
type Trial struct {
	Grant   lb.Grant
	Err     error     // why there is no grant; nil also for one that waits
	Waits   bool      // it would wait in the queue
	Loads   []lb.Load // of the candidates, over all owners
	Matched []int     // leading blocks of the prompt that each one has, nil if none has any
}

// tried is the id of a plan that is only tried. Those of leases begin with 1.
const tried lb.LeaseID = 0

// Try returns what [Store.Reserve] would answer now. It makes the same step on a copy of the table, which it drops: so
// nothing is counted, charged or recorded, and nobody waits.
func (s *Store) Try(now time.Duration, p *lb.Plan) (t Trial) {
	if p.HasNowhere() {
		return Trial{Err: lb.ErrFull}
	}
	name := tableFor(p)
	counts, err := s.ledger.lookup(name)
	if err != nil {
		return Trial{Err: err}
	}
	if counts == nil {
		counts = newTable(name)
	}
	r := reservation{id: tried, plan: p, scope: &scope{name: name, slot: -1}}
	if known := s.ledger.scopes[name]; known != nil {
		r.scope.waiters = known.waiters // who else may be granted something
	}
	if p.Prefix.NeedsLookup() {
		r.matches = s.prefixes.find(now, &p.Prefix)
	}
	d := newDraft(s.kv, s.self.owner)
	d.open(now, r.scope, counts)
	pl := placer{self: &presence{owner: s.self.owner, index: -1}} // which has no life to show
	t.Err = pl.place(now, &d, &r)
	if r.refused != nil {
		t.Err = r.refused
	}
	t.Grant, t.Waits = r.grant, r.waits
	t.Loads, t.Matched = pl.loads, pl.matchedBlocks(r.scope, d.table, r.matches)
	if t.Err != nil {
		t.Grant.Expected, t.Waits = r.expected, false
	}
	for _, c := range d.claims {
		if c.id == tried { // its turn came at once
			t.Waits, t.Grant = false, lb.Grant{Index: slices.Index(r.scope.rows, c.row), Load: d.loadOf(c.row)}
		}
	}
	return t
}
