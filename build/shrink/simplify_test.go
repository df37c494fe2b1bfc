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
		{"nothing", []byte{opNop, set, 2, opNop}, []byte{set, 2}},
	} {
		head := []byte{0, opGlobalGet, 0, set, 1, opBlock, void}
		body := join(head, test.code, []byte{opEnd, opEnd})
		all, err := instructions(body, codeStart(body))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := simplify(body, all), join(head, test.now, []byte{opEnd, opEnd}); !bytes.Equal(got, want) {
			t.Errorf("%s: % x became % x, not % x", test.name, body, got, want)
		}
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
