package memstore

import (
	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb/budget"
)

// budgets is the section of a table that has the budgets of its endpoints. It is there since a plan with budgets came,
// until all of them are unused:
//
//	offset  size  header
//	0       4     magic, "WGB2"
//	4       4     length of the section in bytes
//	8       2     B, the number of states; fewer than rows if those at the end are unused
//	10      2     row that was served last, 0xffff for none
//	12      2     F, the number of refusals
//	14      2     T, the number of tasks
//
//	16            B states of 88 bytes, of the rows in their order: the numbers of a budget.State, float64
//	then          F refusals of 34 bytes: key 8, since 8, expires 8, tokens 8, row 2; all but key and row float64
//	then          T tasks: see task
type budgets struct {
	last     int // noRow for none
	states   []byte
	refusals budget.Refusals
	tasks    tasks
}

const (
	budgetMagic   = 0x32424757 // "WGB2"
	budgetHeader  = 16
	stateSize     = 11 * 8
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
	return isZero(t[t.budgetAt()+budgetHeader+row*stateSize:][:stateSize])
}

func isZero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}

// read makes b the section of t. It keeps and changes the bytes of t.
func (b *budgets) read(t table) {
	*b = budgets{last: noRow, refusals: b.refusals[:0]}
	if !t.hasBudgets() {
		return
	}
	in := wire.NewReader([]byte(t[t.budgetAt()+budgetCountAt:]))
	states := int(in.Uint16())
	b.last = int(in.Uint16())
	refusals, tasks := int(in.Uint16()), int(in.Uint16())
	b.states = own(in.Take(states * stateSize))
	for range refusals {
		b.refusals = append(b.refusals, budget.Refusal{
			Key: in.Uint64(), Since: in.Float64(), Expires: in.Float64(), Tokens: in.Float64(), Row: int(in.Uint16()),
		})
	}
	b.tasks = own(in.Take(tasks * taskSize))
}

// own returns b so that what is appended does not overwrite what follows.
func own(b []byte) []byte { return b[:len(b):len(b)] }

// append appends the section to buf, nothing if there is nothing in it.
func (b *budgets) append(buf []byte) []byte {
	n := len(b.states)
	for n > 0 && isZero(b.states[n-stateSize:n]) {
		n -= stateSize
	}
	if n+len(b.refusals)+len(b.tasks) == 0 {
		return buf
	}
	size := budgetHeader + n + len(b.refusals)*refusalSize + len(b.tasks)
	w := wire.Writer(buf).Uint32(budgetMagic).Uint32(uint32(size)).Uint16(uint16(n / stateSize)).Uint16(uint16(b.last))
	w = w.Uint16(uint16(len(b.refusals))).Uint16(uint16(b.tasks.n()))
	w = append(w, b.states[:n]...)
	for i := range b.refusals {
		r := &b.refusals[i]
		w = w.Uint64(r.Key)
		for _, f := range [...]float64{r.Since, r.Expires, r.Tokens} {
			w = w.Float64(f)
		}
		w = w.Uint16(uint16(r.Row))
	}
	return append(w, b.tasks...)
}

// state returns the state of the row.
func (b *budgets) state(row int) (s budget.State) {
	if (row+1)*stateSize > len(b.states) {
		return s
	}
	at := b.states[row*stateSize:]
	for i, f := range fields(&s) {
		*f = wire.Float64(at, 8*i)
	}
	return s
}

// put sets the state of the row.
func (b *budgets) put(row int, s budget.State) {
	if n := (row + 1) * stateSize; n > len(b.states) {
		b.states = append(b.states, make([]byte, n-len(b.states))...)
	}
	at := b.states[row*stateSize:]
	for i, f := range fields(&s) {
		wire.PutFloat64(at, 8*i, *f)
	}
}

// fields returns the numbers of a state, as they follow each other.
func fields(s *budget.State) [stateSize / 8]*float64 {
	return [...]*float64{
		&s.At, &s.MissingTokens, &s.MissingRequests, &s.Deficit, &s.Closed,
		&s.TokenRate, &s.RequestRate, &s.TakenAt, &s.Interval, &s.Told, &s.Asks,
	}
}
