package cache

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb"
)

// fleet is endpoints whose answers show how fast they are.
type fleet struct {
	*paces
	rng    *rand.Rand
	now    time.Duration
	slower []float64 // [i]: how many times as long endpoint i takes for a token
	load   []float64 // mean requests in flight there
	liars  bool      // a tenth of the answers are wrong by up to a hundred times
}

func newFleet(seed uint64, slower ...float64) *fleet {
	f := &fleet{paces: &paces{}, rng: rand.New(rand.NewPCG(seed, 1)), now: time.Minute, slower: slower}
	for range slower {
		f.load = append(f.load, 1+15*f.rng.Float64())
	}
	return f
}

func fleetAddr(i int) string { return fmt.Sprintf("10.0.0.%d:8000", i) }

// tokensOfAnswers is the mean length of answers.
const tokensOfAnswers = 200

// answer has endpoint i answer: tokens take 10 ms when it is alone, and twice as long with 20 others.
func (f *fleet) answer(i int, model uint64, times float64) {
	n := math.Round(f.load[i] * (0.5 + f.rng.Float64()))
	seconds := times * f.slower[i] * (0.010 + 0.0005*n) * (0.9 + 0.2*f.rng.Float64())
	if f.liars && f.rng.IntN(10) == 0 {
		seconds *= math.Pow(100, 2*f.rng.Float64()-1)
	}
	f.observe(f.now, &lb.Outcome{
		Addr: fleetAddr(i), Model: model, Streamed: true, Load: n,
		PerToken:     time.Duration(seconds * float64(time.Second)),
		OutputTokens: int64(tokensOfAnswers * (0.5 + f.rng.Float64())),
	})
}

// run lets time pass in which each endpoint gives four answers a second.
func (f *fleet) run(d time.Duration) {
	for end := f.now + d; f.now < end; f.now += time.Second / 4 {
		for i := range f.slower {
			f.answer(i, 1, 1)
		}
	}
	f.update(f.now)
}

// more returns how much longer than the fastest an endpoint is told to take, as a share.
func (f *fleet) more(i int) float64 {
	cs := make([]lb.Candidate, len(f.slower))
	for i := range cs {
		cs[i].Addr = fleetAddr(i)
	}
	e := f.endpoints[fleetAddr(i)]
	return e.known * moreTime(e.level-f.fastest(cs)-f.margin)
}

// Slower endpoints cost what they take longer, whatever the load on each of them is and though some answers are wrong;
// equal ones cost nothing.
func TestSlowerEndpointsCostMore(t *testing.T) {
	for _, liars := range []bool{false, true} {
		for seed := range uint64(40) {
			f := newFleet(seed, 1, 1, 1.05, 1, 2, 4)
			f.liars = liars
			f.run(time.Minute)
			for i, times := range f.slower {
				lo, hi := 0.0, 0.0
				if liars {
					hi = 0.1
				}
				if times > equalPace {
					lo, hi = 0.6*(times-1), 1.3*(times-1)
				}
				if more := f.more(i); more < lo || more > hi {
					t.Errorf("seed %d, liars: %t, loads %.0f: of %g times as long, %.2f more is told",
						seed, liars, f.load, times, more)
				}
			}
		}
	}
}

// A server that slows down is noticed within ten seconds and one that is fast again, too; one that is asked no more
// is forgotten, so that it is tried again.
func TestPaceFollows(t *testing.T) {
	for seed := range uint64(20) {
		f := newFleet(seed, 1, 1, 1)
		f.run(time.Minute)
		f.slower[0] = 2
		f.run(10 * time.Second)
		if more := f.more(0); more < 0.4 {
			t.Errorf("seed %d: ten seconds after a server became half as fast, %.2f more is told", seed, more)
		}
		f.slower[0] = 1
		f.run(15 * time.Second)
		if more := f.more(0); more > 0 {
			t.Errorf("seed %d: fast again, it is said to take %.2f more", seed, more)
		}
		f.slower[0] = 4
		f.run(time.Minute)
		before := f.more(0)
		for range 120 {
			f.now += time.Second
			f.answer(1, 1, 1)
			f.answer(2, 1, 1)
		}
		if f.update(f.now); before < 2 || f.more(0) != 0 {
			t.Errorf("seed %d: %.2f more is told, and %.2f after two minutes without requests", seed, before, f.more(0))
		}
	}
}

// Models take differently long, which says nothing of the endpoints that have them.
func TestPaceOfModels(t *testing.T) {
	f := newFleet(1, 1, 1, 2)
	for range 300 {
		f.now += time.Second / 4
		f.answer(0, 1, 1)
		f.answer(0, 2, 5)
		f.answer(1, 1, 1)
		f.answer(2, 2, 5)
	}
	f.update(f.now)
	if a, b, c := f.more(0), f.more(1), f.more(2); a != 0 || b != 0 || c < 0.6 || c > 1.3 {
		t.Errorf("of the small model, both, and the large one on a slow server: %.2f, %.2f, %.2f", b, a, c)
	}
	for model := range uint64(10 * maxKinds) {
		f.answer(0, 100+model, 1)
	}
	if n := len(f.kinds); n > maxKinds {
		t.Errorf("%d kinds of answers are kept", n)
	}
}

// Whatever answers show, costs are numbers from 0 to what maxPaceRatio allows for the longest answer that counts.
func TestCostsOfPaceAreBounded(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c, now := NewTracker(), time.Duration(0)
		var cs []lb.Candidate
		for i := range 4 {
			capacity := float64(i)
			cs = append(cs, lb.Candidate{Addr: fleetAddr(i), Weight: 1, OverSlope: float64(i % 2), Capacity: capacity})
		}
		list := lb.NewList(cs)
		for range rapid.IntRange(1, 300).Draw(rt, "answers") {
			now += time.Duration(rapid.Int64Range(-1e9, 1e11).Draw(rt, "later"))
			c.paces.observe(now, &lb.Outcome{
				Addr:         fleetAddr(rapid.IntRange(0, 3).Draw(rt, "endpoint")),
				Model:        rapid.Uint64Range(0, 2).Draw(rt, "model"),
				PerToken:     time.Duration(rapid.Int64Min(-1).Draw(rt, "per token")),
				OutputTokens: rapid.Int64().Draw(rt, "output"), Load: rapid.Float64().Draw(rt, "load"),
				Streamed: rapid.Bool().Draw(rt, "streamed"),
			})
			for i, o := range c.Paced(now, list, 4, 1).Candidates {
				const most = outputCost * maxPacedTokens * (maxPaceRatio - 1)
				if !(o.Base >= 0 && o.Base <= most && o.OverSlope >= 0 && o.OverSlope <= 4*turnCost*maxPacedTokens) {
					rt.Fatalf("%d: %+v", i, o)
				}
			}
		}
	})
}

// One server that says that it has generated a hundred times as many tokens as it has draws what one that is twice as
// fast would, and one answer that is said to be endless hardly lengthens the mean.
func TestPaceOfLiars(t *testing.T) {
	for seed := range uint64(20) {
		f := newFleet(seed, 1, 1, 1.5, 0.01)
		f.run(time.Minute)
		for i := range 3 {
			if more := f.more(i); more > 1.1*maxLead*f.slower[i]-1 {
				t.Errorf("seed %d: beside a liar %.2f more is told of %g times as long", seed, more, f.slower[i])
			}
		}
		before := f.output
		f.addLength(1 << 30)
		if f.output > 1.1*before {
			t.Errorf("seed %d: a mean of %.0f tokens after one of %.0f", seed, f.output, before)
		}
	}
}

// With one answer in five seconds from each of two equal servers, and one in fifty that is a hundred times too long,
// seldom anything is told; of one that takes three times as long, nearly always.
func TestPaceOfLittleTraffic(t *testing.T) {
	wrong, right, all := 0, 0, 0
	for seed := range uint64(20) {
		f := newFleet(seed, 1, 1, 3)
		for range 400 {
			f.now += 5 * time.Second
			for i := range f.slower {
				times := 1.0
				if f.rng.IntN(50) == 0 {
					times = 100
				}
				f.answer(i, 1, times)
			}
			f.update(f.now)
			if f.endpoints[fleetAddr(0)].seen < minPacedAnswers {
				continue
			}
			all++
			if f.more(0) > 0.2 || f.more(1) > 0.2 {
				wrong++
			}
			if f.more(2) > 0.2 {
				right++
			}
		}
	}
	if wrong > all/20 || right < all*9/10 {
		t.Errorf("of %d times, something is told of equal servers in %d, and of a slow one in %d", all, wrong, right)
	}
}

// A list gets the costs, and without any stays the one that it was.
func TestPaced(t *testing.T) {
	c, list := NewTracker(), lb.NewList([]lb.Candidate{
		{Addr: fleetAddr(0), Base: 5, Slope: 1, Weight: 1},
		{Addr: fleetAddr(1), Base: 7, Slope: 1, Weight: 2, OverSlope: 9, Capacity: 16},
	})
	if got := c.Paced(time.Minute, list, 4, 1); &got.Candidates[0] != &list.Candidates[0] {
		t.Error("a list without costs is another")
	}
	f := newFleet(1, 1, 3)
	f.paces = &c.paces
	f.run(time.Minute)
	got := c.Paced(f.now, list, 4, 1).Candidates
	base, over := 7+outputCost*f.length*f.more(1), 4*turnCost*f.length*2/16
	if got[0] != list.Candidates[0] || got[1].Base != base || got[1].Base < 7+tokensOfAnswers ||
		math.Abs(got[1].OverSlope/over-1) > 0.01 {
		t.Errorf("%+v of %+v, want %g and %g", got, list.Candidates, base, over)
	}
	heavy := c.Paced(f.now, list, 4, 4).Candidates
	if more := heavy[1].Base - 7; math.Abs(more/(base-7)-4) > 1e-9 ||
		math.Abs(heavy[1].OverSlope/got[1].OverSlope-4) > 1e-6 || heavy[0] != got[0] {
		t.Errorf("with four times the weight of a token %+v, with one %+v", heavy, got)
	}
	if none := c.Paced(f.now, list, 4, 0).Candidates; none[1].Base != 7 || none[1].OverSlope != 0 {
		t.Errorf("without a weight of a token: %+v", none)
	}
	f.run(time.Minute)
	if again := c.Paced(f.now, list, 4, 1); again.Digest() != lbDigest(got) {
		t.Error("another list after a minute of the same")
	}
}

func lbDigest(cs []lb.Candidate) uint64 {
	l := lb.NewList(cs)
	return l.Digest()
}
