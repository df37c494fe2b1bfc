package storetest

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

func testLeast(t *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(3)
	p := Even(addrs)
	for id := range lb.LeaseID(30) {
		p.Random = uint64(id) * 7919
		before := w.Loads("llm", addrs)
		addr, g, err := w.reserve(s, id, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range before {
			if l.Requests < g.Load.Requests-1 {
				t.Fatalf("chose %s with %d in flight although the loads were %v", addr, g.Load.Requests-1, before)
			}
		}
	}
	w.want(addrs, 10, 10, 10)
	for id := range lb.LeaseID(30) {
		s.Release(w.now, id)
	}
	w.want(addrs, 0, 0, 0)
}

func testShared(t *testing.T, w *world) {
	a, b, addrs := w.NewOwner(), w.NewOwner(), Addrs(2)
	first := w.must(a, 1, Even(addrs))
	if second := w.must(b, 1, Even(addrs)); second == first {
		t.Fatalf("the second owner chose %s too, although it had a request", second)
	}
	w.want(addrs, 1, 1)
	a.Release(w.now, 1)
	b.Release(w.now, 1)
	w.want(addrs, 0, 0)
}

func testCap(t *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(2)
	p := Even(addrs)
	p.Candidates[0].Cap, p.Candidates[1].Cap = 1, 2
	for id := range lb.LeaseID(3) {
		w.must(s, id, p)
	}
	if _, _, err := w.reserve(s, 9, p); !errors.Is(err, lb.ErrFull) {
		t.Fatalf("over the cap: %v", err)
	}
	w.want(addrs, 1, 2)
	s.Release(w.now, 9) // the refused request has no lease
	w.want(addrs, 1, 2)
	s.Release(w.now, 0)
	w.must(s, 10, p)
	w.want(addrs, 1, 2)
}

func testWeights(t *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(2)
	p := Even(addrs)
	p.Candidates[1].Weight = 3
	for id := range lb.LeaseID(40) {
		w.must(s, id, p)
	}
	w.want(addrs, 10, 30)
}

func testTokens(t *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(2)
	p := Even(addrs)
	p.Unit, p.Tokens = lb.Tokens, 1000
	big := w.must(s, 1, p)
	p.Tokens = 100
	for id := lb.LeaseID(2); id < 12; id++ {
		if got := w.must(s, id, p); got == big {
			t.Fatalf("request %d of 100 tokens went beside the one of 1000", id)
		}
	}
	for i, l := range w.Loads("llm", addrs) {
		if l.Tokens != 1000 {
			t.Fatalf("endpoint %d carries %d tokens", i, l.Tokens)
		}
	}
}

// testManyTokens: whatever number of tokens a request has, its release removes what its reservation added, and no
// tokens of other leases.
func testManyTokens(t *testing.T, w *world) {
	for _, n := range []int64{-5, 0, 1, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1<<32 + 7, 1 << 62, math.MaxInt64} {
		a, b, addrs := w.NewOwner(), w.NewOwner(), Addrs(1)
		p := Even(addrs)
		p.Unit, p.Tokens = lb.Tokens, 1000
		w.must(b, 1, p)
		p.Tokens = n
		w.must(a, 1, p)
		first := w.Loads("llm", addrs)[0]
		if first.Tokens < 1000 || n > 1000 && first.Tokens < 2000 {
			t.Fatalf("%d tokens and 1000 make %d", n, first.Tokens)
		}
		w.pass(2*time.Second, a, b)
		if again := w.Loads("llm", addrs)[0]; again != first {
			t.Fatalf("%d tokens: %+v in flight became %+v with time", n, first, again)
		}
		a.Amend(w.now, 1, "", n/2)
		a.Release(w.now, 1)
		if l := w.Loads("llm", addrs)[0]; l != (lb.Load{Requests: 1, Tokens: 1000}) {
			t.Fatalf("after the release of %d tokens %+v remain", n, l)
		}
		b.Release(w.now, 1)
	}
}

func testTies(t *testing.T, w *world) {
	const n, draws = 8, 1600
	s, addrs := w.NewOwner(), Addrs(n)
	p, counts, seed := Even(addrs), map[string]float64{}, uint64(1)
	for id := range lb.LeaseID(draws) {
		seed = seed*6364136223846793005 + 1442695040888963407
		p.Random = seed >> 16
		counts[w.must(s, id, p)]++
		s.Release(w.now, id)
	}
	chi2 := 0.0
	for _, a := range addrs {
		chi2 += math.Pow(counts[a]-draws/n, 2) / (draws / n)
	}
	if chi2 > 24.3 { // p = 0.001 at 7 degrees of freedom; the draws are the same each time
		t.Fatalf("chi-squared %.1f over %v", chi2, counts)
	}
}

func testReleaseOnce(_ *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(1)
	w.must(s, 1, Even(addrs))
	w.must(s, 2, Even(addrs))
	for range 3 {
		s.Release(w.now, 1)
	}
	w.want(addrs, 1)
	s.Release(w.now, 77)
	w.want(addrs, 1)
}

func testReleaseFirst(t *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(1)
	s.Release(w.now, 1)
	if _, _, err := w.reserve(s, 1, Even(addrs)); !errors.Is(err, lb.ErrReleased) {
		t.Fatalf("a reservation after its release: %v", err)
	}
	w.want(addrs, 0)
}

func testReserveTwice(t *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(4)
	p := Even(addrs)
	first := w.must(s, 1, p)
	p.Random = 3
	if again := w.must(s, 1, p); again != first {
		t.Fatalf("the same lease was granted %s and then %s", first, again)
	}
	s.Release(w.now, 1)
	w.want(addrs, 0, 0, 0, 0)
}

func testAmend(t *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(3)
	p := Even(addrs[:2])
	p.Tokens = 500
	first := w.must(s, 1, p)
	s.Amend(w.now, 1, "", 100)
	if l := w.Loads("llm", []string{first})[0]; l != (lb.Load{Requests: 1, Tokens: 100}) {
		t.Fatalf("after the prefill: %+v", l)
	}
	s.Amend(w.now, 1, addrs[2], 100) // a retry was served by an endpoint that was no candidate
	w.want(addrs, 0, 0, 1)
	s.Amend(w.now, 99, addrs[0], 5)
	s.Release(w.now, 1)
	if l := w.Loads("llm", addrs); l[0] != (lb.Load{}) || l[1] != (lb.Load{}) || l[2] != (lb.Load{}) {
		t.Fatalf("after the release: %v", l)
	}
}

func testChurn(_ *testing.T, w *world) {
	a, b, addrs := w.NewOwner(), w.NewOwner(), Addrs(60)
	w.must(a, 1, Even(addrs[:1]))
	for i := 1; i < 58; i++ { // a rolling replacement, seen by both owners in turn
		id := lb.LeaseID(i + 1)
		w.must(a, id, Even(addrs[i:i+2]))
		w.must(b, id, Even(addrs[i:i+2]))
		a.Release(w.now, id)
		b.Release(w.now, id)
	}
	w.want(addrs[:3], 1, 0, 0)
	w.must(b, 900, Even(addrs[57:59]))
	a.Release(w.now, 1)
	w.want(addrs[:3], 0, 0, 0)
	b.Release(w.now, 900)
	w.want(addrs[57:], 0, 0, 0)
}

func testDeadOwner(t *testing.T, w *world) {
	dead, alive, addrs := w.NewOwner(), w.NewOwner(), Addrs(2)
	for id := range lb.LeaseID(6) {
		w.must(dead, id, Even(addrs))
	}
	w.must(alive, 1, Even(addrs[:1]))
	w.pass(TTL-time.Second, alive)
	w.want(addrs, 4, 3)
	w.pass(2*time.Second, alive)
	w.want(addrs, 1, 0)
	alive.Release(w.now, 1)
	w.want(addrs, 0, 0)
}

func testHeartbeats(_ *testing.T, w *world) {
	a, b, addrs := w.NewOwner(), w.NewOwner(), Addrs(2)
	w.must(a, 1, Even(addrs))
	w.must(b, 1, Even(addrs))
	w.pass(10*TTL, a, b)
	w.want(addrs, 1, 1)
}

func testResumed(_ *testing.T, w *world) {
	z, other, addrs := w.NewOwner(), w.NewOwner(), Addrs(3)
	w.must(z, 1, Even(addrs[:1]))
	w.must(z, 2, Even(addrs[1:2]))
	w.must(other, 1, Even(addrs[2:]))
	w.pass(2*TTL, other)
	w.want(addrs, 0, 0, 1)
	w.pass(time.Second, z, other) // it is alive again: its next heartbeat counts its leases again
	w.want(addrs, 1, 1, 1)
	z.Release(w.now, 1)
	z.Release(w.now, 2)
	w.want(addrs, 0, 0, 1)
}

func testResumedRelease(_ *testing.T, w *world) {
	z, other, late, addrs := w.NewOwner(), w.NewOwner(), w.NewOwner(), Addrs(2)
	w.must(z, 1, Even(addrs[:1]))
	w.must(z, 2, Even(addrs[:1]))
	w.must(other, 1, Even(addrs[1:]))
	w.pass(2*TTL, other)
	w.must(late, 1, Even(addrs[:1])) // may get what the silent owner had in shared memory
	z.Release(w.now, 1)
	w.pass(time.Second, z, other, late) // counts the lease that the silent owner still holds, and no other
	w.want(addrs, 2, 1)
	z.Release(w.now, 2)
	w.want(addrs, 1, 1)
	w.pass(2*TTL, z, other, late)
	w.want(addrs, 1, 1)
}

// testLastResort: candidates of another tier, which have a very high base cost, are chosen only when all others are
// full.
func testLastResort(t *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(4)
	const highCost = 1 << 32
	p := Even(addrs)
	for i := range p.Candidates {
		p.Candidates[i].Cap = 2
		if i >= 2 {
			p.Candidates[i].Base = highCost
		}
	}
	for id := range lb.LeaseID(4) {
		w.must(s, id, p)
	}
	w.want(addrs, 2, 2, 0, 0)
	for id := range lb.LeaseID(2) {
		w.must(s, 10+id, p)
	}
	w.want(addrs, 2, 2, 1, 1) // the load still counts there
}

// testTokenCap: an endpoint takes a request of any size while it has less than its cap in tokens.
func testTokenCap(t *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(1)
	p := Even(addrs)
	p.Unit, p.Tokens = lb.Tokens, 99
	p.Candidates[0].Cap, p.Candidates[0].TokenCap = 3, 100
	full := func(why string) {
		t.Helper()
		if _, _, err := w.reserve(s, 9, p); !errors.Is(err, lb.ErrFull) {
			t.Fatalf("%s: %v", why, err)
		}
	}
	w.must(s, 1, p)
	p.Tokens = 5000
	w.must(s, 2, p)
	full("5099 of 100 tokens")
	s.Amend(w.now, 2, "", 1)
	full("100 of 100 tokens")
	s.Release(w.now, 1)
	p.Tokens = 0
	w.must(s, 3, p)
	w.must(s, 4, p)
	full("3 of 3 requests")
	w.want(addrs, 3)
}
