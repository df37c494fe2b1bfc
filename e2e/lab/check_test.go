package lab

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestTry(t *testing.T) {
	for name, c := range map[string]struct {
		do   func()
		want string // "" for no error
	}{
		"nothing wrong": {func() { Check(nil, nil); FailIf(false, "so"); Must(1, nil); All(3, func(int) {}) }, ""},
		"an error":      {func() { Check(nil, io.EOF) }, "EOF"},
		"a condition":   {func() { FailIf(true, "%d of %d", 1, 2) }, "1 of 2"},
		"a value":       {func() { Must(1, io.EOF) }, "EOF"},
		"about":         {func() { About("name", func() { Check(io.EOF) }) }, "name: EOF"},
		"each of two":   {func() { Each(func() { Check(io.EOF) }, func() { FailIf(true, "then") }) }, "EOF\nthen"},
		"one of many":   {func() { All(3, func(i int) { FailIf(i == 1, "number %d", i) }) }, "number 1"},
	} {
		if err := Try(c.do); (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if err := Try(func() { Check(io.EOF, io.ErrUnexpectedEOF) }); !errors.Is(err, io.EOF) ||
		!errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("of two errors: %v", err)
	}
}

// A mistake in a scene is no violation: it ends the program.
func TestTryLetsPanicsPass(t *testing.T) {
	defer func() {
		if r := recover(); r == nil || !strings.Contains(r.(error).Error(), "index out of range") {
			t.Errorf("recovered %v", r)
		}
	}()
	none := []int{}
	_ = Try(func() { none[len(none)]++ })
	t.Error("Try returned")
}

// Within tries again until nothing is wrong, and tells what was wrong last.
func TestWithin(t *testing.T) {
	n := 0
	if err := Try(func() {
		Within(t.Context(), time.Minute, func() {
			n++
			FailIf(n < 3, "only %d", n)
		})
	}); err != nil || n != 3 {
		t.Errorf("%d calls, %v", n, err)
	}
	err := Try(func() { Within(t.Context(), time.Millisecond, func() { Check(io.EOF) }) })
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, io.EOF) {
		t.Errorf("what never happens gives %v", err)
	}
}
