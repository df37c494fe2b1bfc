package main

// These instructions are told apart where the code between branches is rewritten.
const (
	opNop        = 0x01
	opDrop       = 0x1a
	opSelect     = 0x1b
	opFirstLoad  = 0x28
	opI32Load    = 0x28
	opI64Load    = 0x29
	opFirstStore = 0x36
	opLastStore  = 0x3e
	opI32Eqz     = 0x45
	opI64Eqz     = 0x50
	opI32Add     = 0x6a
	opI32Sub     = 0x6b
	opI32And     = 0x71
	opI32ShrU    = 0x76
	opI64Add     = 0x7c
	opI64Or      = 0x84
	opI64Shl     = 0x86
	opI32Wrap    = 0xa7
	opI64ExtendU = 0xad
)

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
	case op >= 0x8b && op <= 0x91, op >= 0x99 && op <= 0x9f: // of one floating-point number
		return 1, 1
	case op >= 0x92 && op <= 0x98, op >= 0xa0 && op <= 0xa6: // of two
		return 2, 1
	case op >= opI32Wrap && op <= 0xc4: // conversions
		return 1, 1
	case op == opSelect:
		return 3, 1
	}
	return -1, 0
}

// inverse returns the comparison of integers that holds when another one does not, 0 for what is none.
func inverse(op byte) byte {
	switch {
	case op >= 0x46 && op <= 0x4f: // of 32 bits
		return 0x46 + inverses[op-0x46]
	case op >= 0x51 && op <= 0x5a: // of 64 bits
		return 0x51 + inverses[op-0x51]
	}
	return 0
}

// inverses has the order of the comparisons: equal, not equal, less, greater, at most, at least, each of the last four
// with and without sign.
var inverses = [...]byte{1, 0, 8, 9, 6, 7, 4, 5, 2, 3}

// halves has, by instructions that load 64 bits, those that load their lower half.
var halves = map[byte]byte{
	opI64Load: opI32Load,
	0x30:      0x2c, // of 8 bits, with sign
	0x31:      0x2d, // and without
	0x32:      0x2e, // of 16 bits
	0x33:      0x2f,
	0x34:      opI32Load, // of 32 bits
	0x35:      opI32Load,
}
