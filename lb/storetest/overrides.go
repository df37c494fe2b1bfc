package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// overrides sets limits at run time, or reads them, and expects these to be all that are set.
func (w *work) overrides(s caller, set *lb.Override, want ...lb.Override) {
	w.t.Helper()
	calls := 0
	s.Overrides(w.now, "llm", set, func(got []lb.Override, err error) {
		if calls++; err != nil || !slices.Equal(got, want) {
			w.t.Fatalf("%+v, %v; want %+v", got, err, want)
		}
	})
	if calls != 1 {
		w.t.Fatalf("done was called %d times", calls)
	}
}

// Limits that one owner sets all others see, until they are as configured again.
func testOverrides(_ *testing.T, w *work) {
	a, b := w.caller(), w.caller()
	w.overrides(a, nil)
	one := lb.NoOverride("one", lb.TargetLimits{20, 0, 60})
	two := lb.NoOverride("outbound|443||two", lb.TargetLimits{})
	one.Set[0], two.Set[1] = 0, 5000.5
	w.overrides(a, &one, one)
	w.overrides(b, &two, one, two)
	one.Set[2] = 7
	w.overrides(b, &one, two, one)
	w.pass(time.Hour, a, b)
	w.overrides(a, nil, two, one)
	none := lb.NoOverride("outbound|443||two", lb.TargetLimits{})
	for range 2 {
		w.overrides(a, &none, one)
	}
	none = lb.NoOverride("one", lb.TargetLimits{})
	w.overrides(b, &none)
	w.overrides(a, nil)
	w.overrides(a, &two, two)
}

// Of too many those stay that were set last.
func testOverridesAreBounded(_ *testing.T, w *work) {
	const most = 256
	s := w.caller()
	var list []lb.Override
	for i := range uint64(most + 2) {
		o := lb.Override{Target: i, Set: lb.TargetLimits{1, -1, -1}}
		list = append(list, o)
		w.overrides(s, &o, list[max(0, len(list)-most):]...)
	}
	w.overrides(s, &list[2], append(list[3:], list[2])...)
}
