package main

import (
	"bytes"
	"slices"
	"testing"
)

// The module of these tests has the functions 0, which is called rarely, 1, and 2, whose body is looked at.
const (
	rare = iota
	often
	looked
)

func newTestOutliner() *outliner {
	one := signature{1, 1}
	module := &signatures{
		functions: []signature{one, one, one}, types: []signature{one}, stubs: map[int64][]instruction{},
	}
	return newOutliner(map[int64]bool{rare: true}, module, 3)
}

// pushed is a call as Go's compiler writes it, from region 5 of function 2.
func pushed(function byte) []byte {
	f := []byte{
		opLocalGet, 1, opI32Const, 8, opI32Sub, opLocalTee, 1, opGlobalSet, 0, opLocalGet, 1, opI64Const,
	}
	f = appendInt(f, (firstFunction+looked)<<numberBits|5)
	return append(f, opI64Store, 3, 0, opI32Const, 0, opCall, function)
}

// framed is a function that does something and then returns 1.
func framed(code ...[]byte) []byte {
	head := []byte{1, 4, 0x7e, opGlobalGet, 0, opLocalSet, 1, opBlock, void}
	return slices.Concat(head, slices.Concat(code...), []byte{opEnd, opI32Const, 1, opEnd})
}

func TestOutline(t *testing.T) {
	out := []byte{opBr, 0}
	store := func(at byte, value ...byte) []byte {
		return slices.Concat([]byte{opLocalGet, 1}, value, []byte{opI64Store, 3, at})
	}
	packed := []byte{opI32Const, 5<<2 | looked}
	call, set, drop := []byte{opCall, 3}, []byte{opGlobalGet, 0, opLocalSet, 1}, []byte{opDrop}
	short := func(number byte) []byte { return slices.Concat(packed, []byte{opCall, number}, out) }
	variable, constant := []byte{opLocalGet, 2}, []byte{opI64Const, 9}
	five := func() (code []byte) {
		for k := range byte(5) {
			code = append(code, store(8*k, variable...)...)
		}
		return code
	}
	for _, test := range []struct {
		name      string
		code, now []byte
		stubs     int
	}{
		{"no argument", slices.Concat(pushed(rare), out), short(3), 1},
		{"a function that is called often", slices.Concat(pushed(often), out), slices.Concat(pushed(often), out), 0},
		{"a call that returns", slices.Concat(pushed(rare), set, drop), slices.Concat(packed, call, set, drop), 1},
		{"the old stack pointer", slices.Concat(pushed(rare), drop), slices.Concat(pushed(rare), drop), 0},
		{
			"two arguments", slices.Concat(store(0, variable...), store(8, constant...), pushed(rare), out),
			slices.Concat(variable, constant, short(3)), 1,
		},
		{
			"what is no argument", slices.Concat(store(0, variable...), store(16, constant...), pushed(rare), out),
			slices.Concat(store(0, variable...), constant, short(3)), 1,
		},
		{
			"five arguments",
			slices.Concat(five(), pushed(rare), out),
			slices.Concat(store(0, variable...), bytes.Repeat(variable, 4), short(3)), 1,
		},
		{
			"two calls", slices.Concat(pushed(rare), out, store(8, variable...), pushed(rare), out, pushed(rare), out),
			slices.Concat(short(3), variable, short(4), short(3)), 2,
		},
	} {
		o := newTestOutliner()
		got, err := o.shorten(looked, framed(test.code))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if want := framed(test.now); !bytes.Equal(got, want) || len(o.code) != test.stubs {
			t.Errorf("%s: % x with %d stubs, not % x with %d", test.name, got, len(o.code), want, test.stubs)
		}
	}
}

// What is not as Go's compiler writes it stays as it is: here the stack pointer is not in its variable.
func TestShortenLeaves(t *testing.T) {
	for name, code := range map[string][]byte{
		"a block with a result":     {opBlock, 0x7f, opI32Const, 1, opEnd, opDrop, opNop},
		"an unknown stack pointer":  {opI32Const, 9, opGlobalSet, 0, opNop, opBlock, void, opEnd},
		"another in its variable":   {opI32Const, 9, opLocalSet, 1, opNop, opLoop, void, opEnd},
		"what grows the memory":     {opI32Const, 1, 0x40, 0, opDrop, opNop},
		"nothing on the stack":      {opDrop, opNop},
		"an unknown function's end": {opCall, 77, opDrop, opNop},
		"one global variable more":  {opI32Const, 9, opGlobalSet, maxGlobals, opNop},
		"dead code that takes what is around its block": {
			opLocalGet, 2, opBlock, void, opBr, 0, opDrop, opI64Const, 1, opBr, 0, opEnd, opNop, opDrop,
		},
	} {
		body := framed(code)
		if got, err := newTestOutliner().shorten(looked, body); err != nil || !bytes.Equal(got, body) {
			t.Errorf("%s: % x (%v), not % x", name, got, err, body)
		}
	}
}

// A function that does something else is not taken for the same: a changed number, offset or variable is noticed, in
// nearly all places, for each kind of instruction. Nearly all functions become shorter.
func TestEqualNotices(t *testing.T) {
	module := build(t)
	sections, err := sections(module)
	if err != nil {
		t.Fatal(err)
	}
	signatures, err := signaturesOf(sections)
	if err != nil {
		t.Fatal(err)
	}
	r, slots := read(t, module)
	first := uint64(len(signatures.functions) - len(r.bodies))
	o := newOutliner(numbersOf(r.functions, first, calledRarely), signatures, len(r.bodies))
	changed, missed := map[byte]int{}, map[byte]int{}
	var places, size, shorter, same int
	for i := range r.bodies {
		body, err := r.function(i, slots[i])
		if err != nil {
			t.Fatal(err)
		}
		short, err := o.shorten(first+uint64(i), body)
		if err != nil {
			t.Fatal(err)
		}
		if size, shorter = size+len(body), shorter+len(short); bytes.Equal(short, body) {
			same++
		}
		if len(body) > 1000 {
			continue
		}
		before := decode(t, body)
		for _, k := range decode(t, short) {
			at := operandAt(k)
			if at == 0 {
				continue
			}
			if places++; places%7 != 0 {
				continue
			}
			bad := bytes.Clone(short)
			bad[at] ^= 1
			changed[k.op]++
			if equal(before, decode(t, bad), 1, signatures) == nil {
				missed[k.op]++
			}
		}
	}
	if same*20 > len(r.bodies) || shorter*100 > size*80 {
		t.Errorf("%d functions of %d stay as they are, %d bytes of %d", same, len(r.bodies), shorter, size)
	}
	expectNoticed(t, changed, missed)
}

// operandAt returns where an instruction has what is changed, 0 for those that stay as they are.
func operandAt(i instruction) int {
	switch i.op {
	case opI32Const, opI64Const, opLocalGet, opLocalSet, opLocalTee, opGlobalGet, opGlobalSet, opBr, opBrIf:
		return i.at + 1
	case opI64Load, opI64Store:
		return i.at + 2
	}
	return 0
}

func expectNoticed(t *testing.T, changed, missed map[byte]int) {
	t.Helper()
	for op, n := range changed {
		if missed[op]*100 > n {
			t.Errorf("instruction %#x: %d of %d changes not noticed", op, missed[op], n)
		}
	}
	if len(changed) < 11 {
		t.Errorf("%d kinds of instructions were changed", len(changed))
	}
}

func decode(t *testing.T, body []byte) []instruction {
	t.Helper()
	all, err := instructions(body, codeStart(body))
	if err != nil {
		t.Fatal(err)
	}
	return all
}
