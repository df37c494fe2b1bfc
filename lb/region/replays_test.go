package region

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb/storetest"
)

// TestReplays has probes come at random times, some of them again, at two workers.
func TestReplays(t *testing.T) {
	kv := storetest.NewMemory()
	workers := [2]*Replays{NewReplays(kv, "key"), NewReplays(kv, "key")}
	r := rand.New(rand.NewPCG(1, 2))
	var taken []Route
	now := wall
	for i := range 3000 {
		now += time.Duration(r.IntN(40)) * time.Millisecond
		p := Route{At: now + time.Duration(r.IntN(2000)-1000)*time.Millisecond, Nonce: uint64(i)}
		if err := workers[r.IntN(2)].Take(&p, now); err != nil {
			t.Fatalf("probe %d: %v", i, err)
		}
		taken = append(taken, p)
		if old := taken[r.IntN(len(taken))]; now <= old.At+MaxSkew {
			if err := workers[r.IntN(2)].Take(&old, now); !errors.Is(err, ErrReplayed) {
				t.Fatalf("again after %v: %v", now-old.At, err)
			}
		}
	}
	if n := len(kv.Vals["key"]) / replaySize; n > 700 {
		t.Errorf("%d are remembered, of about 500 in the time for which that is needed", n)
	}
	if got := binary.LittleEndian.Uint64(kv.Vals["key"][len(kv.Vals["key"])-16:]); got != 2999 {
		t.Errorf("the last one is %d", got)
	}
}

// A full list takes no more until some may be forgotten. So does memory that cannot be used.
func TestReplaysAreBounded(t *testing.T) {
	kv := storetest.NewMemory()
	s := NewReplays(kv, "key")
	for i := range maxReplays {
		if err := s.Take(&Route{At: wall, Nonce: uint64(i)}, wall); err != nil {
			t.Fatal(i, err)
		}
	}
	more := Route{At: wall + MaxSkew, Nonce: maxReplays}
	if err := s.Take(&more, wall+MaxSkew); !errors.Is(err, ErrReplayed) {
		t.Errorf("one too many: %v", err)
	}
	if err := s.Take(&more, wall+MaxSkew+time.Millisecond); err != nil {
		t.Errorf("later: %v", err)
	}
	kv.SetErr = func(string) error { return errors.New("no") }
	if err := s.Take(&Route{At: wall + MaxSkew, Nonce: 1}, wall+MaxSkew); !errors.Is(err, ErrReplayed) {
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
