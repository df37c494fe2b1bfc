package queue_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb"
)

// traffic makes the visits of a lab.
type traffic struct {
	*lab
	rng    *rand.Rand
	answer time.Duration // mean time
	sigma  float64       // of the logarithm of these times, 0 for equal ones
}

// newTraffic returns traffic for four servers with 16 places each, and how many requests a second they serve.
func newTraffic(seed uint64, answer time.Duration, sigma float64) (t *traffic, capacity float64) {
	b := &lab{servers: 4, places: 16}
	return &traffic{b, rand.New(rand.NewPCG(seed, 2)), answer, sigma}, 64 / answer.Seconds()
}

// visit returns a visit that waits as shipped: 20 s, with an aging of 10 s.
func (t *traffic) visit(class lb.Class, change func(*lb.Wait)) visit {
	v := visit{tokens: 100, wait: lb.Wait{
		Max: 20 * time.Second, Class: class, Aging: 10 * time.Second, Skip: 32, Patience: 2 * time.Second, Length: 1e6,
	}}
	v.takes = time.Duration(float64(t.answer) * math.Exp(t.sigma*t.rng.NormFloat64()-t.sigma*t.sigma/2))
	if change != nil {
		change(&v.wait)
	}
	return v
}

// steady adds visits that come independently of each other for two minutes, n a second.
func (t *traffic) steady(n float64, class lb.Class, change func(*lb.Wait)) {
	t.comes(t.rng, 0, 2*time.Minute, n, func() visit { return t.visit(class, change) })
}

// burst adds n visits that come together.
func (t *traffic) burst(at time.Duration, n int) {
	for i := range n {
		v := t.visit(batch, nil)
		v.at = at + time.Duration(i)*time.Millisecond
		t.visits = append(t.visits, v)
	}
}

// measured are the visits of the time in which the pace is known and the load lasts for as long as they may wait.
func measured(v *visit) bool { return v.at > 20*time.Second && v.at < 100*time.Second }

// Of the requests that are let in few wait in vain, and of those that are refused few could have been placed in time
// beside all others, whatever the load is.
func TestPrecisionOfRefusals(t *testing.T) {
	for _, c := range []struct {
		name         string
		load         float64
		sigma        float64
		change       func(*traffic, *lb.Wait)
		late, beside float64 // at most, in per cent
	}{
		{"below what is served", 0.95, 0.9, nil, 0, 0},
		{"a bit more than that", 1.2, 0.9, nil, 2, 2},
		{"twice that", 2, 0.9, nil, 2, 2},
		{"ten times that", 10, 0.9, nil, 2, 2},
		{"equal answers", 2, 0, nil, 1, 2},
		{"deadlines", 2, 0.9, func(t *traffic, w *lb.Wait) {
			w.Max = time.Duration(2+t.rng.IntN(18)) * time.Second
		}, 2, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			var sum tally
			for seed := range uint64(4) {
				load, capacity := newTraffic(seed, 3*time.Second, c.sigma)
				load.steady(c.load*capacity, batch, func(w *lb.Wait) {
					if c.change != nil {
						c.change(load, w)
					}
				})
				sum.add(load.judge(4, measured))
			}
			t.Log(sum)
			if late, beside := sum.percent(); late > c.late || beside > c.beside {
				t.Errorf("%.1f %% of those let in were late, %.1f %% of those refused could have been placed: %v", late,
					beside, sum)
			}
			if (sum.refused > 0) != (c.load > 1) {
				t.Errorf("%d refused", sum.refused)
			}
		})
	}
}

// A class or a tenant that others pass is refused what would be late because of those who are still to come, as far as
// that can be known: they come at random, in 20 s now more and now fewer.
func TestRefusalsOfThosePassed(t *testing.T) {
	tenant := func(from, n uint64) func(*traffic) func(*lb.Wait) {
		return func(t *traffic) func(*lb.Wait) {
			return func(w *lb.Wait) { w.Tenant = from + t.rng.Uint64N(n) }
		}
	}
	heavy, light := tenant(1, 1), tenant(2, 10)
	var sum tally
	for seed := range uint64(4) {
		load, capacity := newTraffic(seed, 3*time.Second, 0.9)
		load.steady(2*capacity, batch, heavy(load))
		load.steady(capacity/2, batch, light(load))
		sum.add(load.judge(0, func(v *visit) bool { return measured(v) && v.wait.Tenant == 1 }))
	}
	t.Log(sum)
	if late, beside := sum.percent(); late > 3 || beside > 2 {
		t.Errorf("%.1f %% of those let in were late, %.1f %% of those refused could have been placed", late, beside)
	}
}

// Before anything was measured, and by a few requests that waited while others were placed at once, nothing is refused
// that servers can take.
func TestBurstsAreNotRefused(t *testing.T) {
	for _, sigma := range []float64{0, 0.3, 0.9} {
		for _, n := range []int{64, 132, 400} {
			load, _ := newTraffic(1, 3*time.Second, sigma)
			load.burst(0, n)
			load.burst(40*time.Second, n)
			if sum := load.judge(0, func(*visit) bool { return true }); sum.refused > 0 || sum.late > 0 {
				t.Errorf("%d requests, sigma %g: %v", n, sigma, sum)
			}
		}
	}
	load, _ := newTraffic(1, 1200*time.Millisecond, 0)
	for i := range 20 {
		for range 17 { // one of them waits for the server that has its prompt
			v := load.visit(batch, nil)
			v.at, v.patient = time.Duration(i)*3*time.Second, true
			load.visits = append(load.visits, v)
		}
	}
	load.burst(time.Minute, 200)
	if sum := load.judge(0, func(*visit) bool { return true }); sum.refused > 0 || sum.late > 0 {
		t.Errorf("after some that were patient: %v", sum)
	}
}

// Whatever the servers are, a burst that they serve in half the time is not refused: while the second answers of all
// places end, the time that they take seems up to twice as long.
func TestBurstsThatAreServedInTime(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		answer := time.Duration(rapid.IntRange(500, 6000).Draw(rt, "answer in ms")) * time.Millisecond
		load, _ := newTraffic(rapid.Uint64().Draw(rt, "seed"), answer, 0)
		load.servers, load.places = rapid.IntRange(1, 5).Draw(rt, "servers"), rapid.IntRange(2, 20).Draw(rt, "places")
		rounds := int(8 * time.Second / answer)
		load.burst(0, rapid.IntRange(1, (1+rounds)*load.servers*load.places).Draw(rt, "requests"))
		if sum := load.judge(0, func(*visit) bool { return true }); sum.refused > 0 || sum.late > 0 {
			rt.Fatal(sum)
		}
	})
}

func (t *tally) add(o tally) {
	t.accepted, t.late, t.refused = t.accepted+o.accepted, t.late+o.late, t.refused+o.refused
	t.beside, t.sampled, t.alone = t.beside+o.beside, t.sampled+o.sampled, t.alone+o.alone
}

// percent returns how many of those let in were late, and how many of those refused could have been placed beside them.
func (t *tally) percent() (late, beside float64) {
	return 100 * float64(t.late) / float64(max(t.accepted, 1)), 100 * float64(t.beside) / float64(max(t.refused, 1))
}

func (t tally) String() string {
	return fmt.Sprintf("%d of %d let in were late, %d of %d refused could have been placed beside them, %d of %d in "+
		"the place of others", t.late, t.accepted, t.beside, t.refused, t.alone, t.sampled)
}
