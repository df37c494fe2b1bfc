package region

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// three are regions of which us and asia adopt eu, which is nearer to us.
func three(t *testing.T) (w *world, us, eu, asia *place) {
	w = newWorld(t,
		config("us", Peer{"eu", 80 * time.Millisecond, true}, Peer{"asia", 160 * time.Millisecond, false}),
		config("eu", Peer{"us", 80 * time.Millisecond, false}, Peer{"asia", 120 * time.Millisecond, false}),
		config("asia", Peer{"us", 160 * time.Millisecond, false}, Peer{"eu", 120 * time.Millisecond, true}))
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

// Whatever regions do, and whatever becomes of the wires: a region does not forward to one whose servers it has
// adopted, no herd follows an answer, and when nothing has changed for a while at most one region of those that hear
// each other has adopted another. When all is well again, everything is as before.
func TestWorldProperty(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w, us, eu, asia := three(t)
		all := []*place{us, eu, asia}
		settled := us.board.config.Gone + us.board.config.Steady + 4*time.Second
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
			hear := us.peer("asia").Available && asia.peer("us").Available
			if long && hear && us.peer("eu").Adopted && asia.peer("eu").Adopted {
				r.Fatal("us and asia both have adopted eu")
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
