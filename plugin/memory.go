package main

import "unsafe"

// What a host call returns is written by the host into memory that it has the module allocate, by
// proxy_on_memory_allocate, and whose address it then writes where the call wants it. A call that needs the value only
// until the next one lends the host memory that is used again and again.

// lent is the memory for the answer of the host call that runs, nil if that is to be new.
var lent []byte

// allocated is the latest new memory: until the call has returned, nothing else refers to it.
var allocated []byte

// answer is where the host writes the address and the size of what a call returns, and the version of shared data. It
// is not on the stack, where each call would have to allocate it.
var answer struct {
	data *byte
	size int32
	cas  uint32
}

//go:wasmexport proxy_on_memory_allocate
func onMemoryAllocate(size uint32) unsafe.Pointer {
	if int(size) <= len(lent) {
		return unsafe.Pointer(unsafe.SliceData(lent))
	}
	allocated = make([]byte, max(size, 1))
	return unsafe.Pointer(unsafe.SliceData(allocated))
}

// Where a host call is to write its answer.
var (
	dataAt = unsafe.Pointer(&answer.data)
	sizeAt = unsafe.Pointer(&answer.size)
	casAt  = unsafe.Pointer(&answer.cas)
)

// scratch is lent for short values.
var scratch [4096]byte

// lend prepares a host call whose answer goes to memory if it fits, else to memory of its own.
func lend(memory []byte) { lent, answer.data, answer.size = memory, nil, 0 }

// fetched returns the answer of a host call that lend has prepared, nil if there is none.
func fetched(st status) []byte {
	lent = nil
	if st != statusOK || answer.data == nil || answer.size <= 0 {
		return nil
	}
	return unsafe.Slice(answer.data, answer.size)
}

// keepMemory returns what is to be lent next: memory, or the answer that did not fit there, unless that is above max.
func keepMemory(memory, answer []byte, max int) []byte {
	if len(answer) > len(memory) && len(answer) <= max {
		return answer
	}
	return memory
}

// text returns b as a string, without a copy: it is valid as long as b is not changed.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
