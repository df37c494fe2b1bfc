package lb_test

import (
	"testing"
	"time"
)

// As long as nothing changes the list stays at the same address, by which stores recognize it.
func TestSameList(t *testing.T) {
	w := newEngineCluster(t, 3, nil)
	for i := range 3 {
		w.report(i, 1, running(1), waiting(0), adapters(2, "a"))
	}
	w.update()
	first, _ := w.plan("")
	adapter, _ := w.plan("a")
	w.now += time.Second
	again, _ := w.plan("")
	if &first.Candidates[0] != &again.Candidates[0] {
		t.Error("time alone makes another list")
	}
	w.update()
	same, _ := w.plan("a")
	if &adapter.Candidates[0] != &same.Candidates[0] {
		t.Error("the same samples make another list")
	}
}
