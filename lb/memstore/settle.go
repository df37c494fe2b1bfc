package memstore

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// Settle implements [lb.Store].
func (s *Store) Settle(now time.Duration, id lb.LeaseID, addr string, tokens, requests int64) {
	l := s.requests.leases[id]
	if !l.charged || tokens == 0 && requests == 0 {
		return
	}
	c, sc := correction{lb.EndpointHash(addr), float64(tokens), float64(requests)}, l.scope
	if requests <= 0 && s.ledger.defers(sc) && len(sc.corrections) < maxPending {
		sc.corrections = append(sc.corrections, c)
		return
	}
	made, err := s.changeBudget(now, sc, func(d *draft) bool { return d.correct(now, c) })
	switch {
	case err != nil && len(sc.corrections) < maxPending: // the next swap tries again
		sc.corrections = append(sc.corrections, c)
	case requests > 0 && !made: // no budget was charged, so none is to be corrected later
		s.requests.uncharge(id)
	}
}

// Restrict implements [lb.Store].
func (s *Store) Restrict(now time.Duration, scope, addr string, r budget.Restriction) {
	sc, _ := s.ledger.budgeted(tableName(scope, addr))
	if sc == nil {
		return
	}
	hash := lb.EndpointHash(addr)
	_, _ = s.changeBudget(now, sc, func(d *draft) bool { // if it fails, the next answer says the same again
		return d.changeState(d.find(hash), func(s *budget.State) { s.Restrict(millis(now), &r) })
	})
}

// changeBudget writes the table if change reports that it has changed a budget, and returns that.
func (s *Store) changeBudget(now time.Duration, sc *scope, change func(*draft) bool) (changed bool, err error) {
	err = s.ledger.swap(now, sc, func(d *draft) error {
		if changed = change(d); !changed {
			return errUnchanged
		}
		return nil
	})
	s.requests.answer(now)
	return changed, err
}

// NoteServed implements [lb.Store].
func (s *Store) NoteServed(id lb.LeaseID, tokens int64) {
	if l, ok := s.requests.leases[id]; ok && l.turn.tokens > 0 {
		l.turn.corrected = min(max(tokens, 0), lb.MaxTokens) - l.turn.tokens
		s.requests.leases[id] = l
	}
}
