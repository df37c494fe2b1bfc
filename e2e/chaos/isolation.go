package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
)

const (
	// rateAlone is what more clients send in a region that is cut off, so that its own servers do not suffice.
	rateAlone = 24.0
	// sickAfter is after what time the health checks as shipped know that servers cannot be reached.
	sickAfter = 6 * time.Second
)

// isolated cuts the second region off from all others: each side believes that the other's gateways are gone. With
// servers, neither side reaches the other's; gateways must count as gone only after health checks know of that.
// Without, both sides send to the same servers, and each counts only its own requests: that may make servers fuller
// than they should be, and must lose nothing.
func isolated(servers bool) func(*act, *world) error {
	return func(a *act, w *world) error {
		eu := w.regions[1]
		if servers {
			for _, r := range w.regions {
				config := regionConfigWith(sickAfter+4*time.Second, r.name, regionNames...)
				if err := r.Gateway.PushPlugin(a.ctx, config); err != nil {
					return err
				}
			}
			if err := a.forwards(w, "then"); err != nil {
				return err
			}
		}
		client := eu.Client(0, "", 2*time.Minute)
		defer client.Close()
		more := audit.NewTraffic(client, rateAlone, a.rand.Uint64(), talk)
		more.Excuse, more.Most = w.excused(eu), mostUnderWay
		more.Start(a.ctx)
		err := w.cutOff(1, servers)
		if err == nil {
			err = a.apart(w, servers)
		}
		err = errors.Join(err, w.mend())
		if err == nil {
			err = a.givesBack(w, eu)
		}
		more.Pause()
		return errors.Join(err, a.count(more.Tally(), none))
	}
}

// apart waits until both sides of the cut have adopted what they do not hear, and watches what they send there.
func (a *act) apart(w *world, servers bool) error {
	us, eu, ap := w.regions[0], w.regions[1], w.regions[2]
	start := time.Now()
	unheard, stop := a.watchLate(ap, us)
	defer stop()
	for _, p := range [...]struct{ by, from *region }{{us, eu}, {eu, us}, {eu, ap}} {
		if err := a.until(patience, func() error {
			n, err := p.by.stat(a.ctx, "adopted;region="+p.from.name+"$")
			if err == nil && n != 1 {
				err = fmt.Errorf("%s does not adopt the servers of %s", p.by.name, p.from.name)
			}
			return err
		}); err != nil {
			return err
		}
	}
	a.result.Figures["adopted_after_ms"] = float64(time.Since(start).Milliseconds())
	changes, stop := a.watchAdopted(us, eu)
	err := a.sendAway(w, servers)
	a.sleep(a.span / 2)
	stop()
	if n := changes.Load(); err == nil && n > 0 {
		err = fmt.Errorf("adopted servers changed hands %d times while the region was cut off", n)
	}
	n, err2 := ap.stat(a.ctx, "adopted;region=")
	if err == nil && err2 == nil && n > 0 && !unheard.Load() {
		err2 = fmt.Errorf("%s adopts servers, too", ap.name)
	}
	return errors.Join(err, err2)
}

// sendAway waits until both sides have sent requests to adopted servers, or watches that neither does if these cannot
// be reached.
func (a *act) sendAway(w *world, servers bool) error {
	for _, r := range w.regions[:2] {
		sent := func() (float64, error) { return r.stat(a.ctx, "adopted_requests_total") }
		had, err := sent()
		if err != nil {
			return err
		}
		a.result.Figures["adopted_"+r.name+"_before"] = had
		if !servers {
			err = a.until(patience, func() error {
				n, err := sent()
				if err == nil && n < had+10 {
					err = fmt.Errorf("%s has sent %v requests to adopted servers", r.name, n-had)
				}
				return err
			})
		} else {
			a.sleep(watched)
			var n float64
			if n, err = sent(); err == nil && n > had {
				err = fmt.Errorf("%s has sent %v requests to servers that cannot be reached", r.name, n-had)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lone has no region help another, under the same load: what is lost then is no fault of helping.
func lone(a *act, w *world) error {
	for _, t := range w.traffic { // requests that wait may be forwarded by the configuration with which they came
		t.Pause()
	}
	for _, r := range w.regions {
		if err := r.Gateway.PushPlugin(a.ctx, allow(regionConfig(r.name, regionNames...))); err != nil {
			return err
		}
	}
	w.little, w.alone = true, true
	if err := w.begin(a.ctx); err != nil {
		return err
	}
	for _, t := range w.traffic {
		t.Start(a.ctx)
	}
	a.sleep(a.span)
	return nil
}
