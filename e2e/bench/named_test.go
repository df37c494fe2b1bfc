package bench

import (
	"strings"
	"testing"
)

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
