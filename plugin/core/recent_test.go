package core

import (
	"strconv"
	"testing"
	"time"
)

func TestRecent(t *testing.T) {
	r := newRecent[int, string](3)
	now := time.Hour
	for i := range 3 {
		r.put(now, i, strconv.Itoa(i))
	}
	now += clusterAge
	if v, ok := r.get(now, 1); !ok || v != "1" {
		t.Errorf("got %q, %v", v, ok)
	}
	r.put(now+1, 3, "3") // 0 and 2 have not been used for too long
	if _, ok := r.get(now, 1); !ok || len(r.entries) != 2 {
		t.Errorf("%d are kept, want 1 and 3", len(r.entries))
	}
	for i := range 100 {
		r.put(now+2, 10+i, "")
		if len(r.entries) > 3 {
			t.Fatalf("%d are kept, want at most 3", len(r.entries))
		}
		if _, ok := r.get(now+2, 10+i); !ok {
			t.Fatal("the newest made room for itself")
		}
	}
	r.drop(109)
	if v, ok := r.get(now+2, 109); ok || v != "" {
		t.Error("what was dropped is still there")
	}
}
