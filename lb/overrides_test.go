package lb_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb"
)

// What was set is in force for as long as the configured limit is what it was then, each limit for itself.
func TestOverrides(t *testing.T) {
	configured := lb.TargetLimits{20, 0, 60}
	o := lb.NoOverride("a", configured)
	if !o.IsNone() {
		t.Error("nothing is set, and yet something is")
	}
	o.Set[0], o.Set[1] = 0, 1000
	var all lb.Overrides
	all.Put([]lb.Override{{Target: lb.EndpointHash("b"), Set: lb.TargetLimits{1, 1, 1}}, o})
	for _, c := range []struct {
		target         string
		in, want       lb.TargetLimits
		first, another bool
	}{
		{"a", configured, lb.TargetLimits{0, 1000, 60}, true, true},
		{"a", lb.TargetLimits{30, 0, 70}, lb.TargetLimits{30, 1000, 70}, false, true},
		{"a", lb.TargetLimits{20, 500, 60}, lb.TargetLimits{0, 500, 60}, true, false},
		{"c", configured, configured, false, false},
	} {
		got, set := all.Apply(c.target, c.in)
		if got != c.want || set != [3]bool{c.first, c.another, false} {
			t.Errorf("%s with %v: %v, set %v; want %v", c.target, c.in, got, set, c.want)
		}
	}
	var none *lb.Overrides
	if got, set := none.Apply("a", configured); got != configured || set != [3]bool{} || none.Version() != 0 {
		t.Errorf("without any: %v, %v", got, set)
	}
	before := all.Version()
	all.Put([]lb.Override{{Target: lb.EndpointHash("b"), Set: lb.TargetLimits{1, 1, 1}}, o})
	same := all.Version()
	if all.Put(nil); same != before || all.Version() == before {
		t.Errorf("version %d, %d with the same and %d with others", before, same, all.Version())
	}
}

// What is packed is read again, also if bytes follow, and damaged bytes are read as anything but a panic.
func TestOverridesArePacked(t *testing.T) {
	limits := rapid.Custom(func(t *rapid.T) (l lb.TargetLimits) {
		for i := range l {
			l[i] = rapid.Float64Min(-1).Draw(t, "limit")
		}
		return l
	})
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) lb.Override {
			target := rapid.Uint64().Draw(t, "target")
			return lb.Override{Target: target, Set: limits.Draw(t, "set"), Over: limits.Draw(t, "over")}
		}), 0, 5).Draw(t, "list")
		rest := rapid.SliceOfN(rapid.Byte(), 0, 55).Draw(t, "rest")
		if got := lb.ReadOverrides(append(lb.PackOverrides(list), rest...)); !slices.Equal(got, list) {
			t.Fatalf("%v is read as %v", list, got)
		}
		for _, o := range lb.ReadOverrides(rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "damaged")) {
			in, _ := o.Apply(lb.TargetLimits{})
			if slices.ContainsFunc(in[:], func(l float64) bool { return l < 0 || math.IsNaN(l) }) {
				t.Fatalf("a limit of %v", in)
			}
		}
	})
}
