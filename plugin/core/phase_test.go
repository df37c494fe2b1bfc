package core

import "testing"

// Every phase is reached, and every one but the last is left; only a request that is not counted may end.
func TestTransitions(t *testing.T) {
	for from, row := range transitions {
		reached, left := from == int(phaseNew), from == int(phaseDone)
		for to, allowed := range row {
			reached = reached || transitions[to][from]
			left = left || allowed
			if allowed && phase(from) == phaseDone {
				t.Errorf("%s follows the end", phase(to))
			}
			if allowed && phase(to) == phaseDone && (phase(from) == phaseLeased || phase(from) == phaseReserving) {
				t.Errorf("a request may end while it is %s", phase(from))
			}
		}
		if !reached || !left {
			t.Errorf("%s: reached %v, left %v", phase(from), reached, left)
		}
	}
}
