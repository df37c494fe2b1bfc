package policy_test

import (
	"testing"
	"time"
)

func TestAdapters(t *testing.T) {
	w := newEngineCluster(t, 3, nil)
	for range 2 {
		w.now += time.Second
		w.report(0, 4, running(4), waiting(0), adapters(2, "a,b"))
		w.report(1, 4, running(4), waiting(0), adapters(2, "c"))
		w.report(2, 4, running(4), waiting(0), adapters(2, "c,d"))
		w.update()
	}
	if !w.engines.HasAdapters() {
		t.Fatal("adapters are known")
	}
	for _, c := range []struct {
		model string
		loads []int64
		want  int
	}{
		{"a", []int64{6, 4, 4}, 0}, // where it is
		{"a", []int64{40, 4, 4}, 1},
		{"d", []int64{4, 4, 6}, 2},
		{"base", []int64{4, 3, 4}, 1}, // not an adapter
		{"", []int64{4, 4, 3}, 2},
	} {
		if got := w.choice(c.model, c.loads...); got != c.want {
			t.Errorf("%q with %v: chose %d, want %d", c.model, c.loads, got, c.want)
		}
	}
	// A placed request counts before the engine lists its adapter, and while it waits.
	id := w.engines.AddRequest("b", w.addr(1), 10)
	again := w.engines.AddRequest("b", w.addr(1), 10)
	if got := w.choice("b", 9, 5, 4); got != 1 {
		t.Errorf("chose %d after the adapter was sent to 1", got)
	}
	if got := w.choice("a", 30, 5, 4); got != 2 {
		t.Errorf("chose %d, want the one of two full ones that has less to do", got)
	}
	w.engines.RemoveRequest(id, w.addr(1))
	if got := w.choice("b", 9, 5, 4); got != 1 {
		t.Errorf("chose %d while a second request is there", got)
	}
	w.engines.RemoveRequest(again, w.addr(1))
	w.engines.RemoveRequest(again, w.addr(1))
	if got := w.choice("b", 6, 5, 4); got != 0 {
		t.Errorf("chose %d after both requests have left", got)
	}
	if id := w.engines.AddRequest("base", w.addr(1), 10); id != 0 {
		t.Error("a model that is not an adapter counts as one")
	}
}
