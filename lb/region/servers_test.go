package region

import (
	"errors"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb/storetest"
)

// What was known of adopted servers a while ago counts with what was sent since, and not once something later is known.
func TestSaw(t *testing.T) {
	const now = time.Hour
	kv := storetest.NewMemory()
	b := boardOf(t, kv, now, status{
		State: State{Open: 9}, adopted: true, sent: 10, covered: 10, servers: State{Open: 1}, seen: now,
	})
	saw := func(at time.Duration, sent uint32, open int, fits bool) {
		t.Helper()
		if got, err := b.Saw(at, 0, sent, State{Open: open}); err != nil || got != fits {
			t.Errorf("it fits: %v, %v", got, err)
		}
	}
	saw(now, 10, 9, true)
	if s := &b.peers[0]; s.servers.Open != 1 {
		t.Errorf("nothing later, but %+v", s)
	}
	for range 2 {
		b.Forward(now, &Request{Session: 1})
	}
	if n, err := b.Sent(0); err != nil || n != 11 {
		t.Fatalf("%d sent with one open: %v", n, err)
	}
	saw(now+1, 10, 1, true)
	saw(now+2, 10, 0, false)
	saw(now+2, 11, 5, false) // the same look
	saw(now+3, 11, 5, true)
	kv.SetErr = func(string) error { return errors.New("no") }
	if fits, err := b.Saw(now+4, 0, 11, State{Open: 5}); fits || err == nil {
		t.Errorf("without memory it fits: %v, %v", fits, err)
	}
	kv.SetErr = nil
	if err := b.change(func() bool { b.peers[0].adopted = false; return true }); err != nil {
		t.Fatal(err)
	}
	saw(now+9, 11, 5, false)
}
