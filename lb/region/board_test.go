package region

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
)

// boardOf returns a board on which the states of peers were heard at a time.
func boardOf(t *testing.T, kv lb.KV, at time.Duration, states ...status) *Board {
	t.Helper()
	var peers []Peer
	for i := range states {
		p := Peer{Name: string(rune('a' + i)), Distance: 100 * time.Millisecond, Adopt: states[i].adopted}
		peers = append(peers, p)
	}
	b := NewBoard(kv, "board", config("home", peers...))
	if err := b.change(func() bool {
		copy(b.peers, states)
		for i := range b.peers {
			b.peers[i].answered = at
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return b
}

// The value in shared memory is byte for byte as documented.
func TestFormats(t *testing.T) {
	kv := storetest.NewMemory()
	boardOf(t, kv, 9, status{
		State: State{3, 2, 1}, rtt: 4, sent: 5, counted: 6, missed: 7, since: 8, steady: 10, gone: true, adopted: true,
		servers: State{13, 14, 15}, seen: 16, covered: 17, asked: 18, opinions: []opinion{{11, 19, 20, 12}},
		outcomes: outcomes{21, 22},
	})
	want := wire.Writer("WGP4").Byte(1).Uint32(lb.EndpointTag("a")).Uint32(3).Uint32(2).Duration(1).
		Duration(4).Uint32(5).Uint32(6).Uint32(7).Duration(9).Duration(18).Duration(8).Duration(10).
		Uint32(13).Uint32(14).Duration(15).Duration(16).Uint32(17).Byte(3).Byte(1).
		Uint32(11).Duration(19).Duration(20).Duration(12).Uint32(21).Duration(22)
	if got := kv.Vals["board"]; !bytes.Equal(got, want) {
		t.Errorf("\n got %x\nwant %x", got, []byte(want))
	}
}

// Workers with other peers keep what is known of those that they have in common.
func TestOtherPeers(t *testing.T) {
	kv := storetest.NewMemory()
	boardOf(t, kv, time.Second,
		status{State: State{Open: 1}}, status{State: State{Open: 2}}, status{State: State{Open: 3}})
	b := NewBoard(kv, "board", config("home", Peer{Name: "c"}, Peer{Name: "new"}, Peer{Name: "b"}))
	got, err := b.Peers(time.Second)
	if err != nil || got[0].Open != 3 || got[1].Age >= 0 || got[2].Open != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	b.Forward(time.Second, &Request{Session: 1})
	if got, err = NewBoard(kv, "board", config("home", Peer{Name: "a"})).Peers(time.Second); err != nil ||
		got[0].Open != 1 {
		t.Errorf("other workers have written: %+v, %v", got, err)
	}
	many := NewBoard(kv, "board", config("home", make([]Peer, 99)...))
	if n := len(many.Config().Peers); n != MaxPeers {
		t.Errorf("%d peers", n)
	}
}

// Two workers that forward at the same time both count, or one finds no room any more.
func TestForwardAtTheSameTime(t *testing.T) {
	const now = time.Second
	kv := storetest.NewMemory()
	b := boardOf(t, kv, now, status{State: State{Open: 1, Queued: 1}}) // room for two
	other := NewBoard(kv, "board", b.config)
	between := 0
	kv.OnSet = func(string) {
		if between++; between == 1 {
			if peer, _ := other.Forward(now, &Request{Session: 1}); peer != 0 {
				t.Errorf("the other worker: %d", peer)
			}
		}
	}
	if peer, _ := b.Forward(now, &Request{Session: 1}); peer != 0 {
		t.Errorf("one worker: %d", peer)
	}
	got, err := b.Peers(now)
	if err != nil || got[0].Ahead < 1 || got[0].Ahead > 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	for range 3 {
		b.Forward(now, &Request{Session: 1})
	}
	if got, err = b.Peers(now); err != nil || got[0].Ahead > 2 || got[0].Available {
		t.Errorf("%+v, %v", got, err)
	}
}

// Memory that cannot be used means that nothing is forwarded, and that the caller learns why.
func TestBoardWithoutMemory(t *testing.T) {
	const now = time.Second
	kv := storetest.NewMemory()
	b := boardOf(t, kv, now, status{State: State{Open: 1}})
	kv.SetErr = func(string) error { return errors.New("no") }
	if peer, why := b.Forward(now, &Request{Session: 1}); peer != None || why != NoPeer {
		t.Errorf("%d, %v", peer, why)
	}
	kv.SetErr = func(string) error { return lb.ErrMismatch }
	if peer, _ := b.Forward(now, &Request{Session: 1}); peer != None {
		t.Errorf("others are always faster, but %d", peer)
	}
}

// Whatever is in shared memory, nothing fails, and no more is forwarded than to a peer that was heard.
func FuzzBoard(f *testing.F) {
	kv := storetest.NewMemory()
	w := config("home", Peer{Name: "a"}, Peer{Name: "b"})
	b := NewBoard(kv, "board", w)
	if err := b.change(func() bool {
		b.peers[0] = status{State: State{3, 2, 1}, answered: time.Second, opinions: make([]opinion, 2)}
		return true
	}); err != nil {
		f.Fatal(err)
	}
	f.Add(kv.Vals["board"])
	f.Add([]byte(boardMagic + "\xff"))
	f.Fuzz(func(t *testing.T, val []byte) {
		const now = time.Second
		kv := storetest.NewMemory()
		kv.Vals["board"] = slices.Clone(val)
		b := NewBoard(kv, "board", w)
		before, err := b.Peers(now)
		if err != nil {
			t.Fatal(err)
		}
		peer, why := b.Forward(now, &Request{Matched: []int{1}, Session: 7, Stay: anywhere})
		if (peer == None) != (why == NoPeer) || peer != None && !before[peer].Available {
			t.Errorf("forwarded to %d, %v: %+v", peer, why, before)
		}
		p := NewProber(b, KeysOf(secret, ""), 7)
		if _, err := p.Ask(now, wall, 0); err != nil {
			t.Error(err)
		}
		if err := p.Tick(now + time.Hour); err != nil {
			t.Error(err)
		}
		if views, err := b.Views(); err != nil || len(views) != 2 {
			t.Errorf("%+v, %v", views, err)
		}
	})
}
