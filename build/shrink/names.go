package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
)

// pcHeader is how the runtime's table of functions begins: a magic number, zeros, the quantum of program counters and
// the size of a pointer. Go 1.24 to 1.26 write it so.
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

// functionTable is the runtime's table of functions, from its header on.
type functionTable []byte

// functionTableIn returns the table in memory, and where it is there.
func functionTableIn(memory []byte) (functionTable, int, error) {
	at := bytes.Index(memory, pcHeader)
	if at < 0 {
		return nil, 0, errNames
	}
	return memory[at:], at, nil
}

// These fields of the header say how many functions there are, and where tables begin.
const (
	fieldCount     = 0
	fieldNames     = 3 // of functions
	fieldUnits     = 4 // of compilation, behind the names
	fieldValues    = 6 // lists of values by program counters
	fieldFunctions = 7
)

// field returns one of the header, behind the magic number.
func (t functionTable) field(i uint64) uint64 { return fixed(t, 8+8*i, 8) }

// record returns where the table says what is known of a function.
func (t functionTable) record(i uint64) uint64 {
	functions := t.field(fieldFunctions)
	return functions + fixed(t, functions+8*i+4, 4)
}

// name returns the name that begins at an offset among the names, where another one ends.
func (t functionTable) name(offset uint64) (string, error) {
	at := t.field(fieldNames) + offset
	if at >= uint64(len(t)) || offset > 0 && t[at-1] != 0 {
		return "", errNames
	}
	text, _, ok := bytes.Cut(t[at:], []byte{0})
	if !ok || len(text) == 0 {
		return "", errNames
	}
	return string(text), nil
}

// functionsOf returns what the table in memory says of n functions, in their order.
func functionsOf(memory []byte, n int) ([]function, error) {
	t, _, err := functionTableIn(memory)
	if err != nil {
		return nil, err
	}
	if t.field(fieldCount) != uint64(n) {
		return nil, errNames
	}
	all := make([]function, n)
	for i := range all {
		record := t.record(uint64(i))
		name, err := t.name(fixed(t, record+4, 4))
		if err != nil {
			return nil, err
		}
		all[i] = function{name, int(fixed(t, record+12, 4))}
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
