package memstore

import (
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prefixindex"
	"github.com/warmgate/warmgate/lb/prompt"
)

// blocksOf returns blocks with the keys.
func blocksOf(keys ...uint64) []prompt.Block {
	var out []prompt.Block
	for i, k := range keys {
		out = append(out, prompt.Block{Key: k, End: i + 1})
	}
	return out
}

func wantHolders(t *testing.T, p page, key uint64, want ...uint32) {
	t.Helper()
	e := p.find(key)
	if e == nil && len(want) > 0 {
		t.Fatalf("block %d is not there", key)
	}
	for i := range len(e) / entrySize * maxHolders {
		expected := uint32(0)
		if i < len(want) {
			expected = want[i]
		}
		if got, _ := e.holder(i, 0); got != expected {
			t.Errorf("block %d: endpoint %d is %d, want %v", key, i, got, want)
		}
	}
}

// The latest holder is in front. One that is fresh is not recorded again. A fifth replaces the last one once that is no
// longer fresh.
func TestPageHolders(t *testing.T) {
	var p page
	at := func(tick uint16, endpoint uint32, want bool, holders ...uint32) {
		t.Helper()
		var changed bool
		if p, changed = p.record(blocksOf(7), endpoint, tick); changed != want {
			t.Errorf("tick %d: changed is %v", tick, changed)
		}
		wantHolders(t, p, 7, holders...)
	}
	at(0, 1, true, 1)
	at(prefixindex.FreshTicks-1, 1, false, 1)
	at(prefixindex.FreshTicks-1, 2, true, 2, 1)
	at(prefixindex.FreshTicks-1, 3, true, 3, 2, 1)
	at(prefixindex.FreshTicks, 1, true, 1, 3, 2)
	at(prefixindex.FreshTicks, 4, true, 4, 1, 3, 2)
	at(prefixindex.FreshTicks, 5, false, 4, 1, 3, 2)
	at(2*prefixindex.FreshTicks-1, 5, true, 5, 4, 1, 3)
	if !p.find(7).remove(4) || p.find(7).remove(4) || p.find(7).remove(9) {
		t.Error("remove reports the wrong thing")
	}
	wantHolders(t, p, 7, 5, 1, 3)
	at(2*prefixindex.FreshTicks-1, 6, true, 6, 5, 1, 3)
	for _, endpoint := range []uint32{3, 6, 1, 5} {
		p.find(7).remove(endpoint)
	}
	wantHolders(t, p, 7)
}

// An entry is removed with its only holder. The others keep their order.
func TestPageForgets(t *testing.T) {
	var p page
	for i, keys := range [][]uint64{{1, 2, 3, 4}, {3, 4, 5}} {
		p, _ = p.record(blocksOf(keys...), uint32(i+1), 0)
	}
	for _, c := range []struct {
		keys     []uint64
		endpoint uint32
		changed  bool
		left     []uint64
	}{
		{[]uint64{1, 2, 9}, 2, false, []uint64{3, 4, 5, 1, 2}},
		{[]uint64{2, 3, 9}, 1, true, []uint64{3, 4, 5, 1}},
		{[]uint64{2, 3, 9}, 1, false, []uint64{3, 4, 5, 1}},
		{[]uint64{1, 2, 3, 4, 5}, 2, true, []uint64{4, 1}},
		{[]uint64{1, 4}, 1, true, nil},
	} {
		var changed bool
		if p, changed = p.forget(setOf(blocksOf(c.keys...)), c.endpoint); changed != c.changed {
			t.Errorf("endpoint %d at %v: changed is %v", c.endpoint, c.keys, changed)
		}
		if got := keysOf(p); !slices.Equal(got, c.left) {
			t.Errorf("without endpoint %d at %v: %v is left, want %v", c.endpoint, c.keys, got, c.left)
		}
	}
}

// Ticks wrap: then the age of a holder is still right.
func TestPageClockWraps(t *testing.T) {
	p, _ := page(nil).record(blocksOf(7), 1, 0xfffe)
	if _, age := p.find(7).holder(0, 3); age != 5 {
		t.Errorf("%d ticks old, want 5", age)
	}
}

// A full page evicts the entries that were not recorded for longest.
func TestPageIsBounded(t *testing.T) {
	var p page
	for k := range uint64(maxEntries) {
		p, _ = p.record(blocksOf(k+1), 1, 0)
	}
	p, _ = p.record(blocksOf(1, 2), 1, prefixindex.FreshTicks) // recorded again
	p, _ = p.record(blocksOf(1000, 1001, 1002), 1, prefixindex.FreshTicks)
	if len(p) != prefixindex.MaxPageSize {
		t.Errorf("%d bytes, want %d", len(p), prefixindex.MaxPageSize)
	}
	for key, there := range map[uint64]bool{
		1: true, 2: true, 3: false, 4: false, 5: false, 6: true, maxEntries: true, 1000: true, 1002: true,
	} {
		if (p.find(key) != nil) != there {
			t.Errorf("block %d: %v", key, !there)
		}
	}
	many := make([]uint64, 100)
	for i := range many {
		many[i] = uint64(i) + 5000
	}
	if p, _ = p.record(blocksOf(many...), 2, 0); len(p) > len(many)*entrySize {
		t.Errorf("%d bytes", len(p))
	}
}

// memoryKV is shared memory for one goroutine.
type memoryKV struct {
	vals map[string][]byte
	cas  map[string]uint32
	gets int
	sets int
	lose int // how many of the next writes fail because another worker was faster
}

func newMemoryKV() *memoryKV { return &memoryKV{vals: map[string][]byte{}, cas: map[string]uint32{}} }

func (m *memoryKV) Get(key string) ([]byte, uint32, error) {
	m.gets++
	v, ok := m.vals[key]
	if !ok {
		return nil, 0, lb.ErrNotFound
	}
	return append([]byte(nil), v...), m.cas[key], nil
}

func (m *memoryKV) Set(key string, val []byte, cas uint32) error {
	if m.lose > 0 {
		m.lose--
		m.cas[key]++
	}
	if cas != 0 && cas != m.cas[key] {
		return lb.ErrMismatch
	}
	m.vals[key] = append([]byte(nil), val...)
	m.cas[key]++
	m.sets++
	return nil
}

func prefixOf(room int, ttl time.Duration, keys ...uint64) *lb.Prefix {
	return &lb.Prefix{Blocks: blocksOf(keys...), Bytes: len(keys), IndexMemory: lb.IndexMemory{Local: room}, TTL: ttl}
}

// What was recorded longer ago than the TTL does not match, and what is recorded again does.
func TestIndexTTL(t *testing.T) {
	x, p := prefixIndex{kv: newMemoryKV()}, prefixOf(1<<16, time.Minute, 1, 2, 3)
	x.find(0, p)
	x.record(0, p, 9)
	for _, c := range []struct {
		now  time.Duration
		want int
	}{{0, 1}, {time.Minute, 1}, {time.Minute + prefixindex.Tick, 0}, {time.Hour, 0}} {
		if got := x.find(c.now, p); len(got) != c.want {
			t.Errorf("at %v: %v", c.now, got)
		}
	}
	x.record(time.Hour, p, 9)
	if got := x.find(time.Hour, p); len(got) != 1 || got[0] != (Match{9, 3}) {
		t.Errorf("recorded again: %v", got)
	}
	forever := prefixOf(1<<16, 365*24*time.Hour, 1, 2, 3)
	if got := x.find(2*time.Hour, forever); len(got) != 1 {
		t.Errorf("with a year: %v", got)
	}
}

// A prompt that is recorded and fresh costs no write, whatever the number of requests.
func TestIndexWritesSeldom(t *testing.T) {
	kv := newMemoryKV()
	x := prefixIndex{kv: kv}
	p := prefixOf(1<<20, time.Hour)
	for i := range uint64(40) {
		p.Blocks = append(p.Blocks, prompt.Block{Key: i*7919 + 1, End: int(i + 1)})
	}
	for i := range 1000 {
		x.find(time.Duration(i)*time.Millisecond, p)
		x.record(time.Duration(i)*time.Millisecond, p, 9)
	}
	if kv.sets != 5 {
		t.Errorf("%d writes for forty blocks", kv.sets)
	}
}

// When a page changes, all blocks of the prompt that are in it move to the front, fresh ones too: new blocks of a
// prompt never evict its beginning.
func TestIndexKeepsTheBeginning(t *testing.T) {
	x, p := prefixIndex{kv: newMemoryKV()}, prefixOf(0, time.Hour, prefixindex.MinPages, 2*prefixindex.MinPages)
	full, _ := page(nil).record(p.Blocks[:1], 7, 0)
	for i := range uint64(maxEntries) {
		full, _ = full.record(blocksOf((i+1)*prefixindex.MinPages), 9, 0)
	}
	full, _ = full.forget(setOf(p.Blocks[1:]), 9)
	full, _ = full.record(blocksOf(1000*prefixindex.MinPages), 9, 0)
	if err := x.kv.Set(pageKey("", 0), full, 0); err != nil {
		t.Fatal(err)
	}
	x.find(0, p)
	x.record(0, p, 9)
	if got := x.find(0, p); !slices.Equal(got, []Match{{9, 2}, {7, 1}}) {
		t.Errorf("holders: %v", got)
	}
}

// Forgetting removes all entries of an endpoint, also where a write takes several tries, and none of other endpoints.
func TestIndexForgets(t *testing.T) {
	kv := newMemoryKV()
	x, p := prefixIndex{kv: kv}, prefixOf(1<<16, time.Minute, 1, 2, 3, 4, 5, 6, 7, 8)
	for _, endpoint := range []uint32{9, 8} {
		x.find(0, p)
		x.record(0, p, endpoint)
	}
	kv.lose = 2
	x.forget(p, 9, 3)
	if got := x.find(0, p); !slices.Equal(got, []Match{{8, 8}, {9, 3}}) {
		t.Errorf("holders: %v", got)
	}
	x.forget(p, 8, 0)
	x.forget(p, 9, 0)
	for key, page := range kv.vals {
		if len(page) > 0 {
			t.Errorf("%s has %d bytes", key, len(page))
		}
	}
	x.find(0, p)
	x.record(0, p, 7)
	if got := x.find(0, p); !slices.Equal(got, []Match{{7, 8}}) {
		t.Errorf("recorded in pages that were emptied: %v", got)
	}
}

// Writes that fail because another worker was faster are tried again, twice.
func TestIndexContention(t *testing.T) {
	kv := newMemoryKV()
	x, p := prefixIndex{kv: kv}, prefixOf(1<<16, time.Minute, 1)
	record := func(endpoint uint32, lose int) int {
		x.find(0, p)
		kv.lose = lose
		x.record(0, p, endpoint)
		kv.lose = 0
		return len(x.find(0, p))
	}
	if record(1, 0) != 1 || record(2, 2) != 2 || record(3, 3) != 2 || record(3, 0) != 3 {
		t.Errorf("holders: %v", x.find(0, p))
	}
}
