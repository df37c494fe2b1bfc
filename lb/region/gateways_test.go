package region

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

const ms = time.Millisecond

// pair are regions a and b of which each adopts c, which is so far away from each of their gateways. a and b are 50 ms
// apart.
func pair(t *testing.T, a, b []time.Duration) (w *world, inA, inB []*place, c *place) {
	configs := []Config{config("c")}
	for _, d := range a {
		configs = append(configs, config("a", Peer{"c", d, true}, Peer{"b", 50 * ms, false}))
	}
	for _, d := range b {
		configs = append(configs, config("b", Peer{"c", d, true}, Peer{"a", 50 * ms, false}))
	}
	w = newWorld(t, configs...)
	return w, w.gateways[1 : 1+len(a)], w.gateways[1+len(a):], w.gateways[0]
}

// adopters returns how many of the gateways have adopted c.
func adopters(gateways []*place) (n int) {
	for _, p := range gateways {
		if p.peer("c").Adopted {
			n++
		}
	}
	return n
}

// Of two regions that are about as far away one adopts, however little the distances differ.
func TestAboutAsFar(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		tenths := rapid.IntRange(0, 30)
		at := func() time.Duration { return 80*ms + time.Duration(tenths.Draw(r, "tenths of a ms"))*ms/10 }
		w, a, b, c := pair(t, []time.Duration{at()}, []time.Duration{at()})
		w.run(2 * time.Second)
		c.down = true
		w.run(10 * time.Second)
		for range 50 {
			if w.run(100 * ms); adopters(a)+adopters(b) != 1 {
				r.Fatalf("%d and %d adopt", adopters(a), adopters(b))
			}
		}
	})
}

// Of regions with several gateways one adopts, by its gateway that is nearest, and goes on with it.
func TestSeveralGatewaysAdopt(t *testing.T) {
	w, a, b, c := pair(t, []time.Duration{80 * ms}, []time.Duration{79 * ms, 81 * ms, 82 * ms})
	w.run(2 * time.Second)
	c.down = true
	w.run(10 * time.Second)
	for range 600 {
		if w.run(100 * ms); adopters(a) != 0 || !b[0].peer("c").Adopted {
			t.Fatalf("%d and %d adopt", adopters(a), adopters(b))
		}
	}
	c.down = false
	if w.run(10 * time.Second); adopters(a)+adopters(b) > 0 {
		t.Error("not given back")
	}
}

// What one gateway of another region hears is not adopted, whatever the others of that region say.
func TestOneGatewayHears(t *testing.T) {
	w, a, b, c := pair(t, []time.Duration{80 * ms}, []time.Duration{90 * ms, 90 * ms})
	w.run(2 * time.Second)
	a[0].cut["c"] = true
	for _, p := range b[1:] {
		p.cut["c"] = true
	}
	for range 600 {
		if w.run(100 * ms); adopters(a) != 0 {
			t.Fatal("adopted although b hears it")
		}
	}
	c.down = true
	if w.run(15 * time.Second); adopters(a) == 0 {
		t.Error("not adopted once nobody hears it")
	}
}

// A push changes nothing of what is known of peers: they stay adopted, or on their way back, and none is asked anew.
func TestPush(t *testing.T) {
	w, us, eu, asia := three(t)
	push := func() {
		c := us.board.config
		c.Buffer++
		c.Steady += 10 * ms
		us.push(c)
	}
	w.run(time.Second)
	if push(); !us.peer("eu").Available {
		t.Errorf("%+v", us.peer("eu"))
	}
	eu.down = true
	w.run(2 * time.Second)
	push()
	w.run(3 * time.Second)
	wantAdopted(t, "gone for as long as before", us, asia)
	us.see(2, 0)
	if push(); us.peer("eu").Open != 2 {
		t.Errorf("%+v", us.peer("eu"))
	}
	w.run(time.Second)
	wantAdopted(t, "pushed while it is gone", us, asia)
	eu.down = false
	w.run(3 * time.Second)
	push()
	w.run(time.Second)
	wantAdopted(t, "pushed while it comes back", us, asia)
	w.run(1500 * ms)
	wantAdopted(t, "back", nil, us, asia)
}

// A worker whose configuration does not adopt a peer sends nothing to its servers, and changes nothing for the others.
func TestPushThatAdopts(t *testing.T) {
	w, us, eu, _ := three(t)
	w.run(time.Second)
	old := us.board.config
	old.Peers = []Peer{{"eu", 80 * ms, false}}
	other := NewBoard(us.kv, "board", old)
	eu.down = true
	w.run(6 * time.Second)
	us.see(2, 0)
	if peer, _ := other.Forward(w.now, &Request{Session: 1}); peer != None || other.Adopted(0) {
		t.Errorf("peer %d", peer)
	}
	if err := other.See(w.now, 0, State{Open: 9}); err != nil {
		t.Fatal(err)
	}
	wantAdopted(t, "after that", us)
	us.sent(2)
	if p := us.peer("asia"); !p.Available {
		t.Errorf("%+v", p)
	}
}

// Peers that nobody has any more are forgotten, however often they are replaced.
func TestPeersAreForgotten(t *testing.T) {
	w := newWorld(t, config("us", Peer{Name: "0"}))
	us := w.regions["us"]
	for i := range 100 {
		us.push(config("us", Peer{Name: string(rune('A' + i))}))
		w.run(300 * ms)
	}
	if n := len(us.board.others); n != MaxPeers {
		t.Errorf("%d others at once", n)
	}
	if w.run(forgetAfter + time.Second); len(us.board.others) != 0 {
		t.Errorf("%d others after a while", len(us.board.others))
	}
}
