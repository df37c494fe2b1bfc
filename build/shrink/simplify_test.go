package main

import (
	"bytes"
	"slices"
	"testing"
)

// What is computed stays the same, by fewer instructions.
func TestSimplify(t *testing.T) {
	const get, set = opLocalGet, opLocalSet
	frame := func(distance ...byte) []byte { // an address in the frame
		return append(append([]byte{get, 1, opI64ExtendU, opI64Const}, distance...), opI64Add, opI32Wrap)
	}
	join := func(parts ...[]byte) []byte { return slices.Concat(parts...) }
	notNot := func(not ...byte) []byte { return join([]byte{get, 2}, not, []byte{opI32Const, 4, set, 0, opBrIf, 0}) }
	for _, test := range []struct {
		name      string
		code, now []byte
	}{
		{"a load", join(frame(8), []byte{0x29, 3, 16}), []byte{get, 1, 0x29, 3, 24}},
		{
			"a store", join(frame(8), []byte{get, 2, opI64Const, 1, opI64Add, opI64Store, 3, 120}),
			[]byte{get, 1, get, 2, opI64Const, 1, opI64Add, opI64Store, 3, 0x80, 1},
		},
		{
			"a store of what is loaded", join(frame(8), frame(16), []byte{0x29, 3, 0, opI64Store, 3, 0}),
			[]byte{get, 1, get, 1, 0x29, 3, 16, opI64Store, 3, 8},
		},
		{"an address", join(frame(8), []byte{set, 2}), []byte{get, 1, opI32Const, 8, opI32Add, set, 2}},
		{
			"a store behind a call", join(frame(8), []byte{opCall, 7, opI64Store, 3, 0}),
			[]byte{get, 1, opI32Const, 8, opI32Add, opCall, 7, opI64Store, 3, 0},
		},
		{"below the frame", join(frame(0x78), []byte{0x29, 3, 0}), join(frame(0x78), []byte{0x29, 3, 0})},
		{"a number made long and short", []byte{get, 2, opI64ExtendU, opI32Wrap}, []byte{get, 2}},
		{"compared with zero", []byte{get, 2, opI64ExtendU, opI64Eqz}, []byte{get, 2, opI32Eqz}},
		{"not not", []byte{get, 2, opI32Eqz, opI32Eqz, opBrIf, 0}, []byte{get, 2, opBrIf, 0}},
		{"not not, as a number", []byte{opI32Eqz, opI32Eqz, set, 2}, []byte{opI32Eqz, opI32Eqz, set, 2}},
		{"kept and used", []byte{set, 2, get, 2}, []byte{opLocalTee, 2}},
		{"kept, another used", []byte{set, 2, get, 3}, []byte{set, 2, get, 3}},
		{"kept twice", []byte{get, 3, set, 2, get, 2, set, 2}, []byte{get, 3, set, 2}},
		{"kept where it is", []byte{get, 2, set, 2, get, 3, opLocalTee, 3}, []byte{get, 3}},
		{"half of what is loaded", []byte{get, 2, 0x29, 3, 8, opI32Wrap}, []byte{get, 2, 0x28, 2, 8}},
		{"half of a byte", []byte{get, 2, 0x31, 0, 8, opI32Wrap}, []byte{get, 2, 0x2d, 0, 8}},
		{"half of a number", []byte{opI64Const, 9, opI32Wrap}, []byte{opI32Const, 9}},
		{"not not, through the table", notNot(opI32Eqz, opI32Eqz), notNot()},
		{"not less", []byte{0x53, opI32Eqz}, []byte{0x59}},
		{"not more, without sign", []byte{0x4b, opI32Eqz}, []byte{0x4d}},
		{"nothing", []byte{opNop, set, 2, opNop}, []byte{set, 2}},
	} {
		expectSimplified(t, test.name, test.code, test.now)
	}
	other := join([]byte{0, opGlobalGet, 1, set, 1}, frame(8), []byte{0x29, 3, 16, opEnd})
	all, err := instructions(other, codeStart(other))
	if err != nil {
		t.Fatal(err)
	}
	if got := simplify(other, all); !bytes.Equal(got, other) {
		t.Errorf("a function without the stack pointer was changed: % x", got)
	}
}

// A function counts the stack pointer up once when it returns.
func TestSimplifyReturns(t *testing.T) {
	const get, set = opLocalGet, opLocalSet
	join := func(parts ...[]byte) []byte { return slices.Concat(parts...) }
	pop := func(size byte) []byte { // the stack pointer counted up
		return []byte{get, 1, opI32Const, size, opI32Add, opLocalTee, 1, opGlobalSet, 0}
	}
	popped := func(size byte) []byte { return []byte{get, 1, opI32Const, size, opI32Add, opGlobalSet, 0} }
	back := []byte{opI32Const, 0, opReturn}
	for _, test := range []struct {
		name      string
		code, now []byte
	}{
		{"return", join(pop(8), back), join(popped(8), back)},
		{"return from a frame", join(pop(48), pop(8), back), join(popped(56), back)},
		{"another way on", join(pop(8), []byte{get, 1}), join(pop(8), []byte{get, 1})},
		{
			"call another function instead",
			join(pop(48), []byte{opI32Const, 0, opCall, 7, opGlobalGet, 0, set, 1, opReturn}),
			join(popped(48), []byte{opI32Const, 0, opCall, 7, opReturn}),
		},
	} {
		expectSimplified(t, test.name, test.code, test.now)
	}
}

// expectSimplified checks what becomes of code in a function.
func expectSimplified(t *testing.T, name string, code, now []byte) {
	t.Helper()
	head := []byte{0, opGlobalGet, 0, opLocalSet, 1, opBlock, void}
	body := slices.Concat(head, code, []byte{opEnd, opEnd})
	all, err := instructions(body, codeStart(body))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := simplify(body, all), slices.Concat(head, now, []byte{opEnd, opEnd}); !bytes.Equal(got, want) {
		t.Errorf("%s: % x became % x, not % x", name, body, got, want)
	}
}
