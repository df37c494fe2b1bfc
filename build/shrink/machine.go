package main

import "errors"

// machine computes what a function does, with values that are terms: it collects what can be seen from outside.
type machine struct {
	*terms
	module  *signatures
	all     []instruction
	at      int
	moment  int // how many calls and beginnings of pieces there were
	stack   []term
	floor   int // how many values on the stack nothing takes: those around the innermost block
	locals  map[int64]term
	globals map[int64]term
	effects []node // stores, calls and the global variables before each, since the piece began
}

var errUnclear = errors.New("what the code does is not clear")

// local and global return the value of a variable. One that was not set here has that of the piece's beginning.
func (m *machine) local(n int64) term {
	v, ok := m.locals[n]
	if !ok {
		v = m.keep(node{op: opInput, value: n, more: int64(m.moment)})
		m.locals[n] = v
	}
	return v
}

func (m *machine) global(n int64) term {
	v, ok := m.globals[n]
	if !ok {
		v = m.keep(node{op: opInput, value: inputStack - n, more: int64(m.moment)})
		m.globals[n] = v
	}
	return v
}

// begin starts a piece of code, in which variables have any values: only the second local variable has that of the
// stack pointer, once the function has begun. Around the innermost block, floor values are on the stack.
func (m *machine) begin(floor int) {
	m.floor = floor
	m.moment++
	m.effects = m.effects[:0]
	clear(m.locals)
	clear(m.globals)
	if m.at > 0 {
		m.locals[1] = m.global(0)
	}
}

func (m *machine) pop(n int) ([]term, error) {
	if n > len(m.stack)-m.floor {
		return nil, errUnclear
	}
	values := m.stack[len(m.stack)-n:]
	m.stack = m.stack[:len(m.stack)-n]
	return values, nil
}

// run goes on up to an instruction after which code may go on elsewhere, or to the end.
func (m *machine) run() error {
	for ; m.at < len(m.all) && !isControl(m.all[m.at].op); m.at++ {
		if err := m.step(m.all[m.at]); err != nil {
			return err
		}
	}
	return nil
}

func isControl(op byte) bool {
	return op == opUnreachable || op >= opBlock && op <= opReturn
}

func (m *machine) step(i instruction) error {
	if (i.op == opGlobalGet || i.op == opGlobalSet) && i.value >= maxGlobals {
		return errUnclear
	}
	switch i.op {
	case opNop:
	case opLocalGet:
		m.push(m.local(i.value))
	case opGlobalGet:
		m.push(m.global(i.value))
	case opLocalSet, opLocalTee, opGlobalSet, opDrop:
		values, err := m.pop(1)
		if err != nil {
			return err
		}
		switch i.op {
		case opLocalTee:
			m.push(values[0])
			m.locals[i.value] = values[0]
		case opLocalSet:
			m.locals[i.value] = values[0]
		case opGlobalSet:
			m.globals[i.value] = values[0]
		}
	case opCall, opCallIndirect:
		return m.call(i)
	default:
		return m.compute(i)
	}
	return nil
}

func (m *machine) push(v term) { m.stack = append(m.stack, v) }

// compute takes values from the stack and leaves one there, or changes the memory.
func (m *machine) compute(i instruction) error {
	n := node{op: i.op, value: i.value, more: i.more}
	pops, pushes := effect(i.op)
	switch {
	case i.op == opMore && i.value <= 7: // conversions
		pops, pushes = 1, 1
	case i.op == opMore:
		pops, pushes = 3, 0
	}
	values, err := m.pop(max(pops, 0))
	if err != nil || pops < 0 {
		return errUnclear
	}
	for k, v := range values {
		*[]*term{&n.a, &n.b, &n.c}[k] = v
	}
	access := i.op >= opFirstLoad && i.op <= opLastStore
	if access {
		n.value = int64(len(m.effects)) // what is loaded depends on what was stored; how it is aligned does not matter
		n.a, n.more = m.address(n.a, i.more)
	}
	if pushes == 0 {
		m.effects = append(m.effects, n)
		return nil
	}
	if access {
		n.c = m.keep(node{op: opInput, more: int64(m.moment)})
	}
	m.push(m.of(n))
	return nil
}

// call does what a function is called for: anything to the memory and to global variables. A stub's code is run.
func (m *machine) call(i instruction) error {
	if code := m.module.stubs[i.value]; i.op == opCall && code != nil {
		return m.callStub(code, m.module.functions[i.value].params)
	}
	of, index, extra := m.module.functions, i.value, 0
	if i.op == opCallIndirect {
		of, extra = m.module.types, 1
	}
	if index >= int64(len(of)) {
		return errUnclear
	}
	values, err := m.pop(of[index].params + extra)
	if err != nil {
		return err
	}
	n := node{op: i.op, value: index, more: int64(m.moment)}
	for _, v := range values {
		n.a = m.keep(node{op: opList, a: n.a, b: v})
	}
	m.showGlobals()
	m.effects = append(m.effects, n)
	m.moment++
	clear(m.globals)
	for k := range of[index].results {
		m.push(m.keep(node{op: opResult, value: int64(k), more: int64(m.moment)}))
	}
	return nil
}

func (m *machine) callStub(code []instruction, params int) error {
	values, err := m.pop(params)
	if err != nil {
		return err
	}
	own := map[int64]term{}
	for k, v := range values {
		own[int64(k)] = v
	}
	locals := m.locals
	m.locals = own
	for _, i := range code {
		if err := m.step(i); err != nil {
			return err
		}
	}
	m.locals = locals
	return nil
}

// showGlobals notes the values of the global variables that were set.
func (m *machine) showGlobals() {
	for n := range int64(maxGlobals) {
		if v, ok := m.globals[n]; ok && v != m.keep(node{op: opInput, value: inputStack - n, more: int64(m.moment)}) {
			m.effects = append(m.effects, node{op: opGlobalSet, value: n, a: v})
		}
	}
}

// maxGlobals is how many global variables Go's modules have.
const maxGlobals = 8
