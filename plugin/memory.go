package main

import "unsafe"

// What a host call returns is written by the host into memory that it has the module allocate, whose address it then
// writes where the call wants it. A call that needs the value only until the next one lends the host memory that is
// used again and again: it sets lent before, and nil after.

// lent is the memory for the answer of the host call that runs, nil if that is to be new.
var lent []byte

// allocated is the latest new memory: until the call has returned, nothing else refers to it.
var allocated []byte

// onMemoryAllocate has this name since gateways prefer it to that of the SDK: see mends.go.
//
//go:wasmexport malloc
func onMemoryAllocate(size uint32) unsafe.Pointer {
	if lent != nil && int(size) <= len(lent) {
		return unsafe.Pointer(unsafe.SliceData(lent))
	}
	allocated = make([]byte, max(size, 1))
	return unsafe.Pointer(unsafe.SliceData(allocated))
}

// scratch is lent for short values.
var scratch [4096]byte

// keepMemory returns what is to be lent next: memory, or the answer that did not fit there, unless that is above max.
func keepMemory(memory, answer []byte, max int) []byte {
	if len(answer) > len(memory) && len(answer) <= max {
		return answer
	}
	return memory
}

// text returns b as a string, without a copy: it is valid as long as b is not changed.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
