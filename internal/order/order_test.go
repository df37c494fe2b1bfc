package order_test

import (
	"cmp"
	"slices"
	"testing"
	"testing/quick"

	"github.com/warmgate/warmgate/internal/order"
)

// All sort as package slices does.
func TestLikeSlices(t *testing.T) {
	up := func(list []int16) bool {
		want := slices.Sorted(slices.Values(list))
		order.Up(list)
		return slices.Equal(list, want)
	}
	if err := quick.Check(up, nil); err != nil {
		t.Error(err)
	}
	by := func(list []struct{ A, B int8 }) bool {
		want := slices.Clone(list)
		slices.SortFunc(want, func(a, b struct{ A, B int8 }) int {
			return cmp.Or(cmp.Compare(b.A, a.A), cmp.Compare(a.B, b.B))
		})
		order.By(list, func(a, b *struct{ A, B int8 }) bool { return a.A > b.A || a.A == b.A && a.B < b.B })
		return slices.Equal(list, want)
	}
	if err := quick.Check(by, nil); err != nil {
		t.Error(err)
	}
	keys := func(m map[string]bool) bool {
		got := order.Keys(m)
		return len(got) == len(m) && slices.IsSorted(got)
	}
	if err := quick.Check(keys, nil); err != nil {
		t.Error(err)
	}
	if got := order.Keys(map[string]int{"b": 1, "a": 2}); !slices.Equal(got, []string{"a", "b"}) {
		t.Error(got)
	}
}
