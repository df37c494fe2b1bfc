package main

import (
	"encoding/binary"
	"math/bits"
)

// mostArguments is how many arguments a stub takes, of those that a function is called with.
const mostArguments = 4

// outliner writes calls of some functions in a shorter way: a call of a stub, which puts the arguments and the return
// address on the stack, and calls the function. Half of all calls are of functions that never return, behind checks
// that hardly ever fail: it is no loss that they take longer.
type outliner struct {
	rare   map[int64]bool // the functions
	shift  int            // program counters are packed: the function's number, and from this bit on the region's
	stubs  map[stub]int64
	list   []stub // in their order
	code   [][]byte
	module *signatures
}

// stub is what a stub is for.
type stub struct {
	function  int64 // that it calls
	first     int64 // where the first argument is in the frame
	arguments int   // of 8 bytes each
}

func newOutliner(rare map[int64]bool, module *signatures, functions int) *outliner {
	return &outliner{rare: rare, shift: bits.Len(uint(functions)), stubs: map[stub]int64{}, module: module}
}

// outline returns the body of a function with such calls written in the shorter way.
func (o *outliner) outline(body []byte, all []instruction) []byte {
	p := &parser{body: body, all: all}
	var out []byte
	copied := 0
	for at := 0; at < len(all); at++ {
		n, short := o.call(p, at)
		if n > 0 {
			out = append(append(out, body[copied:all[at].at]...), short...)
			at += n
			copied = p.offset(at)
			at--
		}
	}
	return append(out, body[copied:]...)
}

// call returns how many instructions make a call from one on, 0 if they make none, and the shorter way.
func (o *outliner) call(p *parser, at int) (n int, short []byte) {
	s := stub{}
	for p.isArgument(at + n) {
		offset := p.all[at+n+2].more
		if s.arguments == 0 {
			s.first = offset
		}
		if s.arguments == mostArguments || offset != s.first+8*int64(s.arguments) {
			return 0, nil
		}
		short = append(short, p.body[p.offset(at+n+1):p.offset(at+n+2)]...)
		s.arguments++
		n += 3
	}
	first := at + n
	if !p.is(first, opLocalGet, opI32Const, opI32Sub, opLocalTee, opGlobalSet, opLocalGet, opI64Const, opI64Store,
		opI32Const, opCall) || p.all[first].value != 1 || !o.rare[p.all[first+9].value] {
		return 0, nil
	}
	// The second local variable keeps the stack pointer as it was, so it must not be used before it is set.
	if !p.is(first+10, opBr) && !p.is(first+10, opGlobalGet, opLocalSet) {
		return 0, nil
	}
	pc := p.all[first+6].value
	function := pc>>numberBits - firstFunction
	if function < 0 || bits.Len64(uint64(function)) > o.shift {
		return 0, nil
	}
	s.function = p.all[first+9].value
	packed := int32(function | pc&(1<<numberBits-1)<<o.shift)
	short = appendInt(append(short, opI32Const), int64(packed))
	return n + 10, binary.AppendUvarint(append(short, opCall), uint64(o.stub(s)))
}

// isArgument reports whether a constant or a variable is put into the frame.
func (p *parser) isArgument(at int) bool {
	if p.is(at, opLocalGet, opI64Const, opI64Store) || p.is(at, opLocalGet, opLocalGet, opI64Store) {
		return p.all[at].value == 1
	}
	return false
}

// stub returns the number of a stub.
func (o *outliner) stub(s stub) int64 {
	if number, ok := o.stubs[s]; ok {
		return number
	}
	n := byte(s.arguments)
	f := []byte{0} // no variables but the arguments and the program counter
	for k := range n {
		f = append(f, opGlobalGet, 0, opLocalGet, k, opI64Store, 3)
		f = binary.AppendUvarint(f, uint64(s.first)+8*uint64(k))
	}
	f = append(f, opGlobalGet, 0, opI32Const, 8, opI32Sub, opGlobalSet, 0, opGlobalGet, 0)
	f = appendInt(append(f, opLocalGet, n, opI32Const), 1<<o.shift-1)
	f = appendInt(append(f, opI32And, opI32Const), firstFunction)
	f = append(f, opI32Add, opI64ExtendU, opI64Const, numberBits, opI64Shl)
	f = append(f, opLocalGet, n, opI32Const, byte(o.shift), opI32ShrU, opI64ExtendU, opI64Or, opI64Store, 3, 0)
	f = append(binary.AppendUvarint(append(f, opI32Const, 0, opCall), uint64(s.function)), opEnd)
	number := int64(len(o.module.functions))
	o.stubs[s] = number
	o.list, o.code = append(o.list, s), append(o.code, f)
	code, err := instructions(f, 1)
	if err != nil {
		panic(err) // it was written here
	}
	o.module.addStub(code[:len(code)-1], s.arguments+1)
	return number
}

// shorten returns the body of a function that takes less space, and an error if it would do something else. What is not
// clear stays as it is.
func (o *outliner) shorten(number uint64, body []byte) ([]byte, error) {
	before, err := instructions(body, codeStart(body))
	if err != nil {
		return nil, err
	}
	short := simplify(body, before)
	all, err := instructions(short, codeStart(short))
	if err != nil {
		return nil, err
	}
	short = o.outline(short, all)
	if all, err = instructions(short, codeStart(short)); err != nil {
		return nil, err
	}
	if err := equal(before, all, o.module.functions[number].results, o.module); err != nil {
		if err == errUnclear {
			return body, nil
		}
		return nil, err
	}
	return short, nil
}

// addStubs puts the stubs behind a module's other functions. One that only a function had that stays as it was is not
// called.
func (o *outliner) addStubs(all []section) {
	types, functions, code := find(all, sectionType), find(all, sectionFunction), find(all, sectionCode)
	first := uint64(len(o.module.types))
	const function, i32, i64 = 0x60, 0x7f, 0x7e
	for n := range byte(mostArguments + 1) {
		kind := []byte{function, n + 1}
		for range n {
			kind = append(kind, i64)
		}
		types.add(append(kind, i32, 1, i32))
	}
	for k, body := range o.code {
		functions.add(binary.AppendUvarint(nil, first+uint64(o.list[k].arguments)))
		code.add(appendBytes(nil, body))
	}
}
