package main

import "fmt"

// The instructions that are told apart here; all others are copied.
const (
	opUnreachable  = 0x00
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opLocalGet     = 0x20
	opLocalSet     = 0x21
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opI64Store     = 0x37
	opI32Const     = 0x41
	opI64Const     = 0x42

	void = 0x40 // the type of a block that leaves nothing on the stack

	opMore             = 0xfc // its kind follows
	moreCopy, moreFill = 10, 11
)

// operands says what follows an instruction.
type operands byte

const (
	unknown operands = iota
	nothing
	blockType
	number       // one number without sign
	twoNumbers   // two of them
	signed       // a number with sign
	fourBytes    // a float32
	eightBytes   // a float64
	numberList   // a list of numbers, and one more
	moreOperands // the number of an instruction that has two, and its operands
)

// operandsOf has what Go's compiler writes; unknown are those that it does not write.
var operandsOf = func() (all [256]operands) {
	set := func(first, last byte, o operands) {
		for op := int(first); op <= int(last); op++ {
			all[op] = o
		}
	}
	set(opUnreachable, 0x01, nothing)
	set(opBlock, opIf, blockType)
	set(opElse, opElse, nothing)
	set(opEnd, opEnd, nothing)
	set(opBr, opBrIf, number)
	set(opBrTable, opBrTable, numberList)
	set(opReturn, opReturn, nothing)
	set(opCall, opCall, number)
	set(opCallIndirect, opCallIndirect, twoNumbers)
	set(0x1a, 0x1b, nothing) // drop, select
	set(opLocalGet, opGlobalSet, number)
	set(0x28, 0x3e, twoNumbers) // loads and stores
	set(0x3f, 0x40, number)     // memory.size, memory.grow
	set(opI32Const, opI64Const, signed)
	set(0x43, 0x43, fourBytes)
	set(0x44, 0x44, eightBytes)
	set(0x45, 0xc4, nothing) // arithmetic
	set(opMore, opMore, moreOperands)
	return all
}()

// instruction is one of a function, and where it is in the function's body.
type instruction struct {
	op    byte
	value int64 // the first operand
	more  int64 // the second one
	list  []int // of br_table, the last one for all other numbers
	at    int
}

// instructions decodes the code of a function, from an offset in its body to the end.
func instructions(body []byte, at int) ([]instruction, error) {
	r := reader{rest: body[at:]}
	all := make([]instruction, 0, len(r.rest)/2)
	for len(r.rest) > 0 && !r.failed {
		i := instruction{at: len(body) - len(r.rest)}
		i.op = r.byte()
		switch operandsOf[i.op] {
		case nothing:
		case blockType:
			i.value = int64(r.byte())
		case number:
			i.value = int64(r.uint())
		case twoNumbers:
			i.value = int64(r.uint())
			i.more = int64(r.uint())
		case signed:
			i.value = r.int()
		case fourBytes:
			i.value = int64(fixed(r.bytes(4), 0, 4))
		case eightBytes:
			i.value = int64(fixed(r.bytes(8), 0, 8))
		case numberList:
			for n := r.uint() + 1; n > 0 && !r.failed; n-- {
				i.list = append(i.list, int(r.uint()))
			}
		case moreOperands:
			i.value = r.more()
		default:
			return nil, fmt.Errorf("instruction %#x is not known", i.op)
		}
		all = append(all, i)
	}
	return all, r.err()
}

// more reads what follows 0xfc: the saturating conversions, memory.copy and memory.fill. It returns which it is.
func (r *reader) more() int64 {
	kind := r.uint()
	switch {
	case kind <= 7:
	case kind == moreCopy:
		r.bytes(2)
	case kind == moreFill:
		r.bytes(1)
	default:
		r.failed = true
	}
	return int64(kind)
}

// codeStart returns where the instructions of a function begin, behind its local variables.
func codeStart(body []byte) int {
	r := reader{rest: body}
	for n := r.uint(); n > 0 && !r.failed; n-- {
		r.uint()
		r.byte()
	}
	return len(body) - len(r.rest)
}
