package region

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb/storetest"
)

// TestReplays has probes of many gateways, which ask every 50 ms, come in another order, some of them again, at two
// workers.
func TestReplays(t *testing.T) {
	const gateways = 44
	kv := storetest.NewMemory()
	workers := [2]*Replays{NewReplays(kv, "key"), NewReplays(kv, "key")}
	r := rand.New(rand.NewPCG(1, 2))
	var underWay [20][]Route // by when they come: within a second
	var taken []Route
	now := wall
	for i := range 2000 {
		now += 50 * time.Millisecond
		for g := range uint64(gateways) {
			ahead := time.Duration(g%5-2) * time.Second // of its clock
			at := r.IntN(len(underWay))
			underWay[at] = append(underWay[at], Route{At: now + ahead, Nonce: g<<32 + uint64(i)})
		}
		come := &underWay[i%len(underWay)]
		for _, p := range *come {
			if err := workers[r.IntN(2)].Take(&p, now); err != nil {
				t.Fatalf("probe %d of gateway %d: %v", uint32(p.Nonce), p.Nonce>>32, err)
			}
			taken = append(taken, p)
		}
		*come = (*come)[:0]
		for range min(20, len(taken)) {
			old := taken[r.IntN(len(taken))]
			if !near(uint64(old.At.Milliseconds()), now) {
				continue
			}
			if err := workers[r.IntN(2)].Take(&old, now); !errors.Is(err, ErrReplayed) {
				t.Fatalf("again after %v: %v", now-old.At, err)
			}
		}
	}
	if n := len(kv.Vals["key"]); n != gateways*senderSize {
		t.Errorf("%d bytes", n)
	}
}

// Those that have asked of late are counted, whoever of the workers they have asked, and whatever their clocks say: by
// when they asked, of the last 2 s and of three intervals at least.
func TestAskers(t *testing.T) {
	kv := storetest.NewMemory()
	a, b := NewReplays(kv, "key"), NewReplays(kv, "key")
	if n := a.Askers(wall, time.Second); n != 0 {
		t.Errorf("%d have asked before anybody has", n)
	}
	for i, ahead := range []time.Duration{0, -MaxSkew, MaxSkew, 3 * time.Second} {
		now := wall + time.Duration(i)*time.Second
		p := Route{At: now + ahead, Nonce: uint64(1+i%3)<<32 + uint64(i)}
		if err := []*Replays{a, b}[i%2].Take(&p, now); err != nil {
			t.Fatal(err)
		}
	}
	for interval, wants := range map[time.Duration]map[time.Duration]int{
		200 * time.Millisecond: {3: 3, 4: 2, 5: 1, 6: 0},
		5 * time.Second:        {3: 3, 16: 3, 17: 2, 18: 1, 19: 0},
		10 * time.Second:       {31: 3, 32: 2, 33: 1, 34: 0},
	} {
		for after, want := range wants {
			if n := b.Askers(wall+after*time.Second, interval); n != want {
				t.Errorf("asked every %s, after %d s %d have asked of late, want %d", interval, after, n, want)
			}
		}
	}
}

// Of one sender so many probes are told apart; earlier ones are refused.
func TestWindowOfReplays(t *testing.T) {
	const sender, last = 5 << 32, 1000
	s := NewReplays(storetest.NewMemory(), "key")
	take := func(number uint64) error { return s.Take(&Route{At: wall, Nonce: sender + number}, wall) }
	for _, c := range []struct {
		number uint64
		want   error
	}{
		{last - window, nil},
		{last, nil},
		{last, ErrReplayed},
		{last - window, ErrReplayed},
		{last - window + 1, nil},
		{last - window + 1, ErrReplayed},
		{last - 1, nil},
		{last + 1, nil},
		{last - window + 1, ErrReplayed},
		{last - 1, ErrReplayed},
		{last, ErrReplayed},
		{last - window + 2, nil},
		{last + window, nil},
		{last + 1, ErrReplayed},
		{last + 2, nil},
		{1<<32 - 1, nil},
		{last + 3, ErrReplayed},
		{0, ErrReplayed},
	} {
		if err := take(c.number); !errors.Is(err, c.want) {
			t.Errorf("%d: %v, want %v", c.number, err, c.want)
		}
	}
}

// A sender is known for as long as one of its probes is not too old, and then not any more.
func TestReplaysAreForgotten(t *testing.T) {
	kv := storetest.NewMemory()
	s := NewReplays(kv, "key")
	ahead := Route{At: wall + MaxSkew, Nonce: 2}
	for _, p := range []*Route{{At: wall, Nonce: 1}, &ahead, {At: wall, Nonce: 3}} {
		if err := s.Take(p, wall); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Take(&ahead, wall+2*MaxSkew); !errors.Is(err, ErrReplayed) {
		t.Errorf("as long as it is not too old: %v", err)
	}
	next := Route{At: wall + remembered + time.Millisecond, Nonce: 1 << 32}
	if err := s.Take(&next, next.At); err != nil || len(kv.Vals["key"]) != senderSize {
		t.Errorf("%v: %d bytes", err, len(kv.Vals["key"]))
	}
}

// A full list takes no more senders until some may be forgotten, and goes on with those that it has. Memory that cannot
// be used takes none.
func TestReplaysAreBounded(t *testing.T) {
	kv := storetest.NewMemory()
	s := NewReplays(kv, "key")
	for i := range uint64(maxSenders) {
		if err := s.Take(&Route{At: wall, Nonce: i << 32}, wall); err != nil {
			t.Fatal(i, err)
		}
	}
	more, full := Route{At: wall + remembered, Nonce: maxSenders << 32}, wall+remembered
	if err := s.Take(&more, full); !errors.Is(err, ErrReplayed) {
		t.Errorf("one too many: %v", err)
	}
	if err := s.Take(&Route{At: full, Nonce: 1}, full); err != nil {
		t.Errorf("a known one: %v", err)
	}
	if err := s.Take(&more, full+time.Millisecond); err != nil {
		t.Errorf("later: %v", err)
	}
	kv.SetErr = func(string) error { return errors.New("no") }
	if err := s.Take(&Route{At: full, Nonce: 2}, full); !errors.Is(err, ErrReplayed) {
		t.Errorf("it cannot be remembered: %v", err)
	}
}

// Damaged memory is no reason to fail.
func FuzzReplays(f *testing.F) {
	f.Add([]byte("0123456789abcdef0"), uint64(7))
	f.Fuzz(func(t *testing.T, list []byte, nonce uint64) {
		kv := storetest.NewMemory()
		kv.Vals["key"] = list
		p, s := Route{At: wall, Nonce: nonce}, NewReplays(kv, "key")
		first := s.Take(&p, wall)
		if again := s.Take(&p, wall); first == nil && again == nil {
			t.Error("taken twice")
		}
	})
}

// BenchmarkReplays has 11 gateways ask.
func BenchmarkReplays(b *testing.B) {
	kv := storetest.NewMemory()
	s, n := NewReplays(kv, "key"), uint64(0)
	for b.Loop() {
		n++
		if err := s.Take(&Route{At: wall, Nonce: n%11<<32 + n/11}, wall); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(kv.Vals["key"])), "bytes")
}
