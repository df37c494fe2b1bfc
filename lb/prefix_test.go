package lb

import (
	"slices"
	"testing"
	"time"

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
		if got, _ := e.endpoint(i, 0); got != expected {
			t.Errorf("block %d: endpoint %d is %d, want %v", key, i, got, want)
		}
	}
}

// Who came last is in front; who came a moment ago is not written again; a fifth takes the place of the one that came
// first, once that is no longer fresh.
func TestPageHolders(t *testing.T) {
	var p page
	at := func(tick uint16, endpoint uint32, want bool, holders ...uint32) {
		t.Helper()
		var changed bool
		if p, changed = p.note(blocksOf(7), endpoint, tick); changed != want {
			t.Errorf("tick %d: changed is %v", tick, changed)
		}
		wantHolders(t, p, 7, holders...)
	}
	at(0, 1, true, 1)
	at(freshFor-1, 1, false, 1)
	at(freshFor-1, 2, true, 2, 1)
	at(freshFor-1, 3, true, 3, 2, 1)
	at(freshFor, 1, true, 1, 3, 2)
	at(freshFor, 4, true, 4, 1, 3, 2)
	at(freshFor, 5, false, 4, 1, 3, 2)
	at(2*freshFor-1, 5, true, 5, 4, 1, 3)
	if !p.find(7).drop(4) || p.find(7).drop(4) || p.find(7).drop(9) {
		t.Error("dropping says the wrong thing")
	}
	wantHolders(t, p, 7, 5, 1, 3)
	at(2*freshFor-1, 6, true, 6, 5, 1, 3)
	for _, endpoint := range []uint32{3, 6, 1, 5} {
		p.find(7).drop(endpoint)
	}
	wantHolders(t, p, 7)
}

// What is forgotten is gone where the endpoint was the only one; the rest stays in its order.
func TestPageForgets(t *testing.T) {
	var p page
	for i, keys := range [][]uint64{{1, 2, 3, 4}, {3, 4, 5}} {
		p, _ = p.note(blocksOf(keys...), uint32(i+1), 0)
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
		if p, changed = p.forget(blocksOf(c.keys...), c.endpoint); changed != c.changed {
			t.Errorf("endpoint %d at %v: changed is %v", c.endpoint, c.keys, changed)
		}
		if got := keysOf(p); !slices.Equal(got, c.left) {
			t.Errorf("without endpoint %d at %v: %v is left, want %v", c.endpoint, c.keys, got, c.left)
		}
	}
}

// The clock of a page wraps: then an endpoint is fresh again in the worst case, never lost.
func TestPageClockWraps(t *testing.T) {
	p, _ := page(nil).note(blocksOf(7), 1, 0xfffe)
	if _, age := p.find(7).endpoint(0, 3); age != 5 {
		t.Errorf("%d ticks old, want 5", age)
	}
}

// A full page loses what was not written for longest.
func TestPageIsBounded(t *testing.T) {
	const most = pageMost / entrySize
	var p page
	for k := range uint64(most) {
		p, _ = p.note(blocksOf(k+1), 1, 0)
	}
	p, _ = p.note(blocksOf(1, 2), 1, freshFor) // used again
	p, _ = p.note(blocksOf(1000, 1001, 1002), 1, freshFor)
	if len(p) != pageMost {
		t.Errorf("%d bytes, want %d", len(p), pageMost)
	}
	for key, there := range map[uint64]bool{1: true, 2: true, 3: false, 4: false, 5: false, 6: true, most: true, 1000: true, 1002: true} {
		if (p.find(key) != nil) != there {
			t.Errorf("block %d: %v", key, !there)
		}
	}
	many := make([]uint64, 100)
	for i := range many {
		many[i] = uint64(i) + 5000
	}
	if p, _ = p.note(blocksOf(many...), 2, 0); len(p) > len(many)*entrySize {
		t.Errorf("%d bytes", len(p))
	}
}

// memoryKV is shared memory for one test.
type memoryKV struct {
	vals map[string][]byte
	cas  map[string]uint32
	sets int
	lose int // so many of the next swaps are lost to somebody else
}

func newMemoryKV() *memoryKV { return &memoryKV{vals: map[string][]byte{}, cas: map[string]uint32{}} }

func (m *memoryKV) Get(key string) ([]byte, uint32, error) {
	v, ok := m.vals[key]
	if !ok {
		return nil, 0, ErrNotFound
	}
	return append([]byte(nil), v...), m.cas[key], nil
}

func (m *memoryKV) Set(key string, val []byte, cas uint32) error {
	if m.lose > 0 {
		m.lose--
		m.cas[key]++
	}
	if cas != 0 && cas != m.cas[key] {
		return ErrMismatch
	}
	m.vals[key] = append([]byte(nil), val...)
	m.cas[key]++
	m.sets++
	return nil
}

func prefixOf(room int, ttl time.Duration, keys ...uint64) *Prefix {
	return &Prefix{Blocks: blocksOf(keys...), Bytes: len(keys), MemoryBytes: room, TTL: ttl}
}

// What is known for longer than the TTL does not count, and what is noted again does.
func TestIndexTTL(t *testing.T) {
	x, p := prefixIndex{kv: newMemoryKV()}, prefixOf(1<<16, time.Minute, 1, 2, 3)
	x.match(0, p)
	x.note(0, p, 9)
	for _, c := range []struct {
		now  time.Duration
		want int
	}{{0, 1}, {time.Minute, 1}, {time.Minute + seenTick, 0}, {time.Hour, 0}} {
		if got := x.match(c.now, p); len(got) != c.want {
			t.Errorf("at %v: %v", c.now, got)
		}
	}
	x.note(time.Hour, p, 9)
	if got := x.match(time.Hour, p); len(got) != 1 || got[0] != (holding{9, 3}) {
		t.Errorf("noted again: %v", got)
	}
	forever := prefixOf(1<<16, 365*24*time.Hour, 1, 2, 3)
	if got := x.match(2*time.Hour, forever); len(got) != 1 {
		t.Errorf("with a year: %v", got)
	}
}

// A prompt that is in use costs no write, whatever the number of requests.
func TestIndexWritesSeldom(t *testing.T) {
	kv := newMemoryKV()
	x := prefixIndex{kv: kv}
	p := prefixOf(1<<20, time.Hour)
	for i := range uint64(40) {
		p.Blocks = append(p.Blocks, prompt.Block{Key: i*7919 + 1, End: int(i + 1)})
	}
	for i := range 1000 {
		x.match(time.Duration(i)*time.Millisecond, p)
		x.note(time.Duration(i)*time.Millisecond, p, 9)
	}
	if kv.sets != 5 {
		t.Errorf("%d writes for forty blocks", kv.sets)
	}
}

// When a page changes, all of the prompt that is in it comes to the front, also what was noted a moment ago: what is
// added to a prompt never pushes out its beginning.
func TestIndexKeepsTheBeginning(t *testing.T) {
	x, p := prefixIndex{kv: newMemoryKV()}, prefixOf(0, time.Hour, MinPages, 2*MinPages)
	full, _ := page(nil).note(p.Blocks[:1], 7, 0)
	for i := range uint64(mostEntries) {
		full, _ = full.note(blocksOf((i+1)*MinPages), 9, 0)
	}
	full, _ = full.forget(p.Blocks[1:], 9)
	full, _ = full.note(blocksOf(1000*MinPages), 9, 0)
	if err := x.kv.Set(pageKey(0), full, 0); err != nil {
		t.Fatal(err)
	}
	x.match(0, p)
	x.note(0, p, 9)
	if got := x.match(0, p); !slices.Equal(got, []holding{{9, 2}, {7, 1}}) {
		t.Errorf("holders: %v", got)
	}
}

// Forgetting leaves nothing behind, also where it takes more than one try; what others have stays.
func TestIndexForgets(t *testing.T) {
	kv := newMemoryKV()
	x, p := prefixIndex{kv: kv}, prefixOf(1<<16, time.Minute, 1, 2, 3, 4, 5, 6, 7, 8)
	for _, endpoint := range []uint32{9, 8} {
		x.match(0, p)
		x.note(0, p, endpoint)
	}
	kv.lose = 2
	x.forget(p, 9, 3)
	if got := x.match(0, p); !slices.Equal(got, []holding{{8, 8}, {9, 3}}) {
		t.Errorf("holders: %v", got)
	}
	x.forget(p, 8, 0)
	x.forget(p, 9, 0)
	for key, page := range kv.vals {
		if len(page) > 0 {
			t.Errorf("%s has %d bytes of nothing", key, len(page))
		}
	}
	x.match(0, p)
	x.note(0, p, 7)
	if got := x.match(0, p); !slices.Equal(got, []holding{{7, 8}}) {
		t.Errorf("noted in pages that were emptied: %v", got)
	}
}

// Swaps that are lost are tried again, but not for ever; memory that cannot be read is nothing known.
func TestIndexContention(t *testing.T) {
	kv := newMemoryKV()
	x, p := prefixIndex{kv: kv}, prefixOf(1<<16, time.Minute, 1)
	note := func(endpoint uint32, lose int) int {
		x.match(0, p)
		kv.lose = lose
		x.note(0, p, endpoint)
		kv.lose = 0
		return len(x.match(0, p))
	}
	if note(1, 0) != 1 || note(2, 2) != 2 || note(3, 3) != 2 || note(3, 0) != 3 {
		t.Errorf("holders: %v", x.match(0, p))
	}
}
