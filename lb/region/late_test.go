package region

import (
	"errors"
	"testing"
	"time"
)

// An answer counts only within a second after its probe, also where what comes is handled later than it came, and
// before the time that is over was noticed.
func TestLateAnswer(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		want  error
	}{{Timeout - 1, nil}, {Timeout, ErrStale}, {Timeout + 3*time.Millisecond, ErrStale}} {
		w, us, eu := two(t)
		texts, err := us.prober.Ask(w.now, w.wall(), 0)
		if err != nil {
			t.Fatal(err)
		}
		answer := eu.answer(texts.Text)
		w.now += c.after
		if err := us.prober.Hear(w.now, w.wall(), 0, answer); !errors.Is(err, c.want) {
			t.Errorf("after %v: %v, want %v", c.after, err, c.want)
		}
		if n := us.send(1); (n == 1) != (c.want == nil) {
			t.Errorf("after %v: %d requests were forwarded", c.after, n)
		}
		if err := us.prober.Tick(w.now + Timeout); err != nil || (us.board.peers[0].missed == 0) != (c.want == nil) {
			t.Errorf("after %v: %d probes are missed, %v", c.after, us.board.peers[0].missed, err)
		}
	}
}

// After a peer's last answer requests are forwarded there until two probes are missed; should nobody notice that, for
// three intervals and twice the time after which a probe is missed. It may be dead, or answer later than a second.
func TestHowLongPeersAreAvailable(t *testing.T) {
	const step, ms = 10 * time.Millisecond, time.Millisecond
	ends := map[string]func(us, eu *place){
		"dead":        func(_, eu *place) { eu.down = true },
		"slow":        func(_, eu *place) { eu.delay = Timeout },
		"nobody asks": func(us, _ *place) { us.down = true },
	}
	check := func(name string, far, after time.Duration) {
		w, us, eu := two(t)
		eu.far, eu.state.Open = far, MaxOpen
		w.run(5*time.Second + after)
		ends[name](us, eu)
		end, sent := w.now, time.Duration(0)
		for w.now < end+10*time.Second {
			if us.send(1) > 0 {
				sent = w.now
			}
			w.run(step)
		}
		s, b := &us.board.peers[0], us.board.Config()
		least, most := 2*b.Interval, 2*(b.Interval+step)+s.timeout(b)
		if name == "nobody asks" {
			most = 3*b.Interval + 2*s.timeout(b)
			least = most - step
		}
		if d := sent - s.answered; d < least || d > most || s.answered > end+distance+far {
			t.Errorf("%s, %v away: until %v after its last answer, which came %v after the end; want %v to %v",
				name, distance+far, d, s.answered-end, least, most)
		}
	}
	for name := range ends {
		for _, far := range []time.Duration{0, 100 * ms, 250 * ms, 800 * ms} {
			for after := range 20 { // it ends at any time between two probes
				check(name, far, time.Duration(after)*step)
			}
		}
	}
}

// A peer that became slow by a second is not available: its answers come too late, and are not taken.
func TestSlowPeer(t *testing.T) {
	w, us, eu := two(t)
	w.run(time.Second)
	eu.delay = time.Second
	if w.run(5 * time.Second); us.peer("eu").Available {
		t.Errorf("%+v", us.peer("eu"))
	}
	eu.delay = 0
	if w.run(3 * time.Second); !us.peer("eu").Available {
		t.Errorf("%+v", us.peer("eu"))
	}
}
