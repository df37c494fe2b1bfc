package policy_test

import (
	"testing"
	"time"
)

// As long as nothing changes the list stays the same.
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
	if first.Digest() != again.Digest() {
		t.Error("time alone makes another list")
	}
	w.update()
	same, _ := w.plan("a")
	if adapter.Digest() != same.Digest() {
		t.Error("the same samples make another list")
	}
}
