package main

import "encoding/binary"

// These are told apart to simplify code.
const (
	opNop        = 0x01
	opSelect     = 0x1b
	opFirstLoad  = 0x28
	opFirstStore = 0x36
	opLastStore  = 0x3e
	opI32Eqz     = 0x45
	opI64Eqz     = 0x50
	opI32Add     = 0x6a
	opI64Add     = 0x7c
	opI32Wrap    = 0xa7
	opI64ExtendU = 0xad
)

// farthest bounds how far from the stack pointer an address is that is folded. Frames are smaller.
const farthest = 1 << 24

// simplifier writes the code of a function with fewer instructions, for one that keeps the stack pointer in its second
// local variable.
type simplifier struct {
	all   []instruction
	body  []byte
	add   map[int]int64 // what is added to the offsets of loads and stores
	out   []byte
	lines []line
}

// line is an instruction that was written, and where.
type line struct {
	op    byte
	value int64
	at    int
}

// simplify returns the body of a function of which it changes nothing but how values are computed.
func simplify(body []byte, all []instruction) []byte {
	p := &parser{all: all}
	if !p.is(0, opGlobalGet, opLocalSet) || all[0].value != 0 || all[1].value != 1 {
		return body
	}
	s := &simplifier{all: all, body: body, add: map[int]int64{}, out: body[:all[0].at:all[0].at]}
	for at := 0; at < len(all); at++ {
		if n := s.frameAddress(at); n > 0 {
			at += n - 1
			continue
		}
		s.write(at)
	}
	return s.out
}

// frameAddress writes an address in the function's frame, and returns how many instructions it consists of, 0 if there
// is none here. Go computes it with 64 bits. It is not beyond the memory's end, so the sum is one of 32 bits, which
// loads and stores compute themselves.
func (s *simplifier) frameAddress(at int) int {
	p := parser{all: s.all}
	if !p.is(at, opLocalGet, opI64ExtendU, opI64Const, opI64Add, opI32Wrap) || s.all[at].value != 1 {
		return 0
	}
	distance := s.all[at+2].value
	if distance < 0 || distance > farthest {
		return 0
	}
	s.emit(opLocalGet, 1)
	if user := s.user(at + 5); user > 0 {
		s.add[user] = distance
	} else {
		s.emit(opI32Const, distance)
		s.emit(opI32Add, 0)
	}
	return 5
}

// user returns the load or the store that uses the address that was computed before an instruction, 0 if something else
// does or may do so.
func (s *simplifier) user(at int) int {
	for above := 0; at < len(s.all); at++ { // values on the stack above the address
		op := s.all[at].op
		pops, pushes := effect(op)
		switch {
		case pops < 0:
			return 0
		case above >= pops:
			above += pushes - pops
		case above == pops-1 && op >= opFirstLoad && op <= opLastStore:
			return at
		default:
			return 0
		}
	}
	return 0
}

// effect returns how many values an instruction takes from the stack, and how many it leaves there. Where code may go
// on elsewhere, pops is -1.
func effect(op byte) (pops, pushes int) {
	switch {
	case op == opNop:
		return 0, 0
	case op >= opI32Const && op <= 0x44, op == opLocalGet, op == opGlobalGet:
		return 0, 1
	case op == opLocalTee:
		return 1, 1
	case op >= opFirstLoad && op < opFirstStore:
		return 1, 1
	case op >= opFirstStore && op <= opLastStore:
		return 2, 0
	case op == opI32Eqz, op == opI64Eqz:
		return 1, 1
	case op > opI32Eqz && op < 0x67: // comparisons
		return 2, 1
	case op >= 0x67 && op <= 0x69, op >= 0x79 && op <= 0x7b: // counting bits
		return 1, 1
	case op >= opI32Add && op <= 0x8a:
		return 2, 1
	case op >= opI32Wrap && op <= 0xc4: // conversions
		return 1, 1
	case op == opSelect:
		return 3, 1
	}
	return -1, 0
}

// emit writes an instruction without or with one operand.
func (s *simplifier) emit(op byte, value int64) {
	s.lines = append(s.lines, line{op, value, len(s.out)})
	s.out = append(s.out, op)
	switch operandsOf[op] {
	case number:
		s.out = binary.AppendUvarint(s.out, uint64(value))
	case signed:
		s.out = appendInt(s.out, value)
	}
}

// write copies an instruction, or changes what was written before so that it is not needed.
func (s *simplifier) write(at int) {
	i := s.all[at]
	switch {
	case i.op == opNop:
		return
	case i.op == opLocalGet && s.last(opLocalSet) && s.lines[len(s.lines)-1].value == i.value:
		s.undo()
		s.emit(opLocalTee, i.value)
		return
	case i.op == opI32Wrap && s.last(opI64ExtendU):
		s.undo()
		return
	case i.op == opI64Eqz && s.last(opI64ExtendU):
		s.undo()
		s.emit(opI32Eqz, 0)
		return
	}
	if (i.op == opIf || i.op == opBrIf) && s.last(opI32Eqz) && s.before(opI32Eqz) {
		s.undo()
		s.undo()
	}
	s.copy(at)
}

// copy writes an instruction as it was, but for the offset of loads and stores.
func (s *simplifier) copy(at int) {
	i := s.all[at]
	s.lines = append(s.lines, line{i.op, i.value, len(s.out)})
	if more := s.add[at]; more > 0 {
		s.out = append(s.out, i.op)
		s.out = binary.AppendUvarint(s.out, uint64(i.value))
		s.out = binary.AppendUvarint(s.out, uint64(i.more+more))
		return
	}
	end := len(s.body)
	if at+1 < len(s.all) {
		end = s.all[at+1].at
	}
	s.out = append(s.out, s.body[i.at:end]...)
}

// last and before report whether the last instruction and the one before it are these.
func (s *simplifier) last(op byte) bool {
	return len(s.lines) > 0 && s.lines[len(s.lines)-1].op == op
}

func (s *simplifier) before(op byte) bool {
	return len(s.lines) > 1 && s.lines[len(s.lines)-2].op == op
}

// undo takes the last instruction back.
func (s *simplifier) undo() {
	s.out = s.out[:s.lines[len(s.lines)-1].at]
	s.lines = s.lines[:len(s.lines)-1]
}
