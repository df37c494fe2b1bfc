package main

import "encoding/binary"

// groupSize is how many bytes are packed together: a byte has a bit for each that is not zero, and those follow.
const groupSize = 8

// pack packs numbers, of which half of the bytes are zero.
func pack(data []byte) (packed []byte) {
	for at, b := range data {
		if at%groupSize == 0 {
			packed = append(packed, 0)
			mask := len(packed) - 1
			for k, b := range data[at:min(at+groupSize, len(data))] {
				if b != 0 {
					packed[mask] |= 1 << k
				}
			}
		}
		if b != 0 {
			packed = append(packed, b)
		}
	}
	return packed
}

// unpack fills data, which is zero, and returns how many bytes of what is packed that takes.
func unpack(data, packed []byte) int {
	from := 0
	var mask byte
	for at := range data {
		if at%groupSize == 0 {
			mask = packed[from]
			from++
		}
		if mask&1 != 0 {
			data[at] = packed[from]
			from++
		}
		mask >>= 1
	}
	return from
}

// unpacking returns code that does the same in memory, from one address to what is between two others, and then clears
// the packed bytes. It uses the local variables 1 to 3. There is no code for no bytes.
func unpacking(from, to, end, packed int) []byte {
	if to == end {
		return nil
	}
	const (
		source, target, mask       = 1, 2, 3
		get, set, tee, get1, store = opLocalGet, opLocalSet, opLocalTee, 0x2d, 0x3a // one byte of memory
		greater, less, or          = 0x4b, 0x49, 0x72
		sentinel                   = 1 << groupSize // is 1 when the bits of the mask are used up
	)
	next := func(variable byte) []byte { return []byte{get, variable, opI32Const, 1, opI32Add, set, variable} }
	f := append(appendInt([]byte{opI32Const}, int64(from)), set, source)
	f = append(appendInt(append(f, opI32Const), int64(to)), set, target, opLoop, void)
	f = append(f, get, source, get1, 0, 0, opI32Const)
	f = append(appendInt(f, sentinel), or, set, mask)
	f = append(append(f, next(source)...), opLoop, void)
	f = append(f, get, mask, opI32Const, 1, opI32And, opIf, void, get, target, get, source, get1, 0, 0, store, 0, 0)
	f = append(append(append(f, next(source)...), opEnd), next(target)...)
	f = append(f, get, mask, opI32Const, 1, opI32ShrU, tee, mask, opI32Const, 1, greater, opBrIf, 0, opEnd)
	f = append(appendInt(append(f, get, target, opI32Const), int64(end)), less, opBrIf, 0, opEnd)
	f = append(appendInt(append(f, opI32Const), int64(from)), opI32Const, 0, opI32Const)
	f = append(appendInt(f, int64(packed)), opMore)
	return append(binary.AppendUvarint(f, moreFill), 0)
}
