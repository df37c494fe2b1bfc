package region

import (
	"errors"
	"testing"
	"time"
)

const distance = 80 * time.Millisecond

// two are regions that probe each other.
func two(t *testing.T) (w *world, us, eu *place) {
	w = newWorld(t, config("us", Peer{Name: "eu", Distance: distance}),
		config("eu", Peer{Name: "us", Distance: distance}))
	return w, w.regions["us"], w.regions["eu"]
}

// send has a region forward as many requests as it can to any peer, up to n, and returns how many that were.
func (p *place) send(n int) (sent int) {
	for sent < n {
		if peer, _ := p.board.Forward(p.world.now, &Request{Session: 1}); peer == None {
			break
		}
		sent++
	}
	return sent
}

func TestAvailability(t *testing.T) {
	w, us, eu := two(t)
	if s := us.peer("eu"); s.Available || s.Age >= 0 || s.RTT != distance {
		t.Errorf("before the first answer: %+v", s)
	}
	w.run(time.Second)
	s := us.peer("eu")
	if !s.Available || s.Open != 4 || s.Age > 300*time.Millisecond || s.RTT < distance ||
		s.RTT > distance+20*time.Millisecond {
		t.Errorf("%+v", s)
	}
	for _, c := range []struct {
		state State
		want  bool
	}{
		{State{Open: 0, Queued: 0}, false},
		{State{Open: 1, Queued: 2}, true},
		{State{Open: 1, Queued: 3}, false},
		{State{Open: 9, Queued: 0}, true},
	} {
		eu.state = c.state
		if w.run(time.Second); us.peer("eu").Available != c.want {
			t.Errorf("%+v: available is %v", c.state, !c.want)
		}
	}
}

// However many requests there are, no more are forwarded on one answer than it has room for.
func TestNoHerd(t *testing.T) {
	w, us, eu := two(t)
	for _, c := range []struct {
		state State
		most  int
	}{{State{Open: 4}, 6}, {State{Open: 4, Queued: 1}, 5}, {State{Open: 1, Queued: 2}, 1}, {State{Open: 0}, 0}} {
		eu.state = c.state
		w.run(time.Second)
		// Until the next answer, and not of the one that is under way: that was asked for before.
		for range 3 {
			if n := us.send(100); n > c.most {
				t.Errorf("%+v: %d requests at once, want %d", c.state, n, c.most)
			}
		}
		if got := us.peer("eu"); got.Ahead > c.most {
			t.Errorf("%+v: %+v", c.state, got)
		}
		w.run(time.Second)
		if got := us.peer("eu"); got.Ahead != 0 {
			t.Errorf("after more answers %d are still ahead", got.Ahead)
		}
	}
}

// Requests that are forwarded while a probe is under way count against its answer, and no longer against the next.
func TestSentDuringAProbe(t *testing.T) {
	w, us, eu := two(t)
	probe := func(between func()) {
		t.Helper()
		texts, err := us.prober.Ask(w.now, w.wall(), 0)
		if err != nil {
			t.Fatal(err)
		}
		w.now += distance / 2
		answer := eu.answer(texts.Text)
		between()
		w.now += distance / 2
		if err := us.prober.Hear(w.now, w.wall(), 0, answer); err != nil {
			t.Fatal(err)
		}
	}
	probe(func() {})
	if n := us.send(2); n != 2 {
		t.Fatalf("%d sent", n)
	}
	probe(func() { us.send(3) })
	if got := us.peer("eu").Ahead; got != 3 {
		t.Errorf("%d are ahead, want those that were sent after the probe", got)
	}
	probe(func() {})
	if got := us.peer("eu").Ahead; got != 0 {
		t.Errorf("%d are ahead", got)
	}
}

// Late answers to earlier probes are not taken once a later one was answered.
func TestAnswersOutOfOrder(t *testing.T) {
	w, us, eu := two(t)
	var answers []string
	for i := range 2 {
		texts, err := us.prober.Ask(w.now, w.wall(), 0)
		if err != nil {
			t.Fatal(err)
		}
		eu.state.Open = i + 1
		answers = append(answers, eu.answer(texts.Text))
	}
	if err := us.prober.Hear(w.now, w.wall(), 0, answers[1]); err != nil {
		t.Error(err)
	}
	if err := us.prober.Hear(w.now, w.wall(), 0, answers[0]); !errors.Is(err, ErrReplayed) || us.peer("eu").Open != 2 {
		t.Errorf("%v, %+v", err, us.peer("eu"))
	}
}

// TestDue asks once in an interval, and counts a probe as missed when its time is over.
func TestDue(t *testing.T) {
	w, us, _ := two(t)
	interval, timeout := us.board.config.Interval, Timeout
	if _, err := us.prober.Ask(w.now, w.wall(), 0); err != nil {
		t.Fatal(err)
	}
	if us.prober.Due(w.now+interval-1, 0) || !us.prober.Due(w.now+interval, 0) {
		t.Error("not due after the interval")
	}
	for after, missed := range []uint32{0, 1, 1} {
		at := w.now + timeout - 1 + time.Duration(after)
		if err := us.prober.Tick(at); err != nil {
			t.Fatal(err)
		}
		if err := us.board.read(); err != nil || us.board.peers[0].missed != missed {
			t.Errorf("after %v %d probes are missed, want %d (%v)", at-w.now, us.board.peers[0].missed, missed, err)
		}
	}
	if us.board.peers[0].since != w.now {
		t.Errorf("asked since %v, want %v", us.board.peers[0].since, w.now)
	}
}

// A peer that never answers is asked on, with a bounded number of probes under way.
func TestManyProbes(t *testing.T) {
	w, us, _ := two(t)
	for i := range 2 * maxUnderWay {
		if due := us.prober.Due(w.now, 0); due != (i < maxUnderWay) {
			t.Fatalf("probe %d is due: %v", i, due)
		}
		if i < maxUnderWay {
			if _, err := us.prober.Ask(w.now, w.wall(), 0); err != nil {
				t.Fatal(err)
			}
		}
		w.now += us.board.config.Interval
	}
	if err := us.prober.Tick(w.now); err != nil {
		t.Fatal(err)
	}
	if !us.prober.Due(w.now, 0) {
		t.Error("not asked again")
	}
}

// TestTimes has the limits of a peer with a measured round trip of 80 ms that is asked five times a second.
func TestTimes(t *testing.T) {
	const now, ms = time.Hour, time.Millisecond
	c := config("us", Peer{Name: "eu", Distance: ms})
	for rtt, want := range map[time.Duration]time.Duration{
		0: time.Second, 66 * ms: 200 * ms, 80 * ms: 240 * ms, 300 * ms: 900 * ms, time.Second: time.Second,
	} {
		if got := (&status{rtt: rtt}).timeout(&c); got != want {
			t.Errorf("a probe of a peer %v away is missed after %v, want %v", rtt, got, want)
		}
	}
	const oldest = 3*200*ms + 2*240*ms
	for age, want := range map[time.Duration]bool{0: true, oldest: true, oldest + 1: false} {
		s := status{State: State{Open: 1}, rtt: 80 * ms, answered: now - age}
		if s.available(&c, 0, now) != want {
			t.Errorf("available by an answer of %v ago: %v", age, !want)
		}
	}
}

// TestRoundTrips averages them as TCP does, from the first one on.
func TestRoundTrips(t *testing.T) {
	const ms = time.Millisecond
	c, p := config("us", Peer{Name: "eu", Distance: 80 * ms}), Peer{Distance: 80 * ms}
	var s status
	for i, want := range []time.Duration{100 * ms, 110 * ms, 106250 * time.Microsecond} {
		took := []time.Duration{100 * ms, 180 * ms, 80 * ms}[i]
		s.hear(&c, time.Hour, time.Hour-took, 0, &Answer{})
		if got := s.distance(&p); got != want {
			t.Errorf("after %d round trips: %v, want %v", i+1, got, want)
		}
	}
	if s.expected(&p) != 106250*time.Microsecond {
		t.Errorf("expected after %v", s.expected(&p))
	}
}

// TestGoneAndBack has a peer be gone after 3 s without an answer, and back after 5 s of answers without a miss.
func TestGoneAndBack(t *testing.T) {
	c := config("us", Peer{Name: "eu"})
	const start, second = time.Hour, time.Second
	s := status{since: start}
	miss := func(at time.Duration, gone bool) {
		t.Helper()
		if s.miss(&c, start+at); s.gone != gone {
			t.Errorf("gone after a miss at %v: %v", at, s.gone)
		}
	}
	hear := func(at time.Duration, gone bool) {
		t.Helper()
		if s.hear(&c, start+at, start+at-1, 0, &Answer{}); s.gone != gone {
			t.Errorf("gone after an answer at %v: %v", at, s.gone)
		}
	}
	miss(1*second, false)
	miss(3*second-1, false)
	miss(3*second, true)
	hear(10*second, true)
	hear(15*second-1, true)
	miss(15*second-1, true) // the answers begin anew
	hear(16*second, true)
	hear(21*second-1, true)
	hear(21*second, false)
	miss(24*second, false) // one alone
	miss(24*second, true)
	s = status{} // what was known is lost
	miss(25*second, false)
	miss(25*second, false)
}

// A peer that is farther than was configured, or becomes farther, is heard all the same, and never gone.
func TestFarPeer(t *testing.T) {
	w := newWorld(t, config("us", Peer{"eu", 20 * time.Millisecond, true}), config("eu"))
	us, eu := w.regions["us"], w.regions["eu"]
	for _, rtt := range []time.Duration{310, 80, 900, 20, 650} {
		eu.far = rtt*time.Millisecond - 20*time.Millisecond
		if w.run(5 * time.Second); !us.peer("eu").Available {
			t.Errorf("%d ms away: %+v", rtt, us.peer("eu"))
		}
		for range 200 {
			if w.run(100 * time.Millisecond); !us.peer("eu").Available || us.peer("eu").Adopted {
				t.Fatalf("%d ms away: %+v", rtt, us.peer("eu"))
			}
		}
		if got := us.peer("eu").RTT.Milliseconds(); got < int64(rtt)-2 || got > int64(rtt)*5/4 {
			t.Errorf("%d ms away: measured %d ms", rtt, got)
		}
	}
}

// So is one that is farther when it comes back: its answers are steady although they come late.
func TestBackFromFarther(t *testing.T) {
	w := newWorld(t, config("us", Peer{"eu", 20 * time.Millisecond, true}), config("eu"))
	us, eu := w.regions["us"], w.regions["eu"]
	w.run(time.Second)
	eu.down = true
	if w.run(6 * time.Second); !us.gone("eu") {
		t.Fatalf("not gone: %+v", us.peer("eu"))
	}
	eu.down, eu.far = false, 580*time.Millisecond
	if w.run(10 * time.Second); us.gone("eu") || !us.peer("eu").Available || us.peer("eu").RTT < 400*time.Millisecond {
		t.Errorf("%+v", us.peer("eu"))
	}
}

// Time in which nobody asks tells nothing of a peer: it is gone only after it has missed probes for long enough.
func TestNobodyAsks(t *testing.T) {
	w, us, eu := two(t)
	w.run(time.Second)
	us.down = true
	w.run(time.Minute)
	us.down, eu.down = false, true
	if w.run(2900 * time.Millisecond); us.peer("eu").Available || us.gone("eu") {
		t.Errorf("gone: %+v", us.peer("eu"))
	}
	if w.run(2 * time.Second); !us.gone("eu") {
		t.Errorf("not gone: %+v", us.peer("eu"))
	}
}

// What a peer answers does not count if it is not signed, or not the answer to a probe that is under way.
func TestLyingPeer(t *testing.T) {
	w, us, eu := two(t)
	first := ""
	for name, forge := range map[string]func(string) string{
		"bad signature": func(s string) string { return s[:len(s)-2] + "AA" },
		"replayed": func(s string) string {
			if first == "" {
				first = s
			}
			return first
		},
		"nonsense": func(string) string { return "yes" },
		"another secret": func(string) string {
			return NewKey("x").SignAnswer(&Route{"us", "eu", 0, 1}, w.wall(), State{Open: 9}, nil)
		},
	} {
		eu.forge = nil
		if w.run(3 * time.Second); !us.peer("eu").Available {
			t.Fatalf("%s: not available before", name)
		}
		eu.forge = forge
		if w.run(3 * time.Second); us.peer("eu").Available {
			t.Errorf("%s: %+v", name, us.peer("eu"))
		}
	}
	texts, err := us.prober.Ask(w.now, w.wall(), 0)
	if err != nil {
		t.Fatal(err)
	}
	probe, err := w.key.ReadProbe(texts.Text, "eu", w.wall())
	if err != nil {
		t.Fatal(err)
	}
	other := Route{"us", "asia", w.wall(), probe.Nonce}
	answer := w.key.SignAnswer(&other, w.wall(), State{}, nil)
	if err := us.prober.Hear(w.now, w.wall(), 0, answer); !errors.Is(err, ErrElsewhere) {
		t.Errorf("another region answers for it: %v", err)
	}
	answer = w.key.SignAnswer(&probe, w.wall(), State{}, nil)
	if err := us.prober.Hear(w.now, w.wall(), 0, answer); err != nil {
		t.Error(err)
	}
	if err := us.prober.Hear(w.now, w.wall(), 0, answer); !errors.Is(err, ErrReplayed) {
		t.Errorf("the same answer again: %v", err)
	}
}

// Probes are refused by another gateway with the same memory once they were answered.
func TestReplayedProbeIsNotAnswered(t *testing.T) {
	w, _, eu := two(t)
	text := w.key.SignProbe("us", "eu", w.wall(), 99)
	if eu.answer(text) == "" || eu.answer(text) != "" {
		t.Error("a probe is answered twice, or never")
	}
	if eu.answer(NewKey("x").SignProbe("us", "eu", w.wall(), 100)) != "" {
		t.Error("a stranger is answered")
	}
}
