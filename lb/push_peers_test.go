package lb

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// pair is two engines, each of which runs some requests at once, and clients who always have the next one. It serves in
// steps of 10 ms.
type pair struct {
	rand    *rand.Rand
	now     time.Duration
	slots   [2]int
	seconds float64 // that an answer takes in the mean
	clients int
	limits  *PushLimits
	waited  bool          // the next request waits for an engine to be open
	open    [2][]*pairJob // in the order in which they came
	sum     [2]float64    // of requests in flight, since the last call of run
}

type pairJob struct {
	placed   time.Duration
	inflight int64
	began    bool
	left     float64 // seconds
}

func (p *pair) addr(i int) string { return string(rune('a' + i)) }

func (p *pair) run(d time.Duration) {
	p.sum = [2]float64{}
	const step = 10 * time.Millisecond
	for end := p.now + d; p.now < end; p.now += step {
		p.place()
		for i := range p.open {
			p.sum[i] += float64(len(p.open[i])) * step.Seconds() / d.Seconds()
			kept := p.open[i][:0]
			for k, j := range p.open[i] {
				if k < p.slots[i] {
					if !j.began {
						j.began = true
						p.observe(i, j, true)
					}
					if j.left -= step.Seconds(); j.left <= 0 {
						p.observe(i, j, false)
						continue
					}
				}
				kept = append(kept, j)
			}
			p.open[i] = kept
		}
	}
}

func (p *pair) observe(i int, j *pairJob, begun bool) {
	p.limits.Observe(p.now, Answer{
		Addr: p.addr(i), PlacedAt: j.placed, Inflight: j.inflight, Begun: begun, Streamed: !begun,
	})
}

// place sends what clients have to the engine with the fewest requests that is open, or of those that wait, where the
// smaller part of the limit is used.
func (p *pair) place() {
	cs := p.limits.Apply(p.now, []Candidate{{Addr: "a", Weight: 1}, {Addr: "b", Weight: 1}}, 0)
	for len(p.open[0])+len(p.open[1]) < p.clients {
		cost := [2]float64{}
		for i := range cost {
			cost[i] = float64(len(p.open[i]))
			if p.waited {
				cost[i] /= float64(cs[i].Cap)
			}
			if int64(len(p.open[i])) >= cs[i].Cap {
				cost[i] = math.Inf(1)
			}
		}
		at := 0
		if cost[1] < cost[0] || cost[1] == cost[0] && p.rand.IntN(2) == 0 {
			at = 1
		}
		if p.waited = math.IsInf(cost[at], 1); p.waited {
			return
		}
		j := &pairJob{placed: p.now, left: p.seconds * (0.5 + p.rand.ExpFloat64()/2)}
		p.open[at] = append(p.open[at], j)
		j.inflight = int64(len(p.open[at]))
	}
}

// startPair returns two equal engines whose limits are as given, found long ago.
func startPair(seed uint64, slots, clients int, seconds, a, b float64) *pair {
	p := &pair{
		rand: rand.New(rand.NewPCG(seed, 2)), now: time.Hour, slots: [2]int{slots, slots}, seconds: seconds,
		clients: clients, limits: NewPushLimits(nil),
	}
	for i, limit := range [2]float64{a, b} {
		e := p.limits.endpoint(p.now, p.addr(i))
		e.limit = limit
		e.search.settle()
		e.search.rest = maxRest
	}
	return p
}

// apart returns by which factor the requests in flight at the two engines differ.
func (p *pair) apart() float64 { return max(p.sum[0], p.sum[1]) / min(p.sum[0], p.sum[1]) }

// Two equal engines come to run about as many requests within half a minute, whatever their limits were at first. A
// limit that was far too low was not corrected for minutes: one of two ran 5 requests, the other one 16.
func TestEqualEnginesEndEqual(t *testing.T) {
	const equal = 1.25
	runs, far, seeds := 0, 0, uint64(20)
	if testing.Short() {
		seeds = 5
	}
	for _, c := range []struct{ slots, clients int }{{16, 32}, {16, 200}, {48, 32}, {48, 200}} {
		for _, limits := range [][2]float64{{5, 16}, {16, 5}, {24, 8}, {10, 40}, {16, 16}} {
			for seed := range seeds {
				p := startPair(seed, c.slots, c.clients, 2, limits[0], limits[1])
				p.run(30 * time.Second)
				p.run(20 * time.Second)
				if runs++; p.apart() <= equal {
					continue
				}
				far++
				t.Logf("%+v, limits %v, seed %d: apart by %.2f", c, limits, seed, p.apart())
				if p.apart() > 2 {
					t.Errorf("%+v, limits %v, seed %d: apart by %.2f", c, limits, seed, p.apart())
				}
			}
		}
	}
	if far > runs/20 { // where a try misled, the next one comes a minute later
		t.Errorf("in %d of %d runs they are far apart", far, runs)
	}
}

// Both follow when engines run fewer requests than before, and when they run more again.
func TestEqualEnginesFollowTogether(t *testing.T) {
	for seed := range uint64(10) {
		p := startPair(seed, 16, 200, 1, 16, 16)
		p.run(time.Minute)
		for _, slots := range []int{6, 16} {
			p.slots = [2]int{slots, slots}
			p.run(3 * time.Minute)
			p.run(time.Minute)
			n := float64(slots)
			t.Logf("seed %d: %.1f and %.1f run of %v", seed, p.sum[0], p.sum[1], n)
			if low, high := min(p.sum[0], p.sum[1]), max(p.sum[0], p.sum[1]); low < 0.7*n || high > 1.6*n {
				t.Errorf("seed %d: %.1f and %.1f run of %v", seed, p.sum[0], p.sum[1], n)
			}
		}
	}
}

// An engine that is not like the others is not held to their limit: what is too much for it was tried for a moment.
func TestUnequalEnginesKeepTheirLimits(t *testing.T) {
	for seed := range uint64(10) {
		p := startPair(seed, 16, 200, 1, 4, 16)
		p.slots[0] = 4
		p.run(2 * time.Minute)
		p.run(2 * time.Minute)
		t.Logf("seed %d: %.1f of 4 and %.1f of 16 run", seed, p.sum[0], p.sum[1])
		if p.sum[0] > 8 || p.sum[1] < 11 {
			t.Errorf("seed %d: %.1f of 4 and %.1f of 16 run", seed, p.sum[0], p.sum[1])
		}
	}
}
