package main

import (
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
)

// faultWaiting plays a fault of that name while requests wait at both gateways. Some are served during it, and the
// others when it is over: all of them.
func faultWaiting(name string) scene {
	f := faults[slices.IndexFunc(faults, func(f fault) bool { return f.name == name })]
	return scene{name: name + " while requests wait", at: single, play: queued(func(a *act) error {
		l, err := a.lineUp(a.crowd)
		defer l.leave()
		if err != nil {
			return err
		}
		at := time.Now()
		err = errors.Join(f.wreck(a), a.site.SetSpeed(1))
		a.sleep(a.span - time.Since(at))
		l.mu.Lock()
		a.result.Figures["served_meanwhile"] = float64(l.tally.OK)
		l.mu.Unlock()
		return errors.Join(err, f.mend(a), a.serve(l, none))
	})}
}

// gatewayKilledWaiting ends the second gateway while requests wait at both. Those that wait at the first are all
// served. What the dead one had, and was granted, is free within the TTL and a second, as in gatewayKilled.
func gatewayKilledWaiting(a *act) error {
	staying, err := a.lineUp(a.crowd, 0)
	defer staying.leave()
	if err != nil {
		return err
	}
	lost, err := a.lineUp(2*a.crowd, 1)
	defer lost.leave()
	if err != nil {
		return err
	}
	g := a.site.Gateways[1]
	a.mayCut = a.settings.streams / 2 // the streams are opened through the two gateways in turn
	if err := syscall.Kill(g.PID(), syscall.SIGKILL); err != nil {
		return err
	}
	at := time.Now()
	lost.done.Wait()
	if err := a.count(lost.tally, func(audit.Tally) int { return lost.tally.Sent }); err != nil {
		return err
	}
	if err := a.site.SetSpeed(1); err != nil {
		return err
	}
	staying.done.Wait()
	a.result.Figures["served_ms"] = float64(time.Since(at).Milliseconds())
	if err := errors.Join(a.count(staying.tally, none), a.awaitQueue(0, a.site.Gateways[0])); err != nil {
		return err
	}
	if err := a.await("the leases of the dead gateway are not all back", func() (bool, error) {
		totals, leases, err := a.place.counts()
		return sum(totals) == int64(a.streams.Len()) && sum(leases) == int64(a.streams.Len()), err
	}); err != nil {
		return err
	}
	a.result.Figures["returned_after_ms"] = float64(time.Since(at).Milliseconds())
	if lost.tally.OK > 0 {
		a.result.Figures["served_by_the_dead"] = float64(lost.tally.OK)
	}
	return a.replace(g)
}
