package main

// term is a value that a function computes, by its number in terms.
type term int

// node is how a value comes about: an instruction with its operands and the values that it takes.
type node struct {
	op          byte
	value, more int64
	a, b, c     term
}

// These stand in nodes for what no instruction computes.
const (
	opInput  = 0xf0 // a variable's value where a piece of code begins: more is the piece, value the variable
	opResult = 0xf1 // what a call returns
	opList   = 0xf2 // what a call takes
)

// inputStack stands for global variable 0, the stack pointer, where its value comes from elsewhere. The others are
// below it.
const inputStack = -1

// terms holds values, each once: equal values have one number, whichever way they were computed, as far as the rules
// here say so. These are the rules of arithmetic modulo 2^32, and one more: addresses in the frame are never beyond the
// memory's end, so that it does not matter which instruction adds to them. Where values cannot be computed at all, as
// in a division by zero or a load beyond the memory's end, is not compared.
type terms struct {
	ids   map[node]term
	nodes []node
}

func newTerms() *terms {
	return &terms{map[node]term{}, []node{{}}} // no value has the number 0
}

// of returns the value of a node.
func (t *terms) of(n node) term {
	switch n.op {
	case opI32Wrap:
		return t.wrap(n.a)
	case opI64Eqz:
		if a := t.nodes[n.a]; a.op == opI64ExtendU {
			return t.of(node{op: opI32Eqz, a: a.a})
		}
	case opI32Eqz:
		if a := t.nodes[n.a]; inverse(a.op) != 0 {
			a.op = inverse(a.op)
			return t.keep(a)
		}
	case opI32Sub:
		if b := t.nodes[n.b]; b.op == opI32Const {
			return t.add(n.a, -b.value)
		}
	case opI32Add:
		if b := t.nodes[n.b]; b.op == opI32Const {
			return t.add(n.a, b.value)
		}
	}
	if known, ok := t.constant(n); ok {
		return t.keep(known)
	}
	return t.keep(n)
}

// keep returns the number of a node to which no rule applies.
func (t *terms) keep(n node) term {
	id, ok := t.ids[n]
	if !ok {
		id = term(len(t.nodes))
		t.ids[n] = id
		t.nodes = append(t.nodes, n)
	}
	return id
}

// add returns a value of 32 bits and a constant.
func (t *terms) add(a term, value int64) term {
	switch n := t.nodes[a]; {
	case n.op == opI32Const:
		return t.keep(node{op: opI32Const, value: int64(int32(n.value + value))})
	case n.op == opI32Add && t.nodes[n.b].op == opI32Const:
		return t.add(n.a, t.nodes[n.b].value+value)
	case int32(value) == 0:
		return a
	}
	return t.keep(node{op: opI32Add, a: a, b: t.keep(node{op: opI32Const, value: int64(int32(value))})})
}

// wrap returns the lower half of a value of 64 bits.
func (t *terms) wrap(a term) term {
	n := t.nodes[a]
	switch n.op {
	case opI64ExtendU:
		return n.a
	case opI64Const:
		return t.keep(node{op: opI32Const, value: int64(int32(n.value))})
	case opI64Add:
		return t.of(node{op: opI32Add, a: t.wrap(n.a), b: t.wrap(n.b)})
	}
	if half, ok := halves[n.op]; ok {
		n.op = half
		return t.keep(n)
	}
	return t.keep(node{op: opI32Wrap, a: a})
}

// constant returns what a node amounts to that computes something from constants, for what stubs compute.
func (t *terms) constant(n node) (node, bool) {
	a, b := t.nodes[n.a], t.nodes[n.b]
	if a.op != opI32Const && a.op != opI64Const {
		return n, false
	}
	if n.op == opI64ExtendU {
		return node{op: opI64Const, value: int64(uint32(a.value))}, true
	}
	if a.op != b.op {
		return n, false
	}
	switch n.op {
	case opI32And:
		return node{op: opI32Const, value: int64(int32(a.value) & int32(b.value))}, true
	case opI32ShrU:
		return node{op: opI32Const, value: int64(int32(uint32(a.value) >> (b.value & 31)))}, true
	case opI64Or:
		return node{op: opI64Const, value: a.value | b.value}, true
	case opI64Shl:
		return node{op: opI64Const, value: a.value << (b.value & 63)}, true
	}
	return n, false
}

// address returns the value to which a load or a store adds a constant, and that.
func (t *terms) address(a term, offset int64) (term, int64) {
	n := t.nodes[a]
	if n.op == opI32Add && t.nodes[n.b].op == opI32Const && t.isFrame(n.a) {
		return n.a, offset + t.nodes[n.b].value
	}
	return a, offset
}

// isFrame reports whether a value is the stack pointer, as it is at the beginning of some code.
func (t *terms) isFrame(a term) bool {
	return t.nodes[a].op == opInput && t.nodes[a].value == inputStack
}

// condition returns the value that decides about a branch as this one does.
func (t *terms) condition(a term) term {
	for n := t.nodes[a]; n.op == opI32Eqz && t.nodes[n.a].op == opI32Eqz; n = t.nodes[a] {
		a = t.nodes[n.a].a
	}
	return a
}
