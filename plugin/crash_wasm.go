package main

import (
	"unsafe"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
)

// Go's runtime writes with overrideWrite if it is set: see its time_nofake.go. It writes about crashes only, word by
// word, and a gateway would log each word as a line of its own.
//
//go:linkname overrideWrite runtime.overrideWrite
var overrideWrite func(fd uintptr, data unsafe.Pointer, size int32) int32

const crashPrefix = "warmgate: the module has crashed: "

// crashLine holds the line of the report that is being written, crashLen is its length so far in bytes. What does not
// fit is left out.
var (
	crashLine [512]byte
	crashLen  = copy(crashLine[:], crashPrefix)
)

func init() { overrideWrite = logCrash }

// logCrash collects words, and logs each line of them. The runtime is dying: nothing may be allocated, and no pointer
// stored.
func logCrash(_ uintptr, data unsafe.Pointer, size int32) int32 {
	words := unsafe.Slice((*byte)(data), size)
	crashLen += copy(crashLine[crashLen:], words)
	if words[size-1] == '\n' {
		if crashLen > len(crashPrefix)+1 { // else the line is empty
			proxywasm.LogCritical(text(crashLine[:crashLen-1]))
		}
		crashLen = len(crashPrefix)
	}
	return size
}
