package region

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/lb/storetest"
)

// open is the status of a peer with room, at a distance.
func open(rtt, wait time.Duration) status { return status{State: State{Open: 9, Wait: wait}, rtt: rtt} }

// anywhere is of a request that does not wait for its prompt.
var anywhere = Stay{Home: -1}

func TestForward(t *testing.T) {
	const now, ms = time.Second, time.Millisecond
	full := status{rtt: ms}
	for _, c := range []struct {
		about   string
		peers   []status
		matched []int
		allowed []string
		want    int
		why     Reason
	}{
		{"none is there", nil, nil, nil, None, NoPeer},
		{"none has room", []status{full, full}, []int{3, 2}, nil, None, NoPeer},
		{"the one with room", []status{full, open(90*ms, 0)}, []int{3, 0}, nil, 1, ByTime},
		{"the longest match", []status{open(ms, 0), open(90*ms, 0), open(80*ms, 0)}, []int{1, 4, 3}, nil, 1, ByMatch},
		{"equal matches", []status{open(90*ms, 0), open(10*ms, 0)}, []int{2, 2}, nil, 1, ByMatch},
		{"the nearest", []status{open(90*ms, 0), open(60*ms, 0)}, []int{0, 0}, nil, 1, ByTime},
		{"the way and the wait", []status{open(90*ms, 10*ms), open(60*ms, 70*ms)}, nil, nil, 0, ByTime},
		{"the one that is allowed", []status{open(10*ms, 0), open(90*ms, 0)}, []int{5, 0}, []string{"b"}, 1, ByTime},
		{"no one is allowed", []status{open(10*ms, 0)}, nil, []string{}, None, NoPeer},
		{"adopted", []status{{State: State{Open: 9}, adopted: true}}, nil, nil, None, NoPeer},
		{"missed", []status{{State: State{Open: 9}, missed: mostMissed}}, nil, nil, None, NoPeer},
	} {
		b := boardOf(t, storetest.NewMemory(), now, c.peers...)
		r := &Request{Matched: c.matched, Session: 1, Allowed: c.allowed, Stay: anywhere}
		if peer, why := b.Forward(now, r); peer != c.want || why != c.why {
			t.Errorf("%s: %d, %v; want %d, %v", c.about, peer, why, c.want, c.why)
		}
	}
}

// A request stays where its prompt is, for as long as that saves, or for ever where that is not known.
func TestForwardStays(t *testing.T) {
	const now, ms = time.Second, time.Millisecond
	busy := status{rtt: ms, answered: now}
	for _, c := range []struct {
		about   string
		peers   []status
		matched []int
		home    int
		want    int
	}{
		{"more is at home", []status{open(ms, 0)}, []int{3}, 4, None},
		{"as much", []status{open(ms, 0)}, []int{3}, 3, 0},
		{"nobody has anything", []status{open(ms, 0)}, nil, 0, 0},
		{"more is where no room is", []status{open(ms, 0), busy}, []int{2, 5}, 1, None},
		{"more is where nobody answers", []status{open(ms, 0), {missed: mostMissed}}, []int{2, 5}, 1, 0},
	} {
		b := boardOf(t, storetest.NewMemory(), now, c.peers...)
		r := &Request{Matched: c.matched, Session: 1, Stay: Stay{Home: c.home}}
		if peer, _ := b.Forward(now, r); peer != c.want {
			t.Errorf("%s: %d, want %d", c.about, peer, c.want)
		}
	}
	for _, c := range []struct {
		about   string
		peers   []status
		matched []int
		home    int
		stayed  time.Duration
		want    int
	}{
		{"its prompt saves time yet", []status{open(90*ms, 0)}, nil, 3, 1289 * ms, None},
		{"it has stayed for as long", []status{open(90*ms, 0)}, nil, 3, 1290 * ms, 0},
		{"the other one has a part of it", []status{open(90*ms, 0)}, []int{2}, 3, 490 * ms, 0},
		{"the other one has a queue", []status{open(90*ms, 40*ms)}, []int{2}, 3, 529 * ms, None},
		{"nobody has anything", []status{open(90*ms, 0)}, nil, 0, 0, 0},
		{"more is where no room is", []status{open(90*ms, 0), busy}, []int{1, 3}, 0, 888 * ms, None},
		{"it has stayed for that", []status{open(90*ms, 0), busy}, []int{1, 3}, 0, 889 * ms, 0},
		{"the nearest, which has less", []status{open(190*ms, 0), open(60*ms, 0)}, []int{2, 1}, 0, time.Hour, 1},
		{"the farther one, which has more", []status{open(150*ms, 0), open(60*ms, 0)}, []int{2, 1}, 0, time.Hour, 0},
		{"of equal ones that with more", []status{open(163*ms, 0), open(62*ms, 0)}, []int{2, 1}, 0, time.Hour, 0},
	} {
		b := boardOf(t, storetest.NewMemory(), now, c.peers...)
		saves := func(n int) time.Duration { return time.Duration(n) * 100 * ms }
		stay := Stay{Home: c.home, Stayed: c.stayed, Saves: saves}
		peer, why := b.Forward(now, &Request{Matched: c.matched, Session: 1, Stay: stay})
		if peer != c.want || (why == Stays) != (peer == None) {
			t.Errorf("%s: %d, %v; want %d", c.about, peer, why, c.want)
		}
	}
}

func TestRoom(t *testing.T) {
	const now, ms = time.Second, time.Millisecond
	b := boardOf(t, storetest.NewMemory(), now, open(10*ms, 0))
	if !b.HasRoom(now, nil) || b.HasRoom(now, []string{"b"}) || b.HasRoom(now+time.Minute, nil) {
		t.Error("room is where there is none, or not where there is")
	}
	if peer, _ := b.Forward(now+time.Minute, &Request{Session: 1}); peer != None {
		t.Error("forwarded by an old answer")
	}
	for r, want := range map[Reason]string{NoPeer: "none", Stays: "stays", ByMatch: "prefix", ByTime: "time"} {
		if r.String() != want {
			t.Errorf("%v", r)
		}
	}
}

// Sessions are spread over peers that are equal, each stays with its own, and few move when one goes.
func TestSessionsAreSpread(t *testing.T) {
	const now, n = time.Second, 3000
	equal := func(list ...status) *Board {
		for i := range list {
			list[i].Open, list[i].rtt = MaxOpen, 50*time.Millisecond+time.Duration(i)*time.Millisecond
		}
		return boardOf(t, storetest.NewMemory(), now, list...)
	}
	all, fewer := equal(make([]status, 3)...), equal(make([]status, 2)...)
	count, moved := [3]int{}, 0
	for session := range uint64(n) {
		peer, _ := all.Forward(now, &Request{Session: session})
		if again, _ := all.Forward(now, &Request{Session: session}); again != peer {
			t.Fatalf("session %d goes to %d and then to %d", session, peer, again)
		}
		count[peer]++
		if other, _ := fewer.Forward(now, &Request{Session: session}); peer < 2 && other != peer {
			moved++
		}
	}
	for i, c := range count {
		if c < n/3*9/10 || c > n/3*11/10 {
			t.Errorf("peer %d has %d of %d sessions", i, c, n)
		}
	}
	if moved > 0 {
		t.Errorf("%d sessions of peers that stay have moved", moved)
	}
}

// A session whose requests belong together has one region beside its own: the same however far that is, and how long
// its queue, while it has room; and after that another one, the same again.
func TestSessionsHaveASecondRegion(t *testing.T) {
	const now, ms = time.Second, time.Millisecond
	count, next := [3]int{}, 0
	for session := range uint64(300) {
		at := func(list ...status) int {
			b := boardOf(t, storetest.NewMemory(), now, list...)
			peer, _ := b.Forward(now, &Request{Session: session, Sticky: true})
			return peer
		}
		peer := at(open(10*ms, 0), open(90*ms, 0), open(200*ms, 0))
		if again := at(open(200*ms, 50*ms), open(10*ms, 0), open(30*ms, 400*ms)); again != peer {
			t.Fatalf("session %d goes to %d, and to %d when times change", session, peer, again)
		}
		full := []status{open(10*ms, 0), open(90*ms, 0), open(200*ms, 0)}
		full[peer] = status{rtt: ms}
		other := at(full...)
		full[(6-peer-other)%3].rtt = ms
		if again := at(full...); other == peer || again != other {
			t.Fatalf("session %d goes to %d and %d while %d is full", session, other, again, peer)
		}
		count[peer]++
		next += other
	}
	if slices.Min(count[:]) < 80 {
		t.Errorf("sessions by peer: %v", count)
	}
}

// Whatever is known, a request goes to an available and allowed peer that no other such peer beats, and if there is
// one, it goes. It counts there, and there alone.
func TestForwardProperty(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		const now = time.Hour
		number := rapid.IntRange(0, 4)
		var states []status
		var matched []int
		for range rapid.IntRange(0, 5).Draw(r, "peers") {
			states = append(states, status{
				State: State{
					number.Draw(r, "open"), number.Draw(r, "queued"), time.Duration(number.Draw(r, "wait")) * step,
				},
				rtt: time.Duration(1+number.Draw(r, "rtt")) * step, missed: uint32(number.Draw(r, "missed") / 2),
				sent: uint32(9 + number.Draw(r, "ahead")), counted: 9, adopted: number.Draw(r, "adopted") == 0,
			})
			matched = append(matched, number.Draw(r, "match")/2)
		}
		var allowed []string
		if rapid.Bool().Draw(r, "some") {
			allowed = rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), 0, 5).Draw(r, "allowed")
			allowed = append(allowed, "none")
		}
		b := boardOf(t, storetest.NewMemory(), now, states...)
		before, err := b.Peers(now)
		if err != nil {
			r.Fatal(err)
		}
		peer, why := b.Forward(now, &Request{
			Matched: matched, Session: rapid.Uint64().Draw(r, "session"), Allowed: allowed, Stay: anywhere,
		})
		after, err := b.Peers(now)
		if err != nil {
			r.Fatal(err)
		}
		may := func(i int) bool {
			return (allowed == nil || slices.Contains(allowed, b.config.Peers[i].Name)) && before[i].Available
		}
		for i := range states {
			if counted := after[i].Ahead - before[i].Ahead; counted != 0 && i != peer || counted != 1 && i == peer {
				r.Fatalf("peer %d counts %d requests, chosen is %d", i, counted, peer)
			}
			if i == peer && !may(i) || peer == None && may(i) {
				r.Fatalf("%d is chosen, peer %d may be: %v", peer, i, may(i))
			}
			time := func(k int) time.Duration { return (before[k].RTT + before[k].Wait) / step }
			if may(i) && (matched[i] > matched[peer] || matched[i] == matched[peer] && time(i) < time(peer)) {
				r.Fatalf("peer %d, but %d is better", peer, i)
			}
		}
		if (peer == None) != (why == NoPeer) || peer != None && (matched[peer] > 0) != (why == ByMatch) {
			r.Fatalf("peer %d: %v", peer, why)
		}
	})
}

func TestSnapshot(t *testing.T) {
	kv := storetest.NewMemory()
	s := NewSnapshot(kv, 1<<16)
	peers := []Peer{{Name: "eu"}, {Name: "asia"}}
	p := &lb.Prefix{Bytes: 4, TTL: time.Minute, ShortTTL: []lb.EndpointTTL{{}}}
	for i := range 4 {
		p.Blocks = append(p.Blocks, prompt.Block{Key: uint64(i+1) * 1_000_003, End: i + 1})
	}
	begin := *p
	begin.Blocks = p.Blocks[:2]
	want := func(about string, eu, asia int) {
		t.Helper()
		if got := NewSnapshot(kv, 1<<16).Match(time.Second, p, peers); got[0] != eu || got[1] != asia {
			t.Errorf("%s: %v, want %d and %d", about, got, eu, asia)
		}
	}
	want("nothing was forwarded", 0, 0)
	s.Record(0, &begin, &peers[0])
	want("the beginning was", 2, 0)
	s.Record(0, p, &peers[1])
	want("the rest was, elsewhere", 2, 4)
	s.Forget(p, &peers[1], 1)
	want("that was not served", 2, 1)
	if got := s.Match(2*time.Minute, p, peers); got[0] > 0 || got[1] > 0 {
		t.Errorf("after the TTL: %v", got)
	}
	s.Record(0, &lb.Prefix{}, &peers[0])
	s.Forget(&lb.Prefix{}, &peers[0], 0)
	if got := s.Match(0, &lb.Prefix{}, peers); got != nil {
		t.Errorf("without a prompt: %v", got)
	}
}
