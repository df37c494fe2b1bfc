package stats

import (
	"math"
	"testing"
)

// Tokens of models without a price are counted apart, and cost nothing.
func TestUnpriced(t *testing.T) {
	m := newShown()
	s := New(m)
	for range 3 {
		r := stream()
		r.Cost, r.Currency, r.Unpriced = 0, "", true
		s.Measured(r)
	}
	s.Flush()
	if n := m.counters[Unpriced+";model=qwen"]; n != 3*1100 || m.sum(Cost) != 0 {
		t.Errorf("%d tokens without a price, costs %d", n, m.sum(Cost))
	}
}

// Costs that are too large for a counter of one second do not become negative.
func TestCostsSaturate(t *testing.T) {
	m := newShown()
	s := New(m)
	for range 3 {
		r := stream()
		r.Cost = math.MaxInt64 - 1
		s.Measured(r)
	}
	s.Flush()
	if n := m.sum(Cost); n != math.MaxInt64 {
		t.Errorf("costs %d", n)
	}
}
