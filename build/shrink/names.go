package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
)

// pcHeader is how the runtime's table of functions begins: a magic number, zeros, the quantum of program counters and
// the size of a pointer. Go has written it so since 1.20.
var pcHeader = []byte{0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8}

// numberBits is where the number of a region ends and that of a function begins, in a program counter.
const numberBits = 16

// firstFunction is the number of the first function in program counters.
const firstFunction = 0x1000

var errNames = errors.New("the table of functions is not as Go writes it")

// function is what the runtime knows of one.
type function struct {
	name string
	// deferred is the number of the region that calls runtime.deferreturn: there it resumes the function when a panic
	// was recovered. 0 if there is none.
	deferred int
}

// functionsOf returns what the table in memory says of n functions, in their order.
func functionsOf(memory []byte, n int) ([]function, error) {
	at := bytes.Index(memory, pcHeader)
	if at < 0 {
		return nil, errNames
	}
	table := memory[at:]
	field := func(i int) uint64 { return fixed(table, 8+8*uint64(i), 8) } // of the header, behind the magic number
	names, functions := field(3), field(7)
	if field(0) != uint64(n) {
		return nil, errNames
	}
	all := make([]function, n)
	for i := range all {
		record := functions + fixed(table, functions+8*uint64(i)+4, 4)
		name := names + fixed(table, record+4, 4)
		if name >= uint64(len(table)) {
			return nil, errNames
		}
		text, _, ok := bytes.Cut(table[name:], []byte{0})
		if !ok || len(text) == 0 {
			return nil, errNames
		}
		all[i] = function{string(text), int(fixed(table, record+12, 4))}
	}
	return all, nil
}

// fixed reads a number from a table, 0 if that does not go so far.
func fixed(table []byte, at, size uint64) uint64 {
	if at+size > uint64(len(table)) {
		return 0
	}
	if size == 8 {
		return binary.LittleEndian.Uint64(table[at:])
	}
	return uint64(binary.LittleEndian.Uint32(table[at:]))
}

// neverReturns reports whether a function of the runtime unwinds the stack or ends the program, whatever it is called
// with. It is part of the contract between Go's compiler and the runtime: the compiler lets no code follow such a call.
func neverReturns(name string) bool {
	name, ok := strings.CutPrefix(name, "runtime.")
	if !ok {
		return false
	}
	switch name {
	case "gopanic", "sigpanic", "throw", "fatal", "panicdivide", "panicshift", "panicrangestate", "panicwrap",
		"panicdottypeE", "panicdottypeI", "panicnildottype", "panicmakeslicelen", "panicmakeslicecap",
		"panicunsafeslicelen", "panicunsafeslicenilptr", "panicunsafestringlen", "panicunsafestringnilptr":
		return true
	}
	return strings.HasPrefix(name, "goPanic") || growsStack("runtime."+name)
}

// growsStack reports whether a function is what others call when the stack is too small. It does not return either: the
// caller is resumed, with the number of its return address.
func growsStack(name string) bool {
	return name == "runtime.morestack" || name == "runtime.morestack_noctxt"
}

// calledRarely reports whether a function is called when something fails: those that do not return, and those that
// write what the runtime says when it crashes.
func calledRarely(name string) bool {
	return neverReturns(name) || strings.HasPrefix(name, "runtime.print")
}

// numbersOf returns the numbers of functions, behind those that are imported, by their names.
func numbersOf(functions []function, imported uint64, is func(name string) bool) map[int64]bool {
	numbers := map[int64]bool{}
	for i, f := range functions {
		if is(f.name) {
			numbers[int64(imported)+int64(i)] = true
		}
	}
	return numbers
}
