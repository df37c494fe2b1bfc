package health

import (
	"math"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"pgregory.net/rapid"
)

// A failure counts less the more such requests fail elsewhere, and a success does, too: from what fails nowhere else,
// which counts in full, to what fails everywhere.
func TestWeightsOfOutcomes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		share := rapid.Float64Range(minFailureShare, failingShare)
		a, b := share.Draw(rt, "a"), share.Draw(rt, "b")
		low, high := min(a, b), max(a, b)
		if failureWeight(low) < failureWeight(high) || successWeight(low) < successWeight(high) {
			rt.Fatalf("outcomes that fail elsewhere with %v weigh less than with %v", low, high)
		}
		if w := failureWeight(a); w < 0 || w > 1 || a >= uninformativeShare && w != 0 {
			rt.Fatalf("a failure that fails elsewhere with %v weighs %v", a, w)
		}
		if w := successWeight(a); w < -1e-12 || w > 1 {
			rt.Fatalf("a success that fails elsewhere with %v weighs %v", a, w)
		}
	})
	if w := failureWeight(minFailureShare); w != 1 {
		t.Errorf("a failure that fails nowhere else weighs %v", w)
	}
}

func drawHealthConfig(rt *rapid.T) Config {
	return Config{
		ConsecutiveFailures: rapid.IntRange(0, 6).Draw(rt, "failures"),
		EjectionTime:        time.Duration(rapid.IntRange(1, 20).Draw(rt, "ejection")) * time.Second,
		MaxEjectionTime:     time.Duration(rapid.IntRange(20, 300).Draw(rt, "longest")) * time.Second,
		MaxEjectionPercent:  rapid.SampledFrom([]int{0, 10, 50, 100}).Draw(rt, "percent"),
		SlowStart:           time.Duration(rapid.IntRange(0, 60).Draw(rt, "slow start")) * time.Second,
		PanicThreshold:      rapid.SampledFrom([]int{0, 50, 100}).Draw(rt, "panic"),
	}
}

// Each ejection in a row lasts at least as long as the last one, twice as long until it reaches the limit, however many
// there are.
func TestEjectionTimes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := drawHealthConfig(rt)
		last := cfg.ejectionTime(1)
		if last != cfg.EjectionTime {
			rt.Fatalf("the first ejection lasts %v of %v", last, cfg.EjectionTime)
		}
		for n := 2; n < 100; n++ {
			now := cfg.ejectionTime(n)
			if want := min(2*last, cfg.MaxEjectionTime); now != want {
				rt.Fatalf("ejection %d lasts %v, want %v", n, now, want)
			}
			last = now
		}
	})
}

func drawEjection(rt *rapid.T) ejection {
	from := time.Duration(rapid.IntRange(0, 1000).Draw(rt, "from")) * time.Second
	return ejection{
		from: from, until: from + time.Duration(rapid.IntRange(1, 100).Draw(rt, "for"))*time.Second,
		times: rapid.IntRange(1, 9).Draw(rt, "times"), failures: rapid.IntRange(1, 9).Draw(rt, "failures"),
	}
}

// VMs come to the same ejection in whatever order they learn of the others'.
func TestEjectionsMergeInAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a, b, c := drawEjection(rt), drawEjection(rt), drawEjection(rt)
		if a.merge(b) != b.merge(a) || a.merge(b).merge(c) != a.merge(b.merge(c)) || a.merge(a) != a ||
			a.merge(ejection{}) != a {
			rt.Fatalf("%+v, %+v, %+v", a, b, c)
		}
	})
}

// fleetOf is some endpoints with their health in one VM.
type fleetOf struct {
	*Health
	view   *lb.View
	config *ClusterConfig
	now    time.Duration
}

func newFleetOf(n int, cfg Config) *fleetOf {
	f := &fleetOf{Health: New(), view: &lb.View{}, config: &ClusterConfig{Health: cfg}, now: time.Hour}
	for i := range n {
		f.view.Endpoints = append(f.view.Endpoints, lb.Endpoint{Addr: addrOf(i), Weight: 1})
	}
	f.Candidates(f.now, f.view, f.config, 0)
	return f
}

// step draws what happens next: time passes and some requests end.
func (f *fleetOf) step(rt *rapid.T) {
	f.now += time.Duration(rapid.IntRange(0, 30).Draw(rt, "tenths")) * lb.RefreshEvery // lists are as old as that
	addr := rapid.SampledFrom(f.view.Endpoints).Draw(rt, "endpoint").Addr
	o := lb.Outcome{
		Addr: addr, Verdict: lb.Verdict(rapid.IntRange(0, 2*int(lb.Failure)).Draw(rt, "verdict")),
		Client: uint64(rapid.IntRange(0, 3).Draw(rt, "client")), Model: uint64(rapid.IntRange(0, 2).Draw(rt, "model")),
		WaitedFor: 2 * time.Second, Busy: rapid.Bool().Draw(rt, "busy"),
	}
	o.Verdict = min(o.Verdict, lb.Failure) // half of them
	for range rapid.IntRange(1, 12).Draw(rt, "outcomes") {
		f.Observe(f.now, o, f.config)
	}
}

// ejected returns how many endpoints are ejected, whether that has an effect or not.
func (f *fleetOf) ejected() (n int) {
	for _, e := range f.endpoints {
		if f.now < e.ejectedUntil(&f.config.Health) {
			n++
		}
	}
	return n
}

// Whatever happens, some endpoint is a candidate, no more are missing than may be ejected, and weights are finite and
// no lower than what lets an endpoint recover.
func TestCandidatesOfAnyHistory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(rt, "endpoints")
		f := newFleetOf(n, drawHealthConfig(rt))
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			f.step(rt)
			list, reason := f.Candidates(f.now, f.view, f.config, rapid.Uint64().Draw(rt, "draw"))
			cs := list.Candidates
			if reason != lb.ReasonChosen {
				rt.Fatalf("no candidates: %v", reason)
			}
			most := 0
			if p := f.config.Health.MaxEjectionPercent; p > 0 {
				most = min(max(1, n*p/100), n-1)
			}
			if out := n - len(cs); out != min(f.ejected(), most) {
				rt.Fatalf("%d of %d are missing, %d ejected, at most %d", out, n, f.ejected(), most)
			}
			for _, c := range cs {
				if !(c.Weight >= minWeightFactor/2 && c.Weight <= 2) || math.IsNaN(c.Base) || math.IsInf(c.Base, 0) {
					rt.Fatalf("%+v", c)
				}
				e := f.endpoints[c.Addr]
				if e.score < 0 || e.rate < 0 || e.rate > 1 || e.longRate < 0 || e.longRate > 1 || math.IsNaN(e.score) {
					rt.Fatalf("%s: score %v, rates %v and %v", c.Addr, e.score, e.rate, e.longRate)
				}
			}
		}
	})
}

// After any history, once nothing fails any more, each endpoint is a candidate of full weight again and no slower than
// the others.
func TestEveryEndpointReturns(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(rt, "endpoints")
		f := newFleetOf(n, drawHealthConfig(rt))
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			f.step(rt)
		}
		f.now += f.config.Health.MaxEjectionTime + f.config.Health.SlowStart + 2*time.Minute
		list, reason := f.Candidates(f.now, f.view, f.config, 0)
		cs := list.Candidates
		if reason != lb.ReasonChosen || len(cs) != n {
			rt.Fatalf("%d of %d endpoints are back: %v", len(cs), n, reason)
		}
		for _, c := range cs {
			if c.Weight != 1 || c.Base != 0 {
				rt.Fatalf("%+v of %+v", c, cs)
			}
		}
	})
}

// The order of the endpoints in the view has no effect on what is learned, nor on who is a candidate.
func TestHealthDoesNotDependOnTheOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := drawHealthConfig(rt)
		n := rapid.IntRange(2, 6).Draw(rt, "endpoints")
		f, g := newFleetOf(n, cfg), newFleetOf(n, cfg)
		g.Health = New()
		g.view.Endpoints = rapid.Permutation(g.view.Endpoints).Draw(rt, "order")
		g.Candidates(g.now, g.view, g.config, 0)
		for range rapid.IntRange(1, 15).Draw(rt, "steps") {
			f.now += time.Duration(rapid.IntRange(0, 3000).Draw(rt, "ms")) * time.Millisecond
			g.now = f.now
			o := lb.Outcome{
				Addr: rapid.SampledFrom(f.view.Endpoints).Draw(rt, "endpoint").Addr,
				Verdict: rapid.SampledFrom([]lb.Verdict{
					lb.Success, lb.Failure, lb.Overload, lb.Rejected,
				}).Draw(rt, "verdict"),
				Client: uint64(rapid.IntRange(0, 3).Draw(rt, "client")),
			}
			for range rapid.IntRange(1, 8).Draw(rt, "outcomes") {
				f.Observe(f.now, o, f.config)
				g.Observe(g.now, o, g.config)
			}
		}
		for addr, e := range f.endpoints {
			if other := g.endpoints[addr]; e.score != other.score || e.rate != other.rate ||
				e.ejection != other.ejection {
				rt.Fatalf("%s: %+v, in another order %+v", addr, *e, *other)
			}
		}
		if f.ejected() != g.ejected() || f.Ejections() != g.Ejections() {
			rt.Fatalf("%d ejected, in another order %d", f.ejected(), g.ejected())
		}
	})
}

// VMs that exchange their ejections eject the same endpoints, in whatever order they export and import, and learning
// the same twice changes nothing.
func TestVMsAgreeOnEjections(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := drawHealthConfig(rt)
		n := rapid.IntRange(1, 5).Draw(rt, "endpoints")
		vms := []*fleetOf{newFleetOf(n, cfg), newFleetOf(n, cfg), newFleetOf(n, cfg)}
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			vm := rapid.SampledFrom(vms).Draw(rt, "VM")
			vm.step(rt)
			for _, other := range vms {
				other.now = max(other.now, vm.now)
			}
		}
		now := max(vms[0].now, vms[1].now, vms[2].now)
		var shared []byte
		for _, vm := range rapid.Permutation(vms).Draw(rt, "order") {
			vm.now = now
			if out, changed := vm.Export(now, shared); changed {
				shared = out
				vm.ConfirmExport()
			}
		}
		for range 2 {
			for _, vm := range vms {
				vm.Import(now, shared)
			}
		}
		for _, vm := range vms[1:] {
			for addr, e := range vm.endpoints {
				first := vms[0].endpoints[addr]
				if e.ejectedUntil(&cfg) > now && e.ejectedUntil(&cfg) != first.ejectedUntil(&cfg) {
					rt.Fatalf("%s is ejected until %v and %v", addr, e.ejectedUntil(&cfg), first.ejectedUntil(&cfg))
				}
			}
			if vm.ejected() != vms[0].ejected() {
				rt.Fatalf("%d and %d endpoints are ejected", vm.ejected(), vms[0].ejected())
			}
		}
		if len(shared)%ejectionSize != 0 || len(shared)/ejectionSize > n {
			rt.Fatalf("%d bytes for %d endpoints", len(shared), n)
		}
	})
}

// A VM that has ejected an endpoint once, but latest, learns that another one has ejected it more often: both eject it
// for the same time.
func TestImportOfMoreEjections(t *testing.T) {
	cfg := Config{
		ConsecutiveFailures: 1, EjectionTime: 2 * time.Second, MaxEjectionTime: time.Minute, MaxEjectionPercent: 50,
	}
	a, b := newFleetOf(2, cfg), newFleetOf(2, cfg)
	failed := lb.Outcome{Addr: addrOf(0), Verdict: lb.Failure}
	start := a.now
	a.Observe(start, failed, a.config)
	a.Observe(start+2*time.Second, failed, a.config)
	b.Observe(start+5*time.Second, failed, b.config)
	now := start + 5*time.Second
	shared, _ := a.Export(now, nil)
	shared, _ = b.Export(now, shared)
	for _, vm := range []*fleetOf{a, b} {
		vm.Import(now, shared)
		if got, want := vm.endpoints[failed.Addr].ejectedUntil(&cfg), now+4*time.Second; got != want {
			t.Errorf("ejected until %v, want %v", got-start, want-start)
		}
	}
}
