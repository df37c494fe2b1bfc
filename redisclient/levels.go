package redisclient

import (
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// levelRow is how many bytes are answered for an address: a row of the table, and the numbers of a budget.State.
const levelRow = tableRow + 11*8

// Levels implements [lb.TaskStore], for 128 addresses at most. It does not make the caller an owner.
func (s *Store) Levels(now time.Duration, scope string, addrs []string, done func([]lb.BudgetLevel, error)) {
	if len(addrs) == 0 || len(addrs) > endpointsPerCommand {
		done(nil, lb.ErrNoRoom)
		return
	}
	keys, node := s.placeOf(scope)
	b := scriptLevels.command(nil, 3, len(addrs))
	for _, key := range []string{keys.Table, keys.Rows, keys.Budget} {
		b = appendArg(b, key)
	}
	for _, addr := range addrs {
		b = appendArg(b, addr)
	}
	s.owner.client.send(now, scriptLevels, node, b, false, func(_ time.Duration, v Value, err error) {
		if err == nil && (v.Kind != Bulk || len(v.Str) != 8+len(addrs)*levelRow) {
			err = ErrGarbage
		}
		if err != nil {
			done(nil, err)
			return
		}
		done(parseLevels(v.Str, len(addrs)), nil)
	})
}

// parseLevels reads the levels of n addresses, which must be complete.
func parseLevels(b []byte, n int) []lb.BudgetLevel {
	in := wire.NewReader(b)
	now, levels := in.Float64(), make([]lb.BudgetLevel, n)
	for i := range levels {
		l := parseLoad(in.Take(tableRow))
		s := budget.State{
			At: in.Float64(), MissingTokens: in.Float64(), MissingRequests: in.Float64(), Deficit: in.Float64(),
			Closed: in.Float64(), TokenRate: in.Float64(), RequestRate: in.Float64(), TakenAt: in.Float64(),
			Interval: in.Float64(), Told: in.Float64(), Asks: in.Float64(),
		}
		levels[i] = lb.BudgetLevel{Load: l, Budget: s.Look(now)}
	}
	return levels
}
