package recent

import (
	"strconv"
	"testing"
	"time"
)

func TestRecent(t *testing.T) {
	r := New[int, string](3, time.Minute)
	now := time.Hour
	for i := range 3 {
		r.Put(now, i, strconv.Itoa(i))
	}
	now += time.Minute
	if v, ok := r.Get(now, 1); !ok || v != "1" {
		t.Errorf("got %q, %v", v, ok)
	}
	for key := range r.UsedAfter(now - 1) {
		if key != 1 {
			t.Errorf("%d was not used", key)
		}
	}
	r.Put(now+1, 3, "3") // 0 and 2 have not been used for too long
	if _, ok := r.Get(now, 1); !ok || len(r.entries) != 2 {
		t.Errorf("%d are kept, want 1 and 3", len(r.entries))
	}
	for i := range 100 {
		r.Put(now+2, 10+i, "")
		if len(r.entries) > 3 {
			t.Fatalf("%d are kept, want at most 3", len(r.entries))
		}
		if _, ok := r.Get(now+2, 10+i); !ok {
			t.Fatal("the newest made room for itself")
		}
	}
	r.Drop(109)
	if v, ok := r.Get(now+2, 109); ok || v != "" {
		t.Error("what was dropped is still there")
	}
}
