package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// host answers a call as a host does: it has memory allocated, and writes there.
func host(value string) status {
	if value == "" {
		return statusOK
	}
	at := onMemoryAllocate(uint32(len(value)))
	copy(unsafe.Slice((*byte)(at), len(value)), value)
	answer.data, answer.size = (*byte)(at), int32(len(value))
	return statusOK
}

// Answers that fit are in the lent memory, longer ones in their own; none stays lent.
func TestLend(t *testing.T) {
	memory := make([]byte, 8)
	for _, test := range []struct {
		value  string
		shared bool
	}{{"", false}, {"short", true}, {"12345678", true}, {"123456789", false}} {
		lend(memory)
		got := fetched(host(test.value))
		if string(got) != test.value {
			t.Errorf("%q became %q", test.value, got)
		}
		shared := len(got) > 0 && unsafe.SliceData(got) == unsafe.SliceData(memory)
		if shared != test.shared {
			t.Errorf("%q: in the lent memory: %v", test.value, shared)
		}
		if later := onMemoryAllocate(1); later == unsafe.Pointer(unsafe.SliceData(memory)) {
			t.Errorf("%q: the memory is still lent", test.value)
		}
	}
}

// A failed call returns nothing, whatever an earlier one has returned.
func TestFetchedNothing(t *testing.T) {
	lend(nil)
	_ = fetched(host("earlier"))
	lend(scratch[:])
	if got := fetched(statusNone); got != nil {
		t.Errorf("%q", got)
	}
	if got := property("a\x00b"); got != "" {
		t.Errorf("%q", got)
	}
}

// Values that belong to the caller are not changed by later calls.
func TestOwnMemory(t *testing.T) {
	lend(nil)
	first := fetched(host("first"))
	lend(nil)
	second := fetched(host("other"))
	if string(first) != "first" || string(second) != "other" {
		t.Errorf("%q, %q", first, second)
	}
}

// Names are strings of their own, and only so many are remembered.
func TestName(t *testing.T) {
	clear(names)
	b := []byte("10.0.0.1:8000")
	first := name(b)
	b[0] = '9'
	if first != "10.0.0.1:8000" || name([]byte(first)) != first {
		t.Errorf("%q", first)
	}
	for i := range 3 * maxNames {
		if want := fmt.Sprint(i); name([]byte(want)) != want {
			t.Fatalf("not %s", want)
		}
		if len(names) > maxNames {
			t.Fatalf("%d names", len(names))
		}
	}
	long := strings.Repeat("x", maxNameLength+1)
	if name([]byte(long)) != long || names[long] != "" {
		t.Error("a long name is remembered, or wrong")
	}
}

func TestPairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 10, 20)
		pairs := rapid.SliceOf(rapid.Custom(func(t *rapid.T) [2]string {
			return [2]string{text.Draw(t, "name"), text.Draw(t, "value")}
		})).Draw(t, "pairs")
		got := readPairs([]byte(packPairs(pairs)))
		if len(got) != len(pairs) {
			t.Fatalf("%d pairs became %d", len(pairs), len(got))
		}
		for i := range pairs {
			if got[i] != pairs[i] {
				t.Errorf("%q became %q", pairs[i], got[i])
			}
		}
	})
}

// Whatever a host returns for pairs, nothing outside of it is read.
func FuzzReadPairs(f *testing.F) {
	f.Add([]byte(packPairs([][2]string{{":status", "200"}, {"x", ""}})))
	f.Add([]byte{255, 255, 255, 255, 1, 2, 3, 4})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, p := range readPairs(bytes.Clone(b)) {
			if len(p[0])+len(p[1]) > len(b) {
				t.Errorf("%q of %d bytes", p, len(b))
			}
		}
	})
}

// An answer that did not fit is lent next time, but for one that is too long to keep.
func TestKeepMemory(t *testing.T) {
	memory := make([]byte, 8)
	for _, test := range []struct{ size, kept int }{{0, 8}, {8, 8}, {9, 9}, {16, 16}, {17, 8}} {
		if kept := keepMemory(memory, make([]byte, test.size), 16); len(kept) != test.kept {
			t.Errorf("after an answer of %d bytes %d are kept, want %d", test.size, len(kept), test.kept)
		}
	}
}
