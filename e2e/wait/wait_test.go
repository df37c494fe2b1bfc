package wait

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestFor(t *testing.T) {
	begin := time.Now()
	if err := For(t.Context(), 10*time.Millisecond); err != nil || time.Since(begin) < 10*time.Millisecond {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, d := range []time.Duration{-1, 0, time.Hour} {
		if err := For(ctx, d); !errors.Is(err, context.Canceled) {
			t.Errorf("%v in a context that has ended: %v", d, err)
		}
	}
}

func TestUntil(t *testing.T) {
	n, never := 0, errors.New("not yet")
	if err := Until(t.Context(), time.Microsecond, func() error {
		if n++; n < 3 {
			return never
		}
		return nil
	}); err != nil || n != 3 {
		t.Errorf("%v after %d calls", err, n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	err := Until(ctx, time.Hour, func() error { return never })
	if !errors.Is(err, never) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the last error of the check and that of the context", err)
	}
}

func TestPoll(t *testing.T) {
	broken := errors.New("broken")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	for _, c := range []struct {
		name  string
		ready func() (bool, error)
		want  error
	}{
		{"ready", func() (bool, error) { return true, nil }, nil},
		{"fails", func() (bool, error) { return false, broken }, broken},
		{"never", func() (bool, error) { return false, nil }, context.DeadlineExceeded},
	} {
		if err := Poll(ctx, time.Millisecond, c.ready); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestAll(t *testing.T) {
	odd, all := errors.New("odd"), make(chan int, 4)
	err := All(4, func(i int) error {
		all <- i
		for len(all) < 4 { // none is waited for before all have begun
			time.Sleep(time.Millisecond)
		}
		if i%2 == 1 {
			return fmt.Errorf("%d: %w", i, odd)
		}
		return nil
	})
	if !errors.Is(err, odd) || err.Error() != "1: odd\n3: odd" {
		t.Errorf("the errors are %v", err)
	}
	if err := All(0, nil); err != nil {
		t.Error(err)
	}
}
