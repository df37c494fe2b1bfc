package region

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// three are regions of which us and asia adopt eu, which is nearer to us.
func three(t *testing.T) (w *world, us, eu, asia *place) {
	return threeAt(t, 80*time.Millisecond, 120*time.Millisecond)
}

// threeAt are three regions of which us and asia are so far from eu.
func threeAt(t *testing.T, ofUS, ofAsia time.Duration) (w *world, us, eu, asia *place) {
	w = newWorld(t,
		config("us", Peer{"eu", ofUS, true}, Peer{"asia", 160 * time.Millisecond, false}),
		config("eu", Peer{"us", ofUS, false}, Peer{"asia", ofAsia, false}),
		config("asia", Peer{"us", 160 * time.Millisecond, false}, Peer{"eu", ofAsia, true}))
	return w, w.regions["us"], w.regions["eu"], w.regions["asia"]
}

func wantAdopted(t *testing.T, about string, by *place, others ...*place) {
	t.Helper()
	if by != nil && !by.peer("eu").Adopted {
		t.Errorf("%s: %s does not adopt", about, by.name)
	}
	for _, p := range others {
		if p.peer("eu").Adopted {
			t.Errorf("%s: %s adopts", about, p.name)
		}
	}
}

func TestAdoption(t *testing.T) {
	w, us, eu, asia := three(t)
	w.run(10 * time.Second)
	wantAdopted(t, "all well", nil, us, asia)
	eu.down = true
	w.run(2 * time.Second)
	wantAdopted(t, "gone for a moment", nil, us, asia)
	w.run(4 * time.Second)
	wantAdopted(t, "gone", us, asia)
	us.down = true
	w.run(8 * time.Second)
	wantAdopted(t, "the nearest is gone as well", asia)
	us.down = false
	w.run(3 * time.Second)
	wantAdopted(t, "the nearest is back for a moment", asia)
	w.run(9 * time.Second)
	wantAdopted(t, "the nearest is back", us, asia)
	eu.down = false
	w.run(3 * time.Second)
	wantAdopted(t, "back for a moment", us, asia)
	if us.peer("eu").Available {
		t.Error("forwarded to while its servers are served from here")
	}
	w.run(4 * time.Second)
	wantAdopted(t, "back", nil, us, asia)
	if !us.peer("eu").Available {
		t.Errorf("%+v", us.peer("eu"))
	}
}

// A region that was never heard is adopted as well: this gateway may have been started after that one was gone. Until
// then nobody says that it is heard.
func TestAdoptionOfTheNeverHeard(t *testing.T) {
	w, us, eu, asia := three(t)
	eu.down = true
	views, err := us.board.Views()
	if err != nil || views[0].Hears || !views[0].Adopts || views[1].Adopts || views[0].Distance != 80*time.Millisecond {
		t.Errorf("%+v, %v", views, err)
	}
	w.run(2900 * time.Millisecond)
	wantAdopted(t, "not gone for long enough", nil, us, asia)
	w.run(time.Second)
	wantAdopted(t, "never heard", us, asia)
}

// TestAdopts has a region that may adopt eu, which is 100 ms away and gone, hear what another one says of eu.
func TestAdopts(t *testing.T) {
	const now, ms = time.Hour, time.Millisecond
	c := config("m", Peer{"eu", 100 * ms, true}, Peer{"other", 50 * ms, false})
	for _, d := range []struct {
		about   string
		name    string
		view    View
		steady  time.Duration // since when the other region answers, 0 for a miss
		adopted bool          // by this one so far
		want    bool
	}{
		{"it hears eu", "z", View{Hears: true, Distance: time.Second}, 1, true, false},
		{"it may not", "z", View{Distance: 1}, 1, false, true},
		{"it is nearer", "z", View{Adopts: true, Distance: 100*ms - 1}, 1, false, false},
		{"it is as near, and its name is behind", "z", View{Adopts: true, Distance: 100 * ms}, 1, false, true},
		{"it is as near, and its name is in front", "a", View{Adopts: true, Distance: 100 * ms}, 1, false, false},
		{"it is farther, with a name in front", "a", View{Adopts: true, Distance: 100*ms + 1}, 1, false, true},
		{"it is nearer, but new", "a", View{Adopts: true}, c.Steady - 1, true, true},
		{"it is nearer and steady", "a", View{Adopts: true}, c.Steady, true, false},
		{"it is nearer, but has missed a probe", "a", View{Adopts: true}, 0, true, true},
	} {
		c.Peers[1].Name, d.view.Region = d.name, c.Peers[0].Tag()
		other := status{answered: now}
		other.learn(&c, now, []View{{Region: 1, Hears: true}, d.view})
		if d.steady > 0 {
			other.steady = now - d.steady
		}
		all := []status{{gone: true, adopted: d.adopted}, other}
		if got := adopts(&c, all, 0, now); got != d.want {
			t.Errorf("%s: %v", d.about, got)
		}
		if all[1].missed = mostMissed; adopts(&c, all, 0, now) != d.want {
			t.Errorf("%s, but is not heard now: adopted is %v", d.about, !d.want)
		}
		if all[1].gone = true; adopts(&c, all, 0, now) == d.view.Hears {
			t.Errorf("%s, but is gone: adopted is %v", d.about, d.view.Hears)
		}
		if !adopts(&c, all, 0, now+c.Gone+1) {
			t.Errorf("%s, but was not heard for long: not adopted", d.about)
		}
		if all[0].gone = false; adopts(&c, all, 0, now) {
			t.Errorf("%s: adopted although it is not gone", d.about)
		}
	}
}

// A region that comes and goes is adopted once, and not given back in between.
func TestAdoptionWithoutFlaps(t *testing.T) {
	w, us, eu, _ := three(t)
	w.run(time.Second)
	eu.down = true
	w.run(6 * time.Second)
	for range 10 {
		eu.down = false
		w.run(3 * time.Second)
		wantAdopted(t, "there again", us)
		eu.down = true
		w.run(time.Second)
		wantAdopted(t, "gone again", us)
	}
}

// A region whose gateways were frozen answers late when they go on. That makes it no farther: its servers stay with the
// region that has adopted them until it has answered steadily.
func TestAdoptionOfTheFrozen(t *testing.T) {
	w, us, eu, _ := three(t)
	w.run(time.Second)
	eu.frozen = true
	w.run(6 * time.Second)
	wantAdopted(t, "frozen", us)
	eu.thaw()
	for range 48 {
		w.run(100 * time.Millisecond)
		wantAdopted(t, "goes on", us)
	}
	w.run(3 * time.Second)
	wantAdopted(t, "steady", nil, us)
}

// A region that another one still hears is not adopted by one that does not: it is a partition.
func TestPartition(t *testing.T) {
	w, us, _, asia := three(t)
	w.run(time.Second)
	us.cut["eu"] = true
	w.run(10 * time.Second)
	wantAdopted(t, "cut off from us", nil, us, asia)
	if us.peer("eu").Available || !asia.peer("eu").Available || !us.peer("asia").Available {
		t.Error("the others do not go on")
	}
	us.cut["asia"] = true
	w.run(10 * time.Second)
	wantAdopted(t, "us is alone, and believes that eu is gone", us, asia)
	us.cut = map[string]bool{}
	w.run(10 * time.Second)
	wantAdopted(t, "healed", nil, us, asia)
}

// What another region has heard within the time after which one is gone is not adopted, also while that other region is
// not heard for a moment, as when its gateway is busy: only after that time.
func TestPartitionWhileTheOtherIsLate(t *testing.T) {
	w, us, _, asia := three(t)
	w.run(time.Second)
	us.cut["eu"] = true
	w.run(10 * time.Second)
	for range 5 {
		us.cut["asia"] = true
		for end := w.now + us.board.config.Gone - 500*time.Millisecond; w.now < end; w.run(100 * time.Millisecond) {
			wantAdopted(t, "asia is late", nil, us, asia)
		}
		if us.peer("asia").Available {
			t.Error("asia has missed no probes")
		}
		us.cut["asia"] = false
		w.run(time.Second)
		wantAdopted(t, "asia is there", nil, us, asia)
	}
	us.cut["asia"] = true
	w.run(us.board.config.Gone + time.Second)
	wantAdopted(t, "asia is gone as well", us, asia)
}

// Nor does the next region adopt what the nearest one serves while that is late: only when it is gone as well.
func TestAdoptionWhileTheNearestIsLate(t *testing.T) {
	w, us, eu, asia := three(t)
	w.run(time.Second)
	eu.down = true
	w.run(6 * time.Second)
	for range 5 {
		asia.cut["us"] = true
		for end := w.now + us.board.config.Gone - 500*time.Millisecond; w.now < end; w.run(100 * time.Millisecond) {
			wantAdopted(t, "us is late", us, asia)
		}
		if asia.peer("us").Available {
			t.Error("us has missed no probes")
		}
		asia.cut["us"] = false
		w.run(time.Second)
		wantAdopted(t, "us is there", us, asia)
	}
	asia.cut["us"] = true
	w.run(us.board.config.Gone + time.Second)
	wantAdopted(t, "us is gone as well", asia)
}

// Whatever regions do, and whatever becomes of the wires: a region does not forward to one whose servers it has
// adopted, no herd follows an answer, and when nothing has changed for a while one region of those that hear each other
// has adopted another that none of them hears. When all is well again, everything is as before.
func TestWorldProperty(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		tenths := rapid.IntRange(0, 20)
		at := func() time.Duration { return 80*ms + time.Duration(tenths.Draw(r, "tenths of a ms"))*ms/10 }
		w, us, eu, asia := threeAt(t, at(), at())
		all := []*place{us, eu, asia}
		settled := us.board.config.Gone + 2*us.board.config.Steady + 4*time.Second
		w.run(time.Second)
		for range rapid.IntRange(1, 8).Draw(r, "events") {
			p := rapid.SampledFrom(all).Draw(r, "region")
			switch rapid.IntRange(0, 4).Draw(r, "event") {
			case 0:
				p.down = !p.down
			case 1:
				other := rapid.SampledFrom(all).Draw(r, "other").name
				p.cut[other] = !p.cut[other]
			case 2:
				p.delay = time.Duration(rapid.IntRange(0, 2).Draw(r, "delay")) * 500 * time.Millisecond
			case 3:
				number := rapid.IntRange(0, 4)
				p.state = State{Open: number.Draw(r, "open"), Queued: number.Draw(r, "queued")}
			case 4:
				if n := p.send(100); n > (len(all)-1)*(4+2+1) {
					r.Fatalf("%s forwards %d requests at once", p.name, n)
				}
			}
			long := rapid.Bool().Draw(r, "long")
			if w.run(300 * time.Millisecond); long {
				w.run(settled)
			}
			for _, p := range []*place{us, asia} {
				if s := p.peer("eu"); s.Adopted && s.Available {
					r.Fatalf("%s has adopted eu, and forwards to it", p.name)
				}
			}
			adopted := 0
			for _, p := range []*place{us, asia} {
				if p.peer("eu").Adopted {
					adopted++
				}
			}
			hear := us.peer("asia").Age < time.Second && asia.peer("us").Age < time.Second
			gone, up := us.gone("eu") && asia.gone("eu"), !us.down && !asia.down
			if up && long && hear && (adopted > 1 || gone && adopted != 1) {
				r.Fatalf("%d regions have adopted eu", adopted)
			}
		}
		for _, p := range all {
			p.down, p.delay, p.cut, p.state = false, 0, map[string]bool{}, State{Open: 4}
		}
		w.run(settled)
		for _, p := range all {
			for _, peer := range p.board.config.Peers {
				if s := p.peer(peer.Name); s.Adopted || !s.Available {
					r.Fatalf("in the end %s knows of %s: %+v", p.name, peer.Name, s)
				}
			}
		}
	})
}

// see notes what is seen of the servers of eu, and sent checks how many requests are sent to them at once.
func (p *place) see(open int, wait time.Duration) {
	p.world.t.Helper()
	if err := p.board.See(p.world.now, 0, State{Open: open, Wait: wait}); err != nil {
		p.world.t.Fatal(err)
	}
}

func (p *place) sent(want int) {
	p.world.t.Helper()
	n := 0
	for ; n < 20; n++ {
		if peer, _ := p.board.Forward(p.world.now, &Request{Session: 1, Allowed: []string{"eu"}}); peer == None {
			break
		} else if !p.board.Adopted(peer) {
			p.world.t.Fatal("sent to its gateways")
		}
	}
	if n != want {
		p.world.t.Errorf("%d requests at once, want %d", n, want)
	}
}

// To the servers of an adopted peer no more are sent than are open, by what was seen of them lately.
func TestServersOfTheAdopted(t *testing.T) {
	w, us, eu, _ := three(t)
	w.run(time.Second)
	us.see(9, 0) // while nothing is adopted
	eu.down = true
	w.run(6 * time.Second)
	wantAdopted(t, "gone", us)
	us.sent(0)
	us.see(3, 0)
	us.sent(3)
	us.sent(0)
	if s := us.peer("eu"); s.Available || s.Open != 3 || s.Ahead != 3 {
		t.Errorf("%+v", s)
	}
	us.see(2, time.Second)
	if peer, _ := us.board.Forward(w.now, &Request{Session: 1}); us.board.config.Peers[peer].Name != "asia" {
		t.Error("sent to where it waits for longer")
	}
	us.sent(2)
	us.see(2, 0)
	if w.run(time.Second); !us.peer("eu").Available {
		t.Error("not available by what was seen a second ago")
	}
	if w.run(time.Second); us.peer("eu").Available {
		t.Error("available by what was seen long ago")
	}
}

// While gateways answer again, but not steadily yet, no more are sent to their servers than they say are open; then
// they have them back, and what was seen of them from here counts for nothing.
func TestServersOfTheReturning(t *testing.T) {
	w, us, eu, _ := three(t)
	w.run(time.Second)
	eu.down = true
	w.run(6 * time.Second)
	us.see(2, 0)
	us.sent(2)
	eu.down = false
	for open, want := range []int{0, 1, 2, 2} {
		eu.state.Open = open
		w.run(time.Second)
		us.see(2, 0)
		us.sent(want)
	}
	eu.state.Open = 4
	w.run(4 * time.Second)
	if s := us.peer("eu"); s.Adopted || !s.Available || s.Open != 4 || s.Ahead != 0 {
		t.Errorf("given back: %+v", s)
	}
	eu.down = true
	w.run(6 * time.Second)
	wantAdopted(t, "gone again", us)
	us.sent(0)
}

// Where nothing is seen of the servers of an adopted peer, one request in an interval finds out.
func TestGuess(t *testing.T) {
	w, us, eu, _ := three(t)
	guess := func(want int) {
		t.Helper()
		if err := us.board.Guess(w.now, 0); err != nil {
			t.Fatal(err)
		}
		if got := us.peer("eu").Open; got != want {
			t.Errorf("%d open, want %d", got, want)
		}
	}
	w.run(time.Second)
	guess(4)
	eu.down = true
	w.run(6 * time.Second)
	guess(1)
	if err := us.board.See(w.now, 0, State{Open: 3}); err != nil {
		t.Fatal(err)
	}
	guess(3)
	w.now += us.board.config.Interval - 1
	guess(3)
	w.now++
	guess(1)
}
