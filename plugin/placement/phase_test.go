package placement

import "testing"

// Every phase is reached, and every one but the last is left; only a request that is not counted may end.
func TestTransitions(t *testing.T) {
	for from, row := range transitions {
		reached, left := from == int(PhaseNew), from == int(PhaseDone)
		for to, allowed := range row {
			reached = reached || transitions[to][from]
			left = left || allowed
			if allowed && Phase(from) == PhaseDone {
				t.Errorf("%s follows the end", Phase(to))
			}
			if allowed && Phase(to) == PhaseDone && (Phase(from) == PhaseLeased || Phase(from) == PhaseReserving) {
				t.Errorf("a request may end while it is %s", Phase(from))
			}
		}
		if !reached || !left {
			t.Errorf("%s: reached %v, left %v", Phase(from), reached, left)
		}
	}
}
