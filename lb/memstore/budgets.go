package memstore

import (
	"slices"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb/budget"
)

// budgets is the section of a table that has the budgets of its endpoints. It is there since a plan with budgets came,
// until all of them are unused:
//
//	offset  size  header
//	0       4     magic, "WGB1"
//	4       4     length of the section in bytes
//	8       2     B, the number of states; fewer than rows if those at the end are unused
//	10      2     row that was served last, 0xffff for none
//	12      2     F, the number of refusals
//	14      2     T, the number of tasks
//
//	16            B states of 72 bytes, of the rows in their order: the numbers of a budget.State, float64
//	then          F refusals of 34 bytes: key 8, since 8, expires 8, tokens 8, row 2; all but key and row float64
//	then          T tasks: see task
type budgets struct {
	last     int // noRow for none
	states   []budget.State
	refusals budget.Refusals
	tasks    []task
}

const (
	budgetMagic   = 0x31424757 // "WGB1"
	budgetHeader  = 16
	stateSize     = 9 * 8
	refusalSize   = 34
	budgetLenAt   = 4
	budgetCountAt = 8
)

// hasBudgets reports whether t has the section.
func (t table) hasBudgets() bool {
	b := t[t.budgetAt():]
	return len(b) >= budgetHeader && wire.Uint32(b, 0) == budgetMagic
}

// budgetLen returns the length of the section, 0 if t has none.
func (t table) budgetLen() int {
	if !t.hasBudgets() {
		return 0
	}
	return int(wire.Uint32(t, t.budgetAt()+budgetLenAt))
}

// budgetsFit reports whether the parts of the section add up to its length and are in t.
func (t table) budgetsFit() bool {
	if !t.hasBudgets() {
		return true
	}
	b := t[t.budgetAt():]
	states, refusals := int(wire.Uint16(b, budgetCountAt)), int(wire.Uint16(b, budgetCountAt+4))
	size := budgetHeader + states*stateSize + refusals*refusalSize + int(wire.Uint16(b, budgetCountAt+6))*taskSize
	return t.budgetLen() == size && len(b) >= size && states <= t.rows()
}

// isUnbudgeted reports whether nothing is known of the budget of the row.
func (t table) isUnbudgeted(row int) bool {
	if !t.hasBudgets() || row >= int(wire.Uint16(t, t.budgetAt()+budgetCountAt)) {
		return true
	}
	state := t[t.budgetAt()+budgetHeader+row*stateSize:][:stateSize]
	return !slices.ContainsFunc(state, func(b byte) bool { return b != 0 })
}

// read makes b the section of t, in the memory of b.
func (b *budgets) read(t table) {
	*b = budgets{last: noRow, states: b.states[:0], refusals: b.refusals[:0], tasks: b.tasks[:0]}
	if !t.hasBudgets() {
		return
	}
	in := wire.NewReader([]byte(t[t.budgetAt()+budgetCountAt:]))
	states := in.Uint16()
	b.last = int(in.Uint16())
	refusals, tasks := in.Uint16(), in.Uint16()
	for range states {
		b.states = append(b.states, budget.State{
			At: in.Float64(), MissingTokens: in.Float64(), MissingRequests: in.Float64(), Deficit: in.Float64(),
			Closed: in.Float64(), TokenRate: in.Float64(), RequestRate: in.Float64(),
			TakenAt: in.Float64(), Interval: in.Float64(),
		})
	}
	for range refusals {
		b.refusals = append(b.refusals, budget.Refusal{
			Key: in.Uint64(), Since: in.Float64(), Expires: in.Float64(), Tokens: in.Float64(), Row: int(in.Uint16()),
		})
	}
	for range tasks {
		b.tasks = append(b.tasks, readTask(&in))
	}
}

// append appends the section to buf, nothing if there is nothing in it.
func (b *budgets) append(buf []byte) []byte {
	for len(b.states) > 0 && b.states[len(b.states)-1] == (budget.State{}) {
		b.states = b.states[:len(b.states)-1]
	}
	if len(b.states)+len(b.refusals)+len(b.tasks) == 0 {
		return buf
	}
	size := budgetHeader + len(b.states)*stateSize + len(b.refusals)*refusalSize + len(b.tasks)*taskSize
	w := wire.Writer(buf).Uint32(budgetMagic).Uint32(uint32(size)).Uint16(uint16(len(b.states))).Uint16(uint16(b.last))
	w = w.Uint16(uint16(len(b.refusals))).Uint16(uint16(len(b.tasks)))
	for i := range b.states {
		s := &b.states[i]
		w = w.Float64(s.At).Float64(s.MissingTokens).Float64(s.MissingRequests).Float64(s.Deficit).Float64(s.Closed).
			Float64(s.TokenRate).Float64(s.RequestRate).Float64(s.TakenAt).Float64(s.Interval)
	}
	for i := range b.refusals {
		r := &b.refusals[i]
		w = w.Uint64(r.Key).Float64(r.Since).Float64(r.Expires).Float64(r.Tokens).Uint16(uint16(r.Row))
	}
	for i := range b.tasks {
		w = b.tasks[i].append(w)
	}
	return w
}

// state returns the state of the row.
func (b *budgets) state(row int) *budget.State {
	for len(b.states) <= row {
		b.states = append(b.states, budget.State{})
	}
	return &b.states[row]
}
