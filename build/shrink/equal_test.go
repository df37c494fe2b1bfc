package main

import (
	"slices"
	"testing"
)

// pair is code, other code, and whether it does the same: what it stores, passes to calls, returns and leaves in
// variables and on the stack, in its order.
type pair struct {
	name        string
	before, now []byte
	same        bool
}

func (p pair) expect(t *testing.T) {
	t.Helper()
	before, now := framed(p.before), framed(p.now)
	err := equal(decode(t, before), decode(t, now), 1, newTestOutliner().module)
	if (err == nil) != p.same {
		t.Errorf("%s: % x and % x: %v", p.name, before, now, err)
	}
	if err := equal(decode(t, before), decode(t, before), 1, newTestOutliner().module); err != nil {
		t.Errorf("%s: % x and itself: %v", p.name, before, err)
	}
}

func code(parts ...[]byte) []byte { return slices.Concat(parts...) }

func stored(at byte, value ...byte) []byte {
	return code([]byte{opLocalGet, 1}, value, []byte{opI64Store, 3, at})
}

// called is a call of the function that is called often.
func called(argument byte) []byte {
	return []byte{opI32Const, argument, opCall, often, opGlobalGet, 0, opLocalSet, 1}
}

func TestEqualValues(t *testing.T) {
	const get, set = opLocalGet, opLocalSet
	load := []byte{get, 1, opI64Load, 3, 8}
	sum := []byte{get, 2, get, 3, opI64Add}
	far := []byte{get, 2, opI32Wrap}
	for _, p := range []pair{
		{"kept in another variable", []byte{get, 2, set, 3}, []byte{get, 2, set, 4}, false},
		{"kept where it was", []byte{get, 2, set, 2}, nil, true},
		{"another value", stored(0, get, 2), stored(0, get, 3), false},
		{"another place", stored(0, get, 2), stored(8, get, 2), false},
		{
			"another order", code(stored(0, get, 2), stored(8, get, 3)), code(stored(8, get, 3), stored(0, get, 2)),
			false,
		},
		{
			"computed twice", code(sum, []byte{set, 4}, stored(0, get, 4)),
			code(stored(0, sum...), sum, []byte{set, 4}), true,
		},
		{
			"loaded before and behind a store", code(load, []byte{set, 2}, stored(8, get, 3)),
			code(stored(8, get, 3), load, []byte{set, 2}), false,
		},
		{
			"an address that may be beyond 4 GiB", code(far, []byte{opI32Const, 8, opI32Add, opI64Load, 3, 0, set, 3}),
			code(far, []byte{opI64Load, 3, 8, set, 3}), false,
		},
		{
			"an address that may be beyond 4 GiB, in a variable",
			[]byte{get, 0, opI32Const, 8, opI32Add, opI64Load, 3, 0, set, 3},
			[]byte{get, 0, opI64Load, 3, 8, set, 3},
			false,
		},
		{
			"an address in the frame",
			[]byte{get, 1, opI32Const, 8, opI32Add, opI64Load, 3, 0, set, 3},
			[]byte{get, 1, opI64Load, 3, 8, set, 3},
			true,
		},
		{"a global variable", []byte{get, 2, opGlobalSet, 2}, []byte{get, 3, opGlobalSet, 2}, false},
	} {
		p.expect(t)
	}
}

// A function that has not set its second local variable may have anything there.
func TestEqualBegins(t *testing.T) {
	variable, global := []byte{1, 1, 0x7f, opLocalGet, 1, opEnd}, []byte{1, 1, 0x7f, opGlobalGet, 0, opEnd}
	if err := equal(decode(t, variable), decode(t, global), 1, newTestOutliner().module); err == nil {
		t.Error("the variable is taken for the stack pointer")
	}
}

func TestEqualCalls(t *testing.T) {
	const get, set = opLocalGet, opLocalSet
	load, drop := []byte{get, 1, opI64Load, 3, 8}, []byte{opDrop}
	global := []byte{opGlobalGet, 2}
	for _, p := range []pair{
		{"the argument", code(called(0), drop), code(called(1), drop), false},
		{
			"loaded before and behind", code(load, []byte{set, 2}, called(0), drop),
			code(called(0), drop, load, []byte{set, 2}), false,
		},
		{
			"a global variable before and behind", code(global, []byte{set, 2}, called(0), drop),
			code(called(0), drop, global, []byte{set, 2}), false,
		},
		{
			"a global variable anew", code(global, []byte{set, 2}, called(0), drop, global, []byte{set, 3}),
			code(global, []byte{opLocalTee, 2, set, 3}, called(0), drop), false,
		},
		{
			"the first and the second result", code(called(0), called(0), []byte{opDrop, opI64ExtendU, set, 2}),
			code(called(0), drop, called(0), []byte{opI64ExtendU, set, 2}), false,
		},
	} {
		p.expect(t)
	}
}

func TestEqualBlocks(t *testing.T) {
	const get, set, eight = opLocalGet, opLocalSet, 8
	block, drop := []byte{opBlock, void, opEnd}, []byte{opDrop}
	static := []byte{opI32Const, 64, opI64Load, 3, 0}
	left := []byte{get, 2, opBlock, void, opI64Const, eight, opBr, 0, opEnd} // eight is gone at its end
	for _, p := range []pair{
		{"around it", code([]byte{get, 2}, block, drop), code([]byte{get, 3}, block, drop), false},
		{"below it", code(left, []byte{set, 3}), code(left, []byte{opDrop, opI64Const, eight, set, 3}), false},
		{
			"loaded again behind it", code(static, block, drop, static, []byte{set, 2}),
			code(static, block, []byte{set, 2}), false,
		},
		{"returned", []byte{opI32Const, 0, opReturn}, []byte{opI32Const, 1, opReturn}, false},
		{"kept at the return", []byte{get, 2, set, 3, opI32Const, 0, opReturn}, []byte{opI32Const, 0, opReturn}, true},
		{"kept when it unwinds", []byte{get, 2, set, 3, opBr, 0}, []byte{opBr, 0}, true},
		{
			"kept in a block that goes on",
			[]byte{opBlock, void, get, 2, set, 3, opBr, 0, opEnd},
			[]byte{opBlock, void, opBr, 0, opEnd},
			false,
		},
		{
			"another list of branches",
			[]byte{opBlock, void, get, 0, opBrTable, 1, 0, 1, opEnd},
			[]byte{opBlock, void, get, 0, opBrTable, 1, 1, 1, opEnd},
			false,
		},
		{
			"a list of branches by 0 or 1, not by any number",
			[]byte{opBlock, void, get, 0, opI32Eqz, opI32Eqz, opBrTable, 1, 0, 1, opEnd},
			[]byte{opBlock, void, get, 0, opBrTable, 1, 0, 1, opEnd},
			false,
		},
		{"a branch by 0 or 1", []byte{get, 0, opI32Eqz, opI32Eqz, opBrIf, 0}, []byte{get, 0, opBrIf, 0}, true},
		{"another branch", []byte{get, 0, opBrIf, 0}, []byte{get, 0, opIf, void, opEnd}, false},
	} {
		p.expect(t)
	}
}
