package wire

import (
	"encoding/binary"
	"math"
	"time"
)

// Reader reads packed values from the front of its input. Each method takes one value off. The first value that is not
// there, or that is invalid, makes the reader fail: that read and all later ones return zero, nothing is left, and
// [Reader.OK] returns false. So a format is read without checks in between, and OK is checked once at the end.
//
// With a string as input, texts are parts of that string; with a byte slice, they are parts of that slice.
type Reader[S string | []byte] struct {
	rest   S
	failed bool
}

// NewReader returns a reader of the input.
func NewReader[S string | []byte](input S) Reader[S] { return Reader[S]{rest: input} }

// OK returns whether all values that were read were there and valid.
func (r *Reader[S]) OK() bool { return !r.failed }

// Len returns how many bytes are left to read, 0 after a failure.
func (r *Reader[S]) Len() int { return len(r.rest) }

// Rest takes off all that is left.
func (r *Reader[S]) Rest() S { return r.Take(len(r.rest)) }

// Fail makes the reader fail, for a value that its caller finds invalid.
func (r *Reader[S]) Fail() { r.rest, r.failed = r.rest[:0], true }

// Take takes n bytes off. The reader fails, and they are empty, if fewer are left or n is negative.
func (r *Reader[S]) Take(n int) S {
	if n < 0 || n > len(r.rest) {
		r.Fail()
		return r.rest
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

// Byte reads one byte.
func (r *Reader[S]) Byte() byte {
	if len(r.rest) == 0 {
		r.Fail()
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

// Uint16 reads 2 bytes.
func (r *Reader[S]) Uint16() uint16 { return uint16(r.Uint(2)) }

// Uint32 reads 4 bytes.
func (r *Reader[S]) Uint32() uint32 { return uint32(r.Uint(4)) }

// Uint64 reads 8 bytes.
func (r *Reader[S]) Uint64() uint64 { return r.Uint(8) }

// Uint reads a number of size bytes, 8 at most.
func (r *Reader[S]) Uint(size int) uint64 {
	var b [8]byte
	copy(b[:], r.Take(size))
	return binary.LittleEndian.Uint64(b[:])
}

// Int64 reads 8 bytes.
func (r *Reader[S]) Int64() int64 { return int64(r.Uint(8)) }

// Float64 reads the 8 bytes of a number's IEEE 754 form, which may also be NaN or infinite.
func (r *Reader[S]) Float64() float64 { return math.Float64frombits(r.Uint(8)) }

// Duration reads 8 bytes.
func (r *Reader[S]) Duration() time.Duration { return time.Duration(r.Uint(8)) }

// Uvarint reads a varint as [Writer.Uvarint] writes it. More than 64 bits are invalid.
func (r *Reader[S]) Uvarint() (v uint64) {
	for shift := 0; ; shift += 7 { // the tenth byte returns or is invalid
		b := r.Byte()
		if r.failed || shift == 63 && b > 1 {
			break
		}
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
	r.Fail()
	return 0
}

// Count reads the number of the items that follow, as a varint. Each takes size bytes at least, so a number for which
// too little is left is invalid: what a forged one makes its reader allocate is bounded by the length of the input.
func (r *Reader[S]) Count(size int) int {
	n := r.Uvarint()
	if n > uint64(len(r.rest)/size) {
		r.Fail()
		return 0
	}
	return int(n)
}

// Text reads a text behind its length, as [Writer.Text] writes it.
func (r *Reader[S]) Text() S { return r.Take(r.Count(1)) }
