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

// Large values take the room of many. One that is larger than all of the room is kept alone.
func TestSizes(t *testing.T) {
	r := New[int, int](10, time.Minute)
	for _, c := range []struct{ key, size, want int }{
		{1, 5, 1}, {2, 5, 2}, {2, 4, 2}, {3, 1, 3}, {4, 10, 1}, {5, 11, 1}, {6, 9, 1}, {6, 1, 1}, {7, 9, 2},
	} {
		r.PutSized(0, c.key, c.size, c.size)
		if got, _ := r.Get(0, c.key); got != c.size || len(r.entries) != c.want {
			t.Errorf("%+v: %d are kept, the newest is of size %d", c, len(r.entries), got)
		}
	}
	if r.Drop(7); r.size != 1 {
		t.Errorf("size %d", r.size)
	}
}
