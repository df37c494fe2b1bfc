package queue_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

func lognormal(r *rand.Rand, mean time.Duration, sigma float64) time.Duration {
	return time.Duration(float64(mean) * math.Exp(sigma*r.NormFloat64()-sigma*sigma/2))
}

func shipped(c lb.Class) lb.Wait {
	return lb.Wait{Max: 20 * time.Second, Class: c, Aging: 10 * time.Second, Skip: 32, Patience: 2 * time.Second, Length: 1e6}
}

func all(v *visit) bool { return v.at > 10*time.Second && v.at < 100*time.Second }
func ofClass(c lb.Class) func(*visit) bool {
	return func(v *visit) bool { return v.wait.Class.ID == c.ID && v.at < 100*time.Second && v.at > 20*time.Second }
}

func TestExplore(t *testing.T) {
	seed := uint64(1)
	if n, err := strconv.Atoi(os.Getenv("SEED")); err == nil {
		seed = uint64(n)
	}
	show := func(name string, b *lab, of func(*visit) bool) {
		from := time.Now()
		j := b.judge(0, of)
		pct := func(a, n int) float64 { return 100 * float64(a) / float64(max(n, 1)) }
		fmt.Printf("%-44s accepted %5d late %5.2f%%  refused %5d beside %5.2f%% alone %d/%d  %v\n", name, j.accepted, pct(j.late, j.accepted), j.refused, pct(j.beside, j.refused), j.alone, j.sampled, time.Since(from).Round(time.Millisecond))
	}
	for _, big := range []bool{true, false} {
		servers, places, s := 4, 16, 3*time.Second
		if !big {
			servers, places, s = 2, 8, 10*time.Second
		}
		mu := float64(servers*places) / s.Seconds()
		for _, over := range []float64{0.95, 1.2, 2, 10} {
			for _, mode := range []string{"lognormal", "equal", "cycle"} {
				r := rand.New(rand.NewPCG(seed, 2))
				b := &lab{servers: servers, places: places}
				sigma := 0.9
				if mode != "lognormal" {
					sigma = 0.001
				}
				if mode == "cycle" {
					b.cycle = s
				}
				b.comes(r, 0, 125*time.Second, over*mu, func() visit {
					return visit{takes: lognormal(r, s, sigma), wait: shipped(batch), tokens: 100}
				})
				show(fmt.Sprintf("%v %v x %g", mode, servers*places, over), b, all)
			}
		}
	}
	// deadlines
	for _, over := range []float64{1.2, 2} {
		r := rand.New(rand.NewPCG(seed, 2))
		b := &lab{servers: 4, places: 16}
		b.comes(r, 0, 125*time.Second, over*21.3, func() visit {
			w := shipped(batch)
			w.Max = time.Duration(2+r.IntN(18)) * time.Second
			return visit{takes: lognormal(r, 3*time.Second, 0.9), wait: w, tokens: 100}
		})
		show(fmt.Sprintf("deadlines x %g", over), b, all)
	}
	for _, k := range []int{32, 128} { // mean time of answers doubles or halves half way
		r := rand.New(rand.NewPCG(seed, 2))
		b := &lab{servers: 4, places: 16}
		for _, part := range []int{0, 1} {
			s := 3 * time.Second
			if part == 1 {
				s = s * 64 / time.Duration(k)
			}
			b.comes(r, time.Duration(part)*60*time.Second, time.Duration(1+part)*65*time.Second, 42, func() visit {
				return visit{takes: lognormal(r, s, 0.9), wait: shipped(batch), tokens: 100}
			})
		}
		show(fmt.Sprintf("to %d/64 of the speed", k), b, all)
	}
	// classes
	for _, strict := range []bool{false, true} {
		for _, hi := range []float64{0.5, 0.9} {
			r := rand.New(rand.NewPCG(seed, 2))
			b := &lab{servers: 4, places: 16}
			mk := func(c lb.Class) func() visit {
				return func() visit {
					w := shipped(c)
					w.Strict = strict
					return visit{takes: lognormal(r, 3*time.Second, 0.9), wait: w, tokens: 100}
				}
			}
			b.comes(r, 0, 125*time.Second, hi*21.3, mk(interactive))
			b.comes(r, 0, 125*time.Second, 21.3, mk(batch))
			show(fmt.Sprintf("strict %v interactive %g: batch", strict, hi), b, ofClass(batch))
			show(fmt.Sprintf("strict %v interactive %g: interactive", strict, hi), b, ofClass(interactive))
		}
	}
	half(seed, show)
	all := func(*visit) bool { return true }
	for _, n := range []int{132, 400, 1000} {
		for _, mode := range []string{"lognormal", "equal", "cycle"} {
			r := rand.New(rand.NewPCG(seed, 2))
			b := &lab{servers: 4, places: 16}
			sigma := 0.9
			if mode != "lognormal" {
				sigma = 0.001
			}
			if mode == "cycle" {
				b.cycle = 3 * time.Second
			}
			for i := range n {
				b.visits = append(b.visits, visit{at: time.Duration(i) * time.Millisecond * 5, takes: lognormal(r, 3*time.Second, sigma), wait: shipped(batch), tokens: 100})
			}
			show(fmt.Sprintf("burst %d %s", n, mode), b, all)
		}
	}
	// sparse patient waits, then a burst
	r := rand.New(rand.NewPCG(seed, 2))
	b := &lab{servers: 4, places: 16}
	for i := range 20 {
		for range 17 {
			b.visits = append(b.visits, visit{at: time.Duration(i) * 3 * time.Second, takes: 1200 * time.Millisecond, wait: shipped(batch), tokens: 100, patient: true})
		}
	}
	for i := range 200 {
		b.visits = append(b.visits, visit{at: 60*time.Second + time.Duration(i)*time.Millisecond, takes: lognormal(r, time.Second, 0.5), wait: shipped(batch), tokens: 100})
	}
	show("sparse then burst", b, all)
	// tenants
	b = &lab{servers: 4, places: 16}
	b.comes(r, 0, 125*time.Second, 40, func() visit {
		w := shipped(batch)
		w.Tenant = 1
		return visit{takes: lognormal(r, 3*time.Second, 0.9), wait: w, tokens: 100}
	})
	b.comes(r, 20*time.Second, 125*time.Second, 2, func() visit {
		w := shipped(batch)
		w.Tenant = 2 + r.Uint64N(3)
		return visit{takes: lognormal(r, 3*time.Second, 0.9), wait: w, tokens: 100}
	})
	show("tenants: heavy", b, func(v *visit) bool { return v.at < 100*time.Second && v.wait.Tenant == 1 })
	show("tenants: light", b, func(v *visit) bool { return v.wait.Tenant != 1 })
}

func half(seed uint64, show func(string, *lab, func(*visit) bool)) {
	r := rand.New(rand.NewPCG(seed, 2))
	b := &lab{servers: 4, places: 16}
	b.comes(r, 0, 125*time.Second, 40, func() visit {
		w := shipped(batch)
		w.Tenant = 1
		return visit{takes: lognormal(r, 3*time.Second, 0.9), wait: w, tokens: 100}
	})
	b.comes(r, 20*time.Second, 125*time.Second, 10, func() visit {
		w := shipped(batch)
		w.Tenant = 2 + r.Uint64N(10)
		return visit{takes: lognormal(r, 3*time.Second, 0.9), wait: w, tokens: 100}
	})
	show("half tenants: heavy", b, func(v *visit) bool { return all(v) && v.wait.Tenant == 1 })
	show("half tenants: light", b, func(v *visit) bool { return all(v) && v.wait.Tenant != 1 })
}
