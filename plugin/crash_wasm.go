package main

import "unsafe"

// overrideWrite, if it is set, is with what Go's runtime writes: see its time_nofake.go. It writes about crashes only,
// word by word, and a gateway would log each word as a line of its own.
//
//go:linkname overrideWrite runtime.overrideWrite
var overrideWrite func(fd uintptr, data unsafe.Pointer, size int32) int32

const crashPrefix = "warmgate: the module has crashed: "

// crash is the line of the report that is not complete yet, crashed how many bytes that has. What does not fit is left
// out.
var (
	crash   [512]byte
	crashed = copy(crash[:], crashPrefix)
)

func init() { overrideWrite = logCrash }

// logCrash logs lines in the place of words. The runtime is dying: nothing may be allocated, and no pointer written.
func logCrash(_ uintptr, data unsafe.Pointer, size int32) int32 {
	words := unsafe.Slice((*byte)(data), size)
	crashed += copy(crash[crashed:], words)
	if words[size-1] == '\n' {
		if crashed > len(crashPrefix)+1 { // else the line is empty
			const critical = 5
			proxyLog(critical, text(crash[:crashed-1]))
		}
		crashed = len(crashPrefix)
	}
	return size
}
