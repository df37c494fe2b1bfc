package memstore

import (
	"time"

	"github.com/warmgate/warmgate/lb"
)

// Levels implements [lb.TaskStore].
func (s *Store) Levels(now time.Duration, scope string, addrs []string, done func([]lb.BudgetLevel, error)) {
	t, err := s.ledger.lookup(scope)
	if err != nil {
		done(nil, err)
		return
	}
	levels := make([]lb.BudgetLevel, len(addrs))
	var b budgets
	if t != nil {
		b.read(t)
	}
	for i, addr := range addrs {
		row := noRow
		if t != nil {
			row = t.find(lb.EndpointHash(addr))
		}
		if row != noRow {
			levels[i] = lb.BudgetLevel{Load: t.loadOf(row), Budget: b.state(row)}
		}
		levels[i].Budget = levels[i].Budget.Look(millis(now))
	}
	done(levels, nil)
}
