package regions

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/e2e/wait"
	lbregion "github.com/warmgate/warmgate/lb/region"
)

const (
	// rateAlone is what more clients send in a region that is cut off, so that its own servers do not suffice.
	rateAlone = 24.0
	// sickAfter is after what time the health checks as shipped know that servers cannot be reached.
	sickAfter = 6 * time.Second
)

// signal sends a signal to a region's gateway.
func (r *region) signal(s syscall.Signal) { lab.Check(syscall.Kill(r.Gateway.PID(), s)) }

// frozen has the gateway of the second region stop, so that its servers are adopted, come back for a moment, which
// changes nothing, and come back for good. Only answers that had begun are lost: the connections are closed.
func (w *world) frozen(a *lab.Act) {
	us, eu := w.regions[0], w.regions[1]
	defer mayBreakBetween(w, eu)()
	var changes *atomic.Int64
	stop := func() {}
	err := lab.Try(func() {
		eu.signal(syscall.SIGSTOP)
		w.adopts(a, eu)
		changes, stop = watchAdopted(a, us, eu)
		for range 2 {
			eu.signal(syscall.SIGCONT)
			a.Sleep(steadyAfter / 3)
			eu.signal(syscall.SIGSTOP)
			// A probe is missed, even one of a region that was slow before.
			unheard(a, us, eu, lbregion.Timeout+goneAfter/2)
		}
		flaps := changes.Load()
		lab.FailIf(flaps > 0, "the servers of a region that comes and goes changed hands %d times", flaps)
	})
	defer stop()
	lab.Check(err, lab.Try(func() { eu.signal(syscall.SIGCONT) }))
	w.givesBack(a, eu)
	a.Sleep(time.Second)
	stop()
	n := changes.Load()
	lab.FailIf(n != 1, "adopted servers changed hands %d times before they were back", n)
}

// adopts waits until the first region, and no other, serves the servers of another, and has sent requests there.
func (w *world) adopts(a *lab.Act, from *region) {
	start := time.Now()
	us := w.regions[0]
	sent := func() float64 { return us.stat(a.Ctx, "adopted_requests_total;region="+from.name+";") }
	had := sent()
	a.Until(func() {
		var errs []error
		for _, r := range w.regions {
			if r == from {
				continue // it may be dead
			}
			if n := r.adopted(a.Ctx, from); (n == 1) != (r == us) {
				errs = append(errs, fmt.Errorf("%s adopts the servers of %s: %v", r.name, from.name, n))
			}
		}
		lab.Check(errs...)
		n := sent() - had
		lab.FailIf(n < 10, "%v requests were sent to the adopted servers", n)
	})
	a.NoteMS("adopted_after_ms", time.Since(start))
}

// givesBack waits until nobody serves the servers of a region but its own gateways.
func (w *world) givesBack(a *lab.Act, to *region) {
	start := time.Now()
	a.Until(func() {
		for _, r := range w.regions {
			lab.FailIf(r.stat(a.Ctx, "adopted;region=") > 0, "%s does not give back", r.name)
		}
	})
	took := time.Since(start)
	a.NoteMS("back_after_ms", took)
	lab.FailIf(took < steadyAfter/2, "the servers of %s were given back after %v", to.name, took)
}

// watchAdopted counts how often a region adopts or gives back the servers of another, until it is stopped.
func watchAdopted(a *lab.Act, by, from *region) (changes *atomic.Int64, stop func()) {
	changes = new(atomic.Int64)
	last := -1.0
	return changes, look(a, func() {
		n := by.adopted(a.Ctx, from)
		if last >= 0 && n != last {
			changes.Add(1)
		}
		last = n
	})
}

// watchLate notes whether a region may not have heard another for half the time after which that counts as gone, until
// it is stopped: then it may be right to take it for gone. Between two looks, that silence may have grown by the time
// between them, which is long on a busy machine.
func watchLate(a *lab.Act, by, of *region) (late *atomic.Bool, stop func()) {
	late = new(atomic.Bool)
	at, last := time.Now(), time.Duration(0)
	return late, look(a, func() {
		var age time.Duration
		err := lab.Try(func() { age = by.age(a.Ctx, of) })
		now := time.Now()
		if last+now.Sub(at) > goneAfter/2 || age > goneAfter/2 {
			late.Store(true)
		}
		lab.Check(err)
		at, last = now, age
	})
}

// look calls each again and again, until it is stopped. What Check ends in it is as if it had not been called.
func look(a *lab.Act, each func()) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			_ = lab.Try(each)
			select {
			case <-quit:
				return
			default:
				_ = wait.For(a.Ctx, 50*time.Millisecond)
			}
		}
	}()
	return sync.OnceFunc(func() { close(quit); <-done })
}

// killed ends the gateway of the second region while it serves requests of the others: these serve them at home then,
// but for streams that had begun. Its servers are adopted until it is there again. Its own clients find nobody.
func (w *world) killed(a *lab.Act) {
	eu := w.regions[1]
	eu.streams.Release()
	eu.streams = nil
	// Its servers are slow, so that there is much under way.
	lab.Check(eu.SetSpeed(0.1))
	a.Sleep(time.Second)
	eu.ends(a.Ctx)
	var over []func()
	for _, r := range w.regions {
		over = append(over, w.mayBreak(r, eu))
	}
	back, dead := w.mayFail(eu), eu.Gateway
	eu.signal(syscall.SIGKILL)
	lab.Check(eu.SetSpeed(1))
	w.adopts(a, eu)
	_ = dead.Stop() // it returns an error, because a signal ended it
	for _, over := range over {
		over()
	}
	lab.Check(eu.StartGateway(a.Ctx, 0))
	back()
	w.givesBack(a, eu)
}

// isolated cuts the second region off from all others: each side believes that the other's gateways are gone. With
// servers, neither side reaches the other's; gateways must count as gone only after health checks know of that.
// Without, both sides send to the same servers, and each counts only its own requests: that may make servers fuller
// than they should be, and must lose nothing.
func (w *world) isolated(a *lab.Act, servers bool) {
	eu := w.regions[1]
	if servers {
		for _, r := range w.regions {
			r.push(a, regionConfigWith(sickAfter+4*time.Second, r.name))
		}
		w.forwards(a, "then")
	}
	_, end := w.clients(a, eu, rateAlone)
	defer mayBreakBetween(w, eu)()
	lab.Each(func() {
		lab.Each(func() {
			w.cutOff(1, servers)
			w.apart(a, servers)
		}, w.mend)
		w.givesBack(a, eu)
	}, end)
}

// apart waits until both sides of the cut have adopted what they do not hear, and watches what they send there.
func (w *world) apart(a *lab.Act, servers bool) {
	us, eu, ap := w.regions[0], w.regions[1], w.regions[2]
	start := time.Now()
	unheard, stop := watchLate(a, ap, us)
	defer stop()
	for _, p := range [...]struct{ by, from *region }{{us, eu}, {eu, us}, {eu, ap}} {
		a.Until(func() {
			lab.FailIf(p.by.adopted(a.Ctx, p.from) != 1, "%s does not adopt the servers of %s", p.by.name, p.from.name)
		})
	}
	a.NoteMS("adopted_after_ms", time.Since(start))
	changes, stopped := watchAdopted(a, us, eu)
	lab.Each(func() { w.sendAway(a, servers) }, func() {
		a.Sleep(a.Span / 2)
		stopped()
		n := changes.Load()
		lab.FailIf(n > 0, "adopted servers changed hands %d times while the region was cut off", n)
	})
	lab.FailIf(ap.stat(a.Ctx, "adopted;region=") > 0 && !unheard.Load(), "%s adopts servers, too", ap.name)
}

// sendAway waits until both sides have sent requests to adopted servers, or watches that neither does if these cannot
// be reached.
func (w *world) sendAway(a *lab.Act, servers bool) {
	for _, r := range w.regions[:2] {
		sent := func() float64 { return r.stat(a.Ctx, "adopted_requests_total") }
		a.Note("adopted_"+r.name+"_before", sent())
		if !servers {
			atLeast(a, 10, "requests were sent to adopted servers by "+r.name, sent)
			continue
		}
		n := grown(a, sent)
		lab.FailIf(n > 0, "%s has sent %v requests to servers that cannot be reached", r.name, n)
	}
}

// lone has no region help another, under the same load: what is lost then is no fault of helping.
func (w *world) lone(a *lab.Act) {
	for _, t := range w.traffic { // requests that wait may be forwarded by the configuration with which they came
		t.Pause()
	}
	for _, r := range w.regions {
		r.push(a, allow(regionConfig(r.name)))
	}
	w.little, w.alone = true, true
	w.begin(a.Ctx)
	for _, t := range w.traffic {
		t.Start(a.Ctx)
	}
	a.Sleep(a.Span)
}
