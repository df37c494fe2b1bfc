package bench

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	args := os.Args
	t.Cleanup(func() { os.Args = args })
	unread, failed := errors.New("unread"), errors.New("failed")
	var given []string
	all := []Benchmark{
		New("fails", func() (int, error) { return 0, unread }, func(context.Context, int) error { return nil }),
		New("plays", func() (int, error) {
			given = os.Args[1:]
			return 7, nil
		}, func(_ context.Context, n int) error {
			if n == 7 {
				return failed
			}
			return nil
		}),
	}
	if err := Run(t.Context(), all, []string{"fails"}); !errors.Is(err, unread) || err.Error() != "fails: unread" {
		t.Error(err)
	}
	if err := Run(t.Context(), all, []string{"plays", "-n", "1"}); !errors.Is(err, failed) ||
		!slices.Equal(given, []string{"-n", "1"}) {
		t.Errorf("%v with %q", err, given)
	}
	for _, args := range [][]string{nil, {"play"}, {"-help"}} {
		if err := Run(t.Context(), all, args); err == nil || !strings.Contains(err.Error(), "none of fails, plays;") {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestNamed(t *testing.T) {
	self := func(s string) string { return s }
	all := []string{"a", "b", "c"}
	for _, c := range []struct{ list, want string }{{"", "a b c"}, {"c,a", "a c"}, {"b", "b"}} {
		if got, err := Named(all, c.list, self); err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%q names %v, %v", c.list, got, err)
		}
	}
	for _, bad := range []string{"d", "a,d", "a,a", ","} {
		if got, err := Named(all, bad, self); err == nil {
			t.Errorf("%q names %v", bad, got)
		}
	}
}
