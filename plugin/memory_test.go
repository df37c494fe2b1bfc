package main

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"
)

// Memory is lent as long as the answer fits; else it is new, and that of the next answer another.
func TestLend(t *testing.T) {
	memory := make([]byte, 8)
	defer func() { lent = nil }()
	for _, test := range []struct {
		size   uint32
		shared bool
	}{{0, true}, {1, true}, {8, true}, {9, false}} {
		lent = memory
		at := onMemoryAllocate(test.size)
		if shared := at == unsafe.Pointer(unsafe.SliceData(memory)); shared != test.shared {
			t.Errorf("%d bytes: in the lent memory: %v", test.size, shared)
		}
	}
	lent = nil
	first := onMemoryAllocate(8)
	copy(unsafe.Slice((*byte)(first), 8), "first")
	second := onMemoryAllocate(0)
	if first == second || second == nil || string(unsafe.Slice((*byte)(first), 5)) != "first" {
		t.Errorf("%p, then %p", first, second)
	}
}

// Nothing stays lent, and what a host does not know is "".
func TestNothingStaysLent(t *testing.T) {
	sdk.activeContextID = start(t).InitializeHttpContext()
	for name, f := range map[string]func() string{
		"a property":        func() string { return property("a", "b") },
		"a header":          func() string { return stream{}.ResponseHeader("a") },
		"a request's body":  func() string { return string(stream{}.RequestBody(0, 1)) },
		"a response's body": func() string { return string(stream{}.ResponseBody(0, 1)) },
	} {
		if got := f(); got != "" || lent != nil {
			t.Errorf("%s: %q, and %d bytes are lent", name, got, len(lent))
		}
	}
}

// Names are strings of their own, and only so many are remembered.
func TestName(t *testing.T) {
	clear(names)
	b := []byte("10.0.0.1:8000")
	first := name(text(b))
	b[0] = '9'
	if first != "10.0.0.1:8000" || name(first) != first {
		t.Errorf("%q", first)
	}
	for i := range 3 * maxNames {
		if want := fmt.Sprint(i); name(want) != want {
			t.Fatalf("not %s", want)
		}
		if len(names) > maxNames {
			t.Fatalf("%d names", len(names))
		}
	}
	long := strings.Repeat("x", maxNameLength+1)
	if name(long) != long || names[long] != "" {
		t.Error("a long name is remembered, or wrong")
	}
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
