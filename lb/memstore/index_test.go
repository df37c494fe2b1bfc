package memstore

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// An index in a part of its own has the same rules as that of the stores, and nothing in common with it or with other
// parts.
func TestIndex(t *testing.T) {
	kv := newMemoryKV()
	store := prefixIndex{kv: kv}
	one, other := NewIndex(kv, "one"), NewIndex(kv, "other")
	p := prefixOf(1<<16, time.Minute, 1, 2, 3, 4)
	p.Bytes = 4
	begin := *p
	begin.Blocks = p.Blocks[:2]
	one.Record(0, &begin, 7)
	one.Record(time.Second, p, 9)
	if got := one.Find(time.Second, p); !slices.Equal(got, []Match{{9, 4}, {7, 2}}) {
		t.Errorf("%+v", got)
	}
	if got := NewIndex(kv, "one").Find(time.Second, p); len(got) != 2 {
		t.Errorf("another worker finds %+v", got)
	}
	if a, b := store.find(0, p), other.Find(0, p); len(a) > 0 || len(b) > 0 {
		t.Errorf("recorded elsewhere as well: %+v, %+v", a, b)
	}
	one.Forget(p, 9, 3)
	if got := one.Find(time.Second, p); !slices.Equal(got, []Match{{9, 3}, {7, 2}}) {
		t.Errorf("%+v", got)
	}
	if got := one.Find(2*time.Minute, p); len(got) > 0 {
		t.Errorf("after the TTL: %+v", got)
	}
	for key := range kv.vals {
		if !strings.HasPrefix(key, "warmgate/4/one/prefix/") {
			t.Errorf("key %s", key)
		}
	}
}

// A prompt that is not to be looked up costs no access.
func TestIndexWithoutPrompt(t *testing.T) {
	kv := newMemoryKV()
	x, none := NewIndex(kv, "one"), &lb.Prefix{}
	x.Record(0, none, 7)
	if got := x.Find(0, none); len(got) > 0 || kv.gets+kv.sets > 0 {
		t.Errorf("%+v, %d reads and %d writes", got, kv.gets, kv.sets)
	}
}
