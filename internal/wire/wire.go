// Package wire reads and writes packed values: little-endian numbers of fixed size, varints, and texts behind their
// length, one after another without padding. The values that Warmgate puts into shared memory are of this kind, and so
// are those that its scripts in Redis unpack. docs/design/formats.md lists which format is described where.
//
// There are two ways to read. A [Reader] takes values from the front and tolerates any input: what was truncated or
// damaged makes it fail, and it never panics. The functions with an offset, such as [Uint32] and [PutUint32], access a
// value in place and are as fast as an index expression; like one, they panic if the value is not there. They are for
// formats of fixed size whose length was checked before.
//
// A time.Duration is stored as its 64 bits in nanoseconds.
package wire

import (
	"encoding/binary"
	"math"
	"time"
)

// Uint16 returns the number at the offset.
func Uint16(b []byte, at int) uint16 { return binary.LittleEndian.Uint16(b[at:]) }

// Uint32 returns the number at the offset.
func Uint32(b []byte, at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }

// Uint64 returns the number at the offset.
func Uint64(b []byte, at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }

// Float64 returns the float64 at the offset.
func Float64(b []byte, at int) float64 { return math.Float64frombits(Uint64(b, at)) }

// Duration returns the duration at the offset.
func Duration(b []byte, at int) time.Duration { return time.Duration(Uint64(b, at)) }

// PutUint16 writes the number at the offset.
func PutUint16(b []byte, at int, v uint16) { binary.LittleEndian.PutUint16(b[at:], v) }

// PutUint32 writes the number at the offset.
func PutUint32(b []byte, at int, v uint32) { binary.LittleEndian.PutUint32(b[at:], v) }

// PutUint64 writes the number at the offset.
func PutUint64(b []byte, at int, v uint64) { binary.LittleEndian.PutUint64(b[at:], v) }

// PutFloat64 writes the float64 at the offset.
func PutFloat64(b []byte, at int, v float64) { PutUint64(b, at, math.Float64bits(v)) }

// PutDuration writes the duration at the offset.
func PutDuration(b []byte, at int, v time.Duration) { PutUint64(b, at, uint64(v)) }

// Writer is a byte slice to which each method appends one value. Like append, a method returns the slice with the value
// behind it, so that calls can be chained:
//
//	out := wire.Writer(nil).Uint64(id).Duration(at)
type Writer []byte

// Byte appends one byte.
func (w Writer) Byte(v byte) Writer { return append(w, v) }

// Uint16 appends 2 bytes.
func (w Writer) Uint16(v uint16) Writer { return binary.LittleEndian.AppendUint16(w, v) }

// Uint32 appends 4 bytes.
func (w Writer) Uint32(v uint32) Writer { return binary.LittleEndian.AppendUint32(w, v) }

// Uint64 appends 8 bytes.
func (w Writer) Uint64(v uint64) Writer { return binary.LittleEndian.AppendUint64(w, v) }

// Uint appends the lowest size bytes of the number, 8 at most.
func (w Writer) Uint(size int, v uint64) Writer {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	return append(w, b[:size]...)
}

// Int64 appends 8 bytes.
func (w Writer) Int64(v int64) Writer { return w.Uint64(uint64(v)) }

// Float64 appends the 8 bytes of the number's IEEE 754 form.
func (w Writer) Float64(v float64) Writer { return w.Uint64(math.Float64bits(v)) }

// Duration appends 8 bytes.
func (w Writer) Duration(v time.Duration) Writer { return w.Uint64(uint64(v)) }

// Uvarint appends 1 to 10 bytes of 7 bits each, the lowest first; all but the last have their highest bit set.
func (w Writer) Uvarint(v uint64) Writer { return binary.AppendUvarint(w, v) }

// Raw appends the text alone.
func (w Writer) Raw(s string) Writer { return append(w, s...) }

// Text appends the length of the text as a varint, then the text.
func (w Writer) Text(s string) Writer { return w.Uvarint(uint64(len(s))).Raw(s) }
