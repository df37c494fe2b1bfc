package push

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"pgregory.net/rapid"
)

// What answers show of how long requests have waited: streams tell it, and of answers in one piece it is what their
// lengths do not explain.
func TestAnswersShowWaits(t *testing.T) {
	const perByte = 0.001
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name    string
		lengths func() int // nil: streamed
		want    float64
	}{
		{"streams", nil, 2},
		{"any lengths", func() int { return 1000 + int(1000*r.ExpFloat64()) }, 3},
		{"a few long ones", func() int { return 500 + 4000*(r.IntN(10)/9) }, 2.5},
		{"equal lengths", func() int { return 500 }, 2.5},
	} {
		var w window
		for range 200 {
			a, seconds := Answer{Inflight: 7, Begun: c.lengths == nil}, 2+r.NormFloat64()/20
			if c.lengths != nil {
				a.Bytes = c.lengths()
				seconds += perByte * float64(a.Bytes) * (1 + r.NormFloat64()/10)
			}
			w.add(time.Hour, &a, seconds)
		}
		if p := w.point(3); math.Abs(p.wait-c.want) > 0.1 || p.inflight != 7 || p.rest <= 0 {
			t.Errorf("%s: %+v, want a wait of %v", c.name, p, c.want)
		}
	}
}

// When one number of requests in flight is better than another.
func TestWhatIsFuller(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to point
		want     bool
	}{
		{"no wait at either", point{8, 0.1, 1}, point{16, 0.1, 1}, false},
		{"a batch that decodes more slowly", point{8, 0.1, 1}, point{16, 0.3, 1}, false},
		{"half of them wait", point{8, 0, 1}, point{16, 1, 1}, true},
		{"one of seven waits", point{6, 0.1, 1}, point{7, 0.27, 1}, true},
		{"fewer wait as long", point{8, 1, 1}, point{6, 1, 1}, false},
		{"fewer wait longer", point{8, 0.1, 1}, point{6, 1, 1}, true},
	} {
		if got := c.from.fuller(&c.to); got > 0 != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// server answers requests as an engine does that runs a few at once, to a gateway whose queue never gets empty: those
// beyond wait for their turn. Answers come in batches of one for each request in flight.
type server struct {
	now   time.Duration
	slots float64
}

// serve has the limits learn from a batch of answers, and returns the limit that held.
func (s *server) serve(l *Limits, addr string, streamed bool) int64 {
	n := l.Apply(s.now, lb.NewList([]lb.Candidate{{Addr: addr, Weight: 1}}), 0).Candidates[0].Cap
	wait := max(0, float64(n)/s.slots-1)
	placed := s.now
	s.now += time.Duration((1 + wait) * float64(time.Second))
	for i := range n {
		a := Answer{Addr: addr, PlacedAt: placed, Inflight: n, Bytes: 500, Streamed: streamed}
		if streamed {
			b := a
			b.Begun, b.Streamed = true, false
			l.Observe(placed+time.Duration((0.1+wait)*float64(time.Second))+time.Duration(i), b)
		}
		l.Observe(s.now, a)
	}
	return n
}

// Answers alone show how many requests an engine runs, whether or not they are streamed.
func TestAnswersFindTheBatch(t *testing.T) {
	for _, slots := range []float64{1, 3, 6, 13, 16, 61, 190} {
		for _, streamed := range []bool{false, true} {
			s, l := server{time.Hour, slots}, New(nil)
			for s.now < 75*time.Minute {
				s.serve(l, "a", streamed)
			}
			sum, n := 0.0, 0.0
			for s.now < 105*time.Minute {
				limit := float64(s.serve(l, "a", streamed))
				if sum, n = sum+limit, n+1; limit > max(slots+1, slots*5/4) {
					t.Fatalf("%v, streamed %v: limit %v at %v", slots, streamed, limit, s.now)
				}
			}
			if mean := sum / n; mean < slots*0.85-0.1 || mean > slots*1.1+0.1 {
				t.Errorf("%v, streamed %v: mean limit %.2f", slots, streamed, mean)
			}
		}
	}
}

// When an engine runs fewer requests than before the limit follows, and when it runs more again, too.
func TestAnswersFollowTheBatch(t *testing.T) {
	s, l := server{time.Hour, 24}, New(nil)
	for i, slots := range []float64{24, 8, 24} {
		s.slots = slots
		for end := s.now + 20*time.Minute; s.now < end; {
			s.serve(l, "a", i == 0)
		}
		if p := l.endpoints["a"]; p.limit < 0.85*slots || p.limit > 1.15*slots {
			t.Errorf("limit %v of %v", p.limit, slots)
		}
	}
}

// A limit of one request, below which there is none to try, rises once the engine runs more.
func TestALimitOfOneRises(t *testing.T) {
	for _, streamed := range []bool{false, true} {
		s, l := server{time.Hour, 1}, New(nil)
		for s.now < 90*time.Minute {
			s.serve(l, "a", streamed)
		}
		if p := l.endpoints["a"]; p.limit > 2 {
			t.Fatalf("streamed %v: limit %v of 1", streamed, p.limit)
		}
		s.slots = 32
		for s.now < 150*time.Minute {
			s.serve(l, "a", streamed)
		}
		if p := l.endpoints["a"]; p.limit < 16 {
			t.Errorf("streamed %v: limit %v of 32 after an hour", streamed, p.limit)
		}
	}
}

// Endpoints hold back one after the other: it is never the turn of two of up to mostTurns, and of an eighth of more.
func TestEndpointsTakeTurns(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8, 40} {
		l := New(nil)
		var all []*endpointLimit
		for i := range n {
			p := l.endpoint(time.Hour, string(rune('A'+i)))
			p.search.full = true
			all = append(all, p)
		}
		held := map[int]bool{}
		for now := time.Hour; now < time.Hour+time.Minute; now += time.Second {
			count := 0
			for i, p := range all {
				if l.publish(now, p); p.published < firstLimit {
					held[i] = true
					count++
				}
			}
			if count > (n+mostTurns-1)/mostTurns || n == 1 && now > time.Hour && len(held) == 0 {
				t.Fatalf("%d of %d hold back at %v", count, n, now)
			}
		}
		if len(held) != n {
			t.Errorf("%d of %d have had a turn", len(held), n)
		}
	}
}

// history is random samples and answers of one endpoint, with times when there are no samples.
type history struct {
	*rapid.T
	t      *testing.T
	now    time.Duration
	limits *Limits
	p      *endpointLimit
}

func (h *history) sample() {
	running := float64(rapid.IntRange(0, 40).Draw(h.T, "running"))
	s := sampleOf(h.t, fields{"running": running, "waiting": float64(rapid.IntRange(0, 9).Draw(h.T, "waiting"))})
	s.Counted, s.Inflight.Requests = true, int64(rapid.IntRange(0, 60).Draw(h.T, "in flight"))
	s.At, s.ScrapedAt, s.FreshAt = h.now, h.now, h.now
	h.limits.learnSample(h.now, "a", &s, 0)
}

// answers are any, or such as come where every request waits for all others.
func (h *history) answers(anyhow bool) {
	for range rapid.IntRange(1, 200).Draw(h.T, "answers") {
		n := h.p.published
		took := time.Duration(n) * 100 * time.Millisecond
		if anyhow {
			n = int64(rapid.IntRange(1, 60).Draw(h.T, "in flight"))
			took = time.Duration(rapid.IntRange(0, 5000).Draw(h.T, "ms")) * time.Millisecond
		}
		h.now += took / time.Duration(n)
		h.limits.Observe(h.now, Answer{Addr: "a", PlacedAt: h.now - took, Inflight: n, Bytes: 500})
	}
}

// Whatever happens, an endpoint has a limit of at least 1, and without samples it is not tried to raise it by more than
// half. Where answers show that more requests do not get more done, it is never raised, nor by the mere lack of
// samples.
func TestLimitNeedsEvidence(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := &history{T: rt, t: t, now: time.Hour, limits: New(nil)}
		h.limits.staleAfter = 3 * time.Second
		h.p = h.limits.endpoint(h.now, "a")
		anyhow := rapid.Bool().Draw(rt, "any answers")
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			before := h.p.limit
			switch step := rapid.IntRange(0, 3).Draw(rt, "step"); step {
			case 0:
				h.sample()
				before = h.p.limit
			case 1:
				h.answers(anyhow)
			default:
				h.now += time.Duration(rapid.IntRange(1, 600).Draw(rt, "seconds")) * time.Second
			}
			h.limits.Apply(h.now, lb.NewList([]lb.Candidate{{Addr: "a"}}), 0)
			n, known := h.limits.Limit("a")
			if !known || n < 1 || float64(n) > h.p.limit*1.5+1 {
				rt.Fatalf("published %d, known %v, limit %v", n, known, h.p.limit)
			}
			if h.p.limit > before && !anyhow {
				rt.Fatalf("limit %v after %v without evidence", h.p.limit, before)
			}
		}
	})
}

// What samples have shown holds when there are none any more, without a raise that they had not confirmed. Late samples
// of a time before do not count.
func TestLimitHoldsWithoutSamples(t *testing.T) {
	e := newPushedEngine(t, 6, 0)
	for range 60 {
		e.scrape()
	}
	const s = time.Second
	for _, after := range []time.Duration{s, 3 * s, 4 * s, time.Minute, 10 * time.Minute} {
		n := e.limits.Apply(e.now+after, lb.NewList([]lb.Candidate{{Addr: "a"}}), 0).Candidates[0].Cap
		if n < 5 || n > 7 || after > 3*time.Second && n > 6 {
			t.Errorf("limit %d after %v without samples of an engine that runs 6", n, after)
		}
	}
}
