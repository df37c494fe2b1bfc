package gains

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// warm is a load of ten minutes whose prompts are nearly all cached, but for the first ones.
type warm struct {
	shortest, longest int                              // tokens of prompts
	times             float64                          // by which prefill takes longer from half-time on, 0 for as long
	lost              bool                             // the caches are empty then, too
	lie               func(rng *rand.Rand, p *Prefill) // what a tenth of the streams do
}

const (
	warmRun      = 10 * time.Minute
	warmRate     = 5e-5 // seconds per token
	warmRequests = 10   // a second
	cold         = 30 * time.Second
)

// request returns the cached tokens of a request, how long each would have taken, and what the request shows.
func (w *warm) request(rng *rand.Rand, at time.Duration) (cached, rate float64, p Prefill) {
	tokens, share, slower := float64(w.shortest+rng.IntN(w.longest-w.shortest)), 0.94+0.03*rng.Float64(), 1.
	if w.times > 0 && at >= warmRun/2 {
		slower = w.times
	}
	if at < cold || w.lost && at >= warmRun/2 && at < warmRun/2+cold {
		share *= rng.Float64()
	}
	cached, rate = math.Floor(tokens*share), warmRate*slower
	p = Prefill{Tokens: tokens - cached, Load: 1 + float64(rng.IntN(8))}
	p.Took = rate*p.Tokens + (0.015+0.010*rng.Float64())*slower // a step, and what is left of the one before
	if rng.Float64() < 0.05*p.Load {
		p.Took += 0.040 * rng.ExpFloat64()
	}
	if w.lie != nil && rng.IntN(10) == 0 {
		w.lie(rng, &p)
	}
	return cached, rate, p
}

// run has four VMs tell of the load. It returns, for each minute and for all, how many milliseconds are said to be
// saved over how many really were.
func (w *warm) run(seed uint64) (minutes []float64, all float64) {
	c, rng := newCrowd(4, nil), rand.New(rand.NewPCG(seed, 1))
	begin := c.now
	var told, really, toldBefore, reallyBefore float64
	for c.now-begin < warmRun {
		for i := range warmRequests {
			cached, rate, p := w.request(rng, c.now-begin)
			p.At = c.now
			r := c.recorders[i%len(c.recorders)]
			r.Prefill("m", p)
			r.Cached("m", int64(cached))
			really += cached * rate * 1000
		}
		c.tick()
		told += float64(c.ledger.Clusters["llm"].Models["m"].Take())
		if (c.now-begin)%time.Minute == 0 {
			minutes = append(minutes, (told-toldBefore)/(really-reallyBefore))
			toldBefore, reallyBefore = told, really
		}
	}
	return minutes, told / really
}

// lies are what a tenth of the streams may do.
var lies = map[string]func(rng *rand.Rand, p *Prefill){
	"none":         nil,
	"at once":      func(_ *rand.Rand, p *Prefill) { p.Took = 1e-4 },
	"never":        func(_ *rand.Rand, p *Prefill) { p.Took += 60 },
	"long, fast":   func(_ *rand.Rand, p *Prefill) { p.Tokens, p.Took = 1e5, 1e-3 },
	"long, slow":   func(_ *rand.Rand, p *Prefill) { p.Tokens, p.Took = 1e4, 30 },
	"short, slow":  func(_ *rand.Rand, p *Prefill) { p.Tokens, p.Took = 1, 30 },
	"any length":   func(rng *rand.Rand, p *Prefill) { p.Tokens = 1 + 1e4*rng.Float64() },
	"all the same": func(_ *rand.Rand, p *Prefill) { p.Tokens, p.Took = 4000, 1e-3 },
}

// warmLoads have from 6 to 60 uncached tokens at most in the shortest, and from 15 to 1200 in the longest.
var warmLoads = map[string]struct {
	warm
	near, liars float64 // most that the sum may be off, as a share: without liars, with a tenth of them
}{
	"short":     {warm{shortest: 200, longest: 1000}, 0.1, 0.15},
	"middle":    {warm{shortest: 200, longest: 3000}, 0.1, 0.15},
	"long":      {warm{shortest: 500, longest: 6000}, 0.1, 0.1},
	"very long": {warm{shortest: 500, longest: 20000}, 0.05, 0.05},
}

// TestSavedWhileCached has prompts nearly all of which are cached, where the least is seen of how fast they would be
// computed otherwise: what is saved is told all the time, and is right.
func TestSavedWhileCached(t *testing.T) {
	for name, load := range warmLoads {
		for lie := range lies {
			near, seeds := load.near, uint64(8)
			if load.lie = lies[lie]; load.lie != nil {
				near, seeds = load.liars, 3
			}
			worst := 0.0
			for seed := range seeds {
				minutes, all := load.run(seed)
				if worst = max(worst, math.Abs(all-1)); math.Abs(all-1) > near {
					t.Errorf("%s, lies: %s, seed %d: %.3f of what is saved is told", name, lie, seed, all)
				}
				for i, m := range minutes {
					if math.Abs(m-1) > 2*near+0.05 {
						t.Errorf("%s, lies: %s, seed %d: %.3f of it in minute %d", name, lie, seed, m, i+1)
					}
				}
			}
			t.Logf("%s, lies: %s: off by %.1f %% at most", name, lie, 100*worst)
		}
	}
}

// TestSavedFollows has the server become half as fast, or twice: after some minutes that is told. Where prompts are too
// short to see it, it is seen when caches are lost with it, as by a start.
func TestSavedFollows(t *testing.T) {
	for _, c := range []struct {
		load string
		lost bool
		last int // minutes after which it must be seen
		near float64
	}{
		{"very long", false, 1, 0.1},
		{"very long", true, 1, 0.1},
		{"long", false, 4, 0.3},
		{"long", true, 1, 0.1},
		{"middle", true, 2, 0.1},
	} {
		for _, times := range []float64{2, 0.5} {
			for seed := range uint64(6) {
				w := warmLoads[c.load].warm
				w.times, w.lost = times, c.lost
				minutes, _ := w.run(seed)
				for _, m := range minutes[len(minutes)/2+c.last:] {
					if math.Abs(m-1) > c.near {
						t.Errorf("%s, %g times as long, caches lost: %t, seed %d: minutes tell %.2f of what is saved",
							c.load, times, c.lost, seed, minutes)
						break
					}
				}
			}
		}
	}
}

// alone is a speed that learns from streams without VMs.
type alone struct {
	warm
	Speed
	rng *rand.Rand
	now time.Duration
}

func (w warm) alone(seed uint64) *alone {
	return &alone{warm: w, rng: rand.New(rand.NewPCG(seed, 7)), now: time.Hour}
}

// come has streams come in some time that take so many times as long, and returns how far off the speed told is.
func (a *alone) come(n int, in time.Duration, times float64, cached bool) (off float64) {
	at := time.Duration(0)
	if cached {
		at = cold + 1
	}
	for range n {
		_, _, p := a.request(a.rng, at)
		p.Took *= times
		p.At = a.now
		a.Add(p)
	}
	a.now += in
	a.Learn(a.now)
	rate, _, known := a.PerToken()
	if !known {
		return math.Inf(1)
	}
	return math.Abs(rate/(warmRate*times) - 1)
}

// TestBurst has a hundred streams in a row take three times as long, whose speed is well known, the first ones that are
// looked at together: it is told as before when the others have come.
func TestBurst(t *testing.T) {
	for _, load := range []string{"middle", "long", "very long"} {
		for seed := range uint64(20) {
			a := warmLoads[load].alone(seed)
			for range 24 {
				a.come(50, relearn, 1, false)
			}
			for len(a.ring) > 0 {
				a.come(50, relearn, 1, false)
			}
			a.come(50, relearn, 3, false)
			a.come(50, relearn, 3, false)
			off := 0.0
			for range 10 {
				off = a.come(50, relearn, 1, true)
			}
			if off > 0.15 {
				t.Errorf("%s, seed %d: off by %.2f", load, seed, off)
			}
		}
	}
}

// TestLittleTraffic has a server with few requests become half as fast, or twice: that is told within three hours.
func TestLittleTraffic(t *testing.T) {
	const step = 3 * time.Minute
	for _, load := range []string{"middle", "long", "very long"} {
		for _, each := range []int{6, 12} {
			for _, times := range []float64{2, 0.5} {
				for seed := range uint64(12) {
					a := warmLoads[load].alone(seed)
					for a.now < 5*time.Hour+time.Duration(seed)*7*time.Minute {
						a.come(each, step, 1, false)
					}
					changed, told := a.now, a.now
					for a.now < changed+6*time.Hour {
						if a.come(each, step, times, false) > 0.2 {
							told = a.now
						}
					}
					if told-changed > 3*time.Hour {
						t.Errorf("%s, %d streams in %s, %g times as long, seed %d: told after %s",
							load, each, step, times, seed, told-changed)
					}
				}
			}
		}
	}
}
