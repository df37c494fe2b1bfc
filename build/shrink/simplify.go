package main

import "encoding/binary"

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

// simplify returns the body of a function of which it changes nothing but how values are computed and kept.
func simplify(body []byte, all []instruction) []byte {
	p := &parser{all: all}
	if !p.is(0, opGlobalGet, opLocalSet) || all[0].value != 0 || all[1].value != 1 {
		return body
	}
	s := &simplifier{all: all, body: body, add: map[int]int64{}, out: body[:all[0].at:all[0].at]}
	for at := 0; at < len(all); at++ {
		n := s.frameAddress(at)
		if n == 0 {
			n = s.frameEnd(at)
		}
		if n == 0 {
			n = 1
			s.write(at)
		}
		at += n - 1
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

// frameEnd writes what leaves the function's frame, and returns how many instructions that was, 0 if it is not left
// here. Go counts the stack pointer up twice, and keeps in the second local variable what nobody uses any more.
func (s *simplifier) frameEnd(at int) int {
	p := parser{all: s.all}
	if p.is(at, opGlobalGet, opLocalSet, opReturn) && s.all[at].value == 0 {
		return 2
	}
	pop := []byte{opLocalGet, opI32Const, opI32Add, opLocalTee, opGlobalSet}
	if !p.is(at, pop...) || s.all[at].value != 1 || s.all[at+3].value != 1 || s.all[at+4].value != 0 {
		return 0
	}
	n, size := len(pop), s.all[at+1].value
	if p.is(at+n, pop...) && s.all[at+n].value == 1 && s.all[at+n+3].value == 1 && s.all[at+n+4].value == 0 {
		size += s.all[at+n+1].value
		n *= 2
	}
	if !p.is(at+n, opI32Const, opReturn) && !p.is(at+n, opI32Const, opCall, opGlobalGet, opLocalSet, opReturn) {
		return 0
	}
	s.emit(opLocalGet, 1)
	s.emit(opI32Const, size)
	s.emit(opI32Add, 0)
	s.emit(opGlobalSet, 0)
	return n
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
	case (i.op == opLocalSet || i.op == opLocalTee) && s.last(opLocalGet) && s.lines[len(s.lines)-1].value == i.value:
		if i.op == opLocalSet {
			s.undo()
		}
		return
	case i.op == opLocalSet && s.last(opLocalTee) && s.lines[len(s.lines)-1].value == i.value:
		s.undo()
	case i.op == opI32Wrap && s.last(opI64ExtendU):
		s.undo()
		return
	case i.op == opI32Wrap && s.half():
		return
	case i.op == opI32Eqz && len(s.lines) > 0 && inverse(s.lines[len(s.lines)-1].op) != 0:
		s.replace(inverse(s.lines[len(s.lines)-1].op))
		return
	case i.op == opI64Eqz && s.last(opI64ExtendU):
		s.undo()
		s.emit(opI32Eqz, 0)
		return
	}
	p := parser{all: s.all}
	if (i.op == opIf || i.op == opBrIf || p.is(at, opI32Const, opLocalSet, opBrIf)) && s.last(opI32Eqz) &&
		s.before(opI32Eqz) {
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

// half reports whether the last instruction loads 64 bits, or is a number of 64 bits, and has it do so with the lower
// half.
func (s *simplifier) half() bool {
	if len(s.lines) == 0 {
		return false
	}
	line := s.lines[len(s.lines)-1]
	if half, ok := halves[line.op]; ok {
		s.replace(half)
		s.out[line.at+1] = min(s.out[line.at+1], 2) // how the place is aligned
		return true
	}
	if line.op == opI64Const {
		s.undo()
		s.emit(opI32Const, int64(int32(line.value)))
		return true
	}
	return false
}

// replace puts another instruction in place of the last one.
func (s *simplifier) replace(op byte) {
	line := &s.lines[len(s.lines)-1]
	line.op, s.out[line.at] = op, op
}

// undo takes the last instruction back.
func (s *simplifier) undo() {
	s.out = s.out[:s.lines[len(s.lines)-1].at]
	s.lines = s.lines[:len(s.lines)-1]
}
