package wire_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
)

// every is one value of each kind, with its bytes.
func every() wire.Writer {
	return wire.Writer("head").Byte(1).Uint16(0x0302).Uint32(0x07060504).Uint64(0x0f0e0d0c0b0a0908).Int64(-2).
		Float64(1.5).Duration(time.Second).Uvarint(300).Text("text").Uint(3, 0xff030201).Raw("tail")
}

func TestWriter(t *testing.T) {
	want := "head\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\xfe\xff\xff\xff\xff\xff\xff\xff" +
		"\x00\x00\x00\x00\x00\x00\xf8\x3f\x00\xca\x9a\x3b\x00\x00\x00\x00\xac\x02\x04text\x01\x02\x03tail"
	if got := string(every()); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// readEvery reads what every has written and returns whether all of it was right.
func readEvery[S string | []byte](input S) bool {
	r := wire.NewReader(input)
	right := string(r.Take(4)) == "head" && r.Byte() == 1 && r.Uint16() == 0x0302 && r.Uint32() == 0x07060504 &&
		r.Uint64() == 0x0f0e0d0c0b0a0908 && r.Int64() == -2 && r.Float64() == 1.5 && r.Duration() == time.Second &&
		r.Uvarint() == 300 && string(r.Text()) == "text" && r.Uint(3) == 0x030201 && string(r.Rest()) == "tail"
	return right && r.OK() && r.Len() == 0
}

func TestReaderReadsWhatWasWritten(t *testing.T) {
	b := every()
	if !readEvery([]byte(b)) || !readEvery(string(b)) {
		t.Error("not all values are as they were written")
	}
	for n := range len(b) - len("tail") {
		if readEvery([]byte(b[:n])) || readEvery(string(b[:n])) {
			t.Errorf("nothing is missing in %d of %d bytes", n, len(b))
		}
	}
}

func TestAccessInPlace(t *testing.T) {
	b := make([]byte, 32)
	wire.PutUint16(b, 1, 0x0201)
	wire.PutUint32(b, 3, 0x06050403)
	wire.PutUint64(b, 7, 0x0e0d0c0b0a090807)
	wire.PutDuration(b, 15, -time.Second)
	wire.PutFloat64(b, 23, 0.1)
	if wire.Uint16(b, 1) != 0x0201 || wire.Uint32(b, 3) != 0x06050403 || wire.Uint64(b, 7) != 0x0e0d0c0b0a090807 ||
		wire.Duration(b, 15) != -time.Second || wire.Float64(b, 23) != 0.1 || b[0] != 0 || b[31] != 0 {
		t.Errorf("% x", b)
	}
	want := wire.Writer(nil).Byte(0).Uint16(0x0201).Uint32(0x06050403).Uint64(0x0e0d0c0b0a090807).
		Duration(-time.Second).Float64(0.1).Byte(0)
	if !bytes.Equal(b, want) {
		t.Errorf("in place % x, in sequence % x", b, want)
	}
}

func TestInvalidValues(t *testing.T) {
	type reader = wire.Reader[string]
	for _, c := range []struct {
		name, input string
		read        func(r *reader)
	}{
		{"an unfinished varint", "\x80\x80", func(r *reader) { r.Uvarint() }},
		{"a varint of 65 bits", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", func(r *reader) { r.Uvarint() }},
		{"a varint of 11 bytes", "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", func(r *reader) { r.Uvarint() }},
		{"more items than there is room for", "\x0312345", func(r *reader) { r.Count(2) }},
		{"a text that is too long", "\x04abc", func(r *reader) { r.Text() }},
		{"a length beyond int", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01abc", func(r *reader) { r.Text() }},
		{"fewer than no bytes", "abc", func(r *reader) { r.Take(-1) }},
		{"what the caller refuses", "abc", func(r *reader) { r.Fail() }},
	} {
		r := wire.NewReader(c.input)
		if c.read(&r); r.OK() || r.Len() != 0 || r.Byte() != 0 || r.Rest() != "" {
			t.Errorf("%s: OK is %v with %d bytes left", c.name, r.OK(), r.Len())
		}
	}
	r := wire.NewReader("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x0212345")
	if v, n := r.Uvarint(), r.Count(2); v != math.MaxUint64 || n != 2 || !r.OK() || r.Len() != 5 {
		t.Errorf("%d, %d, %d bytes left", v, n, r.Len())
	}
}

// FuzzReader reads any input as any sequence of values: the reader never panics, agrees with encoding/binary, and
// returns nothing but zero once it has failed. A byte slice and a string read alike.
func FuzzReader(f *testing.F) {
	f.Add([]byte(every()), []byte{8, 4, 0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 12 + 3*13})
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), []byte{7, 7})
	f.Add([]byte("\x80\x80\x03abc"), []byte{7, 10, 9})
	f.Add([]byte("\xff"), []byte{7}) // an unfinished varint
	f.Fuzz(func(t *testing.T, input, kinds []byte) {
		r, s, at := wire.NewReader(input), wire.NewReader(string(input)), 0
		for _, kind := range kinds {
			if was := r.OK(); !was && r.Len() != 0 {
				t.Fatal("something is left after a failure")
			}
			got, left := next(&r, kind), r.Len()
			if same := next(&s, kind); got != same || s.Len() != left || s.OK() != r.OK() {
				t.Fatalf("kind %d: %d from bytes, %d from a string", kind, got, same)
			}
			if !r.OK() {
				if got != 0 {
					t.Fatalf("kind %d: %d after a failure", kind, got)
				}
				continue
			}
			if want := reference(input[at:len(input)-left], kind); got != want {
				t.Fatalf("kind %d at %d: %d, want %d", kind, at, got, want)
			}
			at = len(input) - left
		}
	})
}

// next reads a value of the kind, as a number: of a text its length.
func next[S string | []byte](r *wire.Reader[S], kind byte) uint64 {
	switch kind % 13 {
	case 0:
		return uint64(r.Byte())
	case 1:
		return uint64(r.Uint16())
	case 2:
		return uint64(r.Uint32())
	case 3:
		return r.Uint64()
	case 4:
		return uint64(r.Int64())
	case 5:
		return math.Float64bits(r.Float64())
	case 6:
		return uint64(r.Duration())
	case 7:
		return r.Uvarint()
	case 8:
		return uint64(len(r.Take(int(kind) / 13)))
	case 9:
		return uint64(r.Count(int(kind)/13 + 1))
	case 10:
		return uint64(len(r.Text()))
	case 12:
		return r.Uint(int(kind) / 13 % 9)
	default:
		return uint64(len(r.Rest()))
	}
}

// reference returns what the bytes that were read are worth by encoding/binary.
func reference(b []byte, kind byte) uint64 {
	switch kind % 13 {
	case 7, 9:
		v, n := binary.Uvarint(b)
		if n != len(b) {
			return v + 1 // not all of it is the varint
		}
		return v
	case 8, 11:
		return uint64(len(b))
	case 10:
		v, n := binary.Uvarint(b)
		if n+int(v) != len(b) {
			return v + 1
		}
		return v
	default:
		return binary.LittleEndian.Uint64(append(bytes.Clone(b), make([]byte, 8)...))
	}
}

// FuzzWriter reads back whatever was written.
func FuzzWriter(f *testing.F) {
	f.Add(uint64(1), uint64(1<<63), "text", "rest")
	f.Add(uint64(math.MaxUint64), uint64(127), "", "")
	f.Fuzz(func(t *testing.T, a, b uint64, text, rest string) {
		w := wire.Writer(nil).Byte(byte(a)).Uint16(uint16(a)).Uint32(uint32(a)).Uint64(a).Int64(int64(b)).
			Duration(time.Duration(a)).Uvarint(b).Text(text).Float64(math.Float64frombits(a)).Uint(5, a).Raw(rest)
		r := wire.NewReader([]byte(w))
		if r.Byte() != byte(a) || r.Uint16() != uint16(a) || r.Uint32() != uint32(a) || r.Uint64() != a ||
			r.Int64() != int64(b) || r.Duration() != time.Duration(a) || r.Uvarint() != b || string(r.Text()) != text ||
			math.Float64bits(r.Float64()) != a || r.Uint(5) != a&(1<<40-1) || string(r.Rest()) != rest || !r.OK() {
			t.Errorf("not all of it is the same: % x", []byte(w))
		}
	})
}
