package main

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/warmgate/warmgate/e2e/wait"
	lbregion "github.com/warmgate/warmgate/lb/region"
)

// frozen has the gateway of the second region stop, so that its servers are adopted, come back for a moment, which
// changes nothing, and come back for good. What it had to answer is late, and nothing is lost.
func frozen(a *act, w *world) error {
	us, eu := w.regions[0], w.regions[1]
	signal := func(s syscall.Signal) error { return syscall.Kill(eu.Gateway.PID(), s) }
	err := signal(syscall.SIGSTOP)
	if err == nil {
		err = a.adopts(w, eu)
	}
	changes, stop := a.watchAdopted(us, eu)
	for range 2 {
		if err != nil {
			break
		}
		if err = signal(syscall.SIGCONT); err == nil {
			a.sleep(steadyAfter / 3)
			err = signal(syscall.SIGSTOP)
		}
		if err == nil { // a probe is missed, even one of a region that was slow before
			err = a.unheard(us, eu, lbregion.Timeout+goneAfter/2)
		}
	}
	if flaps := changes.Load(); err == nil && flaps > 0 {
		err = fmt.Errorf("the servers of a region that comes and goes changed hands %d times", flaps)
	}
	err = errors.Join(err, signal(syscall.SIGCONT))
	if err == nil {
		err = a.givesBack(w, eu)
	}
	a.sleep(time.Second)
	stop()
	if n := changes.Load(); err == nil && n != 1 {
		err = fmt.Errorf("adopted servers changed hands %d times before they were back", n)
	}
	return err
}

// adopts waits until the first region, and no other, serves the servers of another, and has sent requests there.
func (a *act) adopts(w *world, from *region) error {
	start := time.Now()
	us := w.regions[0]
	had, err := us.stat(a.ctx, "adopted_requests_total;region="+from.name+";")
	if err != nil {
		return err
	}
	err = a.until(patience, func() error {
		var errs []error
		for _, r := range w.regions {
			if r == from {
				continue // it may be dead
			}
			n, err := r.stat(a.ctx, "adopted;region="+from.name+"$")
			if err != nil {
				return err
			}
			if (n == 1) != (r == us) {
				errs = append(errs, fmt.Errorf("%s adopts the servers of %s: %v", r.name, from.name, n))
			}
		}
		if len(errs) > 0 {
			return errors.Join(errs...)
		}
		n, err := us.stat(a.ctx, "adopted_requests_total;region="+from.name+";")
		if err == nil && n < had+10 {
			err = fmt.Errorf("%v requests were sent to the adopted servers", n-had)
		}
		return err
	})
	a.result.Figures["adopted_after_ms"] = float64(time.Since(start).Milliseconds())
	return err
}

// givesBack waits until nobody serves the servers of a region but its own gateways.
func (a *act) givesBack(w *world, to *region) error {
	start := time.Now()
	err := a.until(patience, func() error {
		for _, r := range w.regions {
			n, err := r.stat(a.ctx, "adopted;region=")
			if err == nil && n > 0 {
				err = fmt.Errorf("%s does not give back", r.name)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	took := time.Since(start)
	a.result.Figures["back_after_ms"] = float64(took.Milliseconds())
	if err == nil && took < steadyAfter/2 {
		err = fmt.Errorf("the servers of %s were given back after %v", to.name, took)
	}
	return err
}

// watchAdopted counts how often a region adopts or gives back the servers of another, until it is stopped.
func (a *act) watchAdopted(by, from *region) (changes *atomic.Int64, stop func()) {
	changes = new(atomic.Int64)
	last := -1.0
	return changes, a.look(func() {
		n, err := by.stat(a.ctx, "adopted;region="+from.name+"$")
		if err == nil && last >= 0 && n != last {
			changes.Add(1)
		}
		if err == nil {
			last = n
		}
	})
}

// watchLate notes whether a region may not have heard another for half the time after which that counts as gone, until
// it is stopped: then it may be right to take it for gone. Between two looks, that silence may have grown by the time
// between them, which is long on a busy machine.
func (a *act) watchLate(by, of *region) (late *atomic.Bool, stop func()) {
	late = new(atomic.Bool)
	at, last := time.Now(), time.Duration(0)
	return late, a.look(func() {
		age, err := by.age(a.ctx, of)
		now := time.Now()
		if last+now.Sub(at) > goneAfter/2 || err == nil && age > goneAfter/2 {
			late.Store(true)
		}
		if err == nil {
			at, last = now, age
		}
	})
}

// look calls each again and again, until it is stopped.
func (a *act) look(each func()) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			each()
			select {
			case <-quit:
				return
			default:
				_ = wait.For(a.ctx, 50*time.Millisecond)
			}
		}
	}()
	return func() { close(quit); <-done }
}

// killed ends the gateway of the second region while it serves requests of the others: these serve them at home then,
// but for streams that had begun. Its servers are adopted until it is there again. Its own clients find nobody.
func killed(a *act, w *world) error {
	eu := w.regions[1]
	eu.streams.Release()
	eu.streams = nil
	// Its servers are slow, so that there is much under way.
	if err := eu.SetSpeed(0.1); err != nil {
		return err
	}
	a.sleep(time.Second)
	if err := eu.ends(a.ctx); err != nil {
		return err
	}
	var over []func()
	for _, r := range w.regions {
		over = append(over, w.mayBreak(r, eu))
	}
	back, dead := w.mayFail(eu), eu.Gateway
	if err := errors.Join(syscall.Kill(dead.PID(), syscall.SIGKILL), eu.SetSpeed(1)); err != nil {
		return err
	}
	if err := a.adopts(w, eu); err != nil {
		return err
	}
	_ = dead.Stop() // it returns an error, because a signal ended it
	for _, over := range over {
		over()
	}
	if err := eu.StartGateway(a.ctx, 0); err != nil {
		return err
	}
	back()
	return a.givesBack(w, eu)
}
