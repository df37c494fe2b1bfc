package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/faultproxy"
	"github.com/warmgate/warmgate/e2e/loadgen"
	lbregion "github.com/warmgate/warmgate/lb/region"
)

// What clients send in a region, in requests a second. The first region's servers take 26 and the others' as many, so
// that requests are forwarded all the time.
const (
	rateAbove = 40.0 // in the first region, in most scenes
	rateBelow = 18.0 // there, in the scene in which it gets many others
	rateOfFew = 6.0
	// mostUnderWay is how many requests a region's clients have under way at most: more than ever where the machine
	// keeps up. Where it does not, later ones would not be served before their clients give up.
	mostUnderWay = 400
)

// inRegions is a scene in which a fault hits while requests are forwarded. All that a region alone would have served
// must be served, and every region counts what it has, whether it got it from clients or from another region.
func inRegions(name string, rate float64, fault func(*act, *world) error) scene {
	return scene{name: name, at: regional, bare: true, play: func(a *act) error {
		w := a.place.world
		defer w.release()
		if err := w.begin(a.ctx); err != nil {
			return err
		}
		w.little = rate < rateAbove
		for _, r := range w.regions {
			var err error
			if r.streams, err = r.OpenStreams(a.ctx, regionStreams, longAnswer); err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
		}
		var watches []*audit.Watch
		for _, r := range w.regions[1:] { // that of the first is the scene's
			watches = append(watches, r.Watch(a.ctx, 1<<14))
		}
		err := a.skewed(w, rate, fault)
		for _, watch := range watches {
			_, seen := watch.Stop()
			err = errors.Join(err, seen)
		}
		if err != nil {
			return err
		}
		return w.audit(a)
	}}
}

// skewed has requests forwarded to each region before the fault, and again after it.
func (a *act) skewed(w *world, most float64, fault func(*act, *world) error) error {
	w.traffic = nil
	for i, r := range w.regions {
		client := r.Client(0, "", 2*time.Minute)
		defer client.Close()
		rate := rateOfFew
		if i == 0 {
			rate = most
		}
		t := audit.NewTraffic(client, rate, a.rand.Uint64(), talk)
		t.Excuse, t.Most = w.excused(r), mostUnderWay
		w.traffic = append(w.traffic, t)
	}
	for _, t := range w.traffic {
		t.Start(a.ctx)
	}
	err := a.forwards(w, "before")
	if err == nil {
		err = fault(a, w)
	}
	if err == nil {
		err = a.forwards(w, "after")
	}
	for _, t := range w.traffic {
		t.Pause()
		err = errors.Join(err, a.count(t.Tally(), none))
	}
	forwarded, err2 := w.since(a.ctx, "forwarded_total;")
	a.result.Figures["forwarded"] = forwarded
	if err == nil && err2 == nil && (forwarded > 0) == w.alone {
		err = fmt.Errorf("%v requests were forwarded", forwarded)
	}
	return errors.Join(err, err2)
}

// talk is a request that takes 0.3 s, with one of a few beginnings.
func talk(r *rand.Rand, id int) loadgen.Request {
	q := loadgen.Request{ID: id, MaxTokens: 3, Stream: r.IntN(2) == 0}
	text := loadgen.Text(rand.New(rand.NewPCG(uint64(r.IntN(20)), 1)), 200) + loadgen.Text(r, 20)
	body, err := loadgen.ChatBody("sim", text, q.MaxTokens, q.Stream)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	q.Body = body
	return q
}

// forwards waits until the first region forwards to each of the others, where it has enough to forward.
func (a *act) forwards(w *world, when string) error {
	start, us := time.Now(), w.regions[0]
	if w.little {
		return nil
	}
	for _, name := range []string{w.regions[1].name, w.regions[2].name} {
		had, err := us.forwarded(a.ctx, name)
		if err != nil {
			return err
		}
		if err := a.until(patience, func() error {
			n, err := us.forwarded(a.ctx, name)
			if err == nil && n < had+3 {
				err = fmt.Errorf("%s: %v requests were forwarded to %s", when, n-had, name)
			}
			return err
		}); err != nil {
			return err
		}
	}
	a.result.Figures["forwards_ms_"+when] = float64(time.Since(start).Milliseconds())
	return nil
}

// audit compares all counts in each region, first with its streams open.
func (w *world) audit(a *act) error {
	for _, r := range w.regions {
		if r.streams == nil {
			continue
		}
		took, complete, cut, err := r.EndStreams(a.ctx, r.streams)
		a.result.AgreeMS = max(a.result.AgreeMS, took.Milliseconds())
		a.result.Requests += complete + cut
		a.result.Failed += cut
		if err == nil && cut > 0 {
			err = fmt.Errorf("%d streams were cut", cut)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	for _, r := range w.regions {
		took, err := r.Drained(a.ctx)
		a.result.DrainMS = max(a.result.DrainMS, took.Milliseconds())
		if err == nil {
			err = a.emptiedIn(r)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return w.auditHops(a)
}

// emptiedIn waits until nothing waits in a region.
func (a *act) emptiedIn(r *region) error { return a.awaitQueue(0, r.Gateway) }

// release ends the streams that are still open.
func (w *world) release() {
	for _, r := range w.regions {
		if r.streams != nil {
			r.streams.Release()
			r.streams = nil
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.excuses, w.little, w.alone = nil, false, false
}

// forwardedFor is for how long after a peer's last answer requests may be sent there, at most: docs/regions.md.
const forwardedFor = 3*probeInterval + 2*lbregion.Timeout

// probeInterval is the default.
const probeInterval = 200 * time.Millisecond

// watched is for how long nothing may happen: a region that is full forwards dozens of requests in that time.
const watched = 2 * time.Second

// unheard waits until a region's gateway has not heard another one for so long. Only the gateway knows: one that is
// busy hears late what was answered before, though nothing that takes longer than the limit.
func (a *act) unheard(by, from *region, least time.Duration) error {
	a.sleep(lbregion.Timeout)
	return a.until(patience, func() error {
		age, err := by.age(a.ctx, from)
		if err == nil && age < least {
			err = fmt.Errorf("%s has heard %s %v ago", by.name, from.name, age)
		}
		return err
	})
}

// unreachable waits until the first region has not heard the second for so long, after which it must know that it
// cannot be reached, and checks that nothing is sent there any more.
func (a *act) unreachable(w *world, silence time.Duration) error {
	us, eu := w.regions[0], w.regions[1]
	if err := a.unheard(us, eu, silence); err != nil {
		return err
	}
	before, err := us.forwarded(a.ctx, eu.name)
	if err != nil {
		return err
	}
	a.sleep(watched)
	after, err := us.forwarded(a.ctx, eu.name)
	if err == nil && after > before {
		err = fmt.Errorf("%v requests were forwarded to a region that does not answer", after-before)
	}
	return err
}

// partitioned has nothing come through to the second region, or nothing come back, or neither, or breaks connections.
// Only the last ones may cost anything. The third region hears both all the time: so neither adopts the other's
// servers.
func partitioned(a *act, w *world) error {
	us, eu, ap := w.regions[0], w.regions[1], w.regions[2]
	var late []*atomic.Bool // two ways by which us hears of eu, then two by which eu hears of us
	for _, way := range [][2]*region{{us, ap}, {ap, eu}, {eu, ap}, {ap, us}} {
		seen, stop := a.watchLate(way[0], way[1])
		defer stop()
		late = append(late, seen)
	}
	errs := []error{a.parts(w)}
	for i, r := range []*region{us, eu} {
		n, err := r.since(a.ctx, "adopted_requests_total")
		if n > 0 && !late[2*i].Load() && !late[2*i+1].Load() {
			err = fmt.Errorf("%s sent %v requests to adopted servers of a region that %s hears", r.name, n, ap.name)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// parts breaks the ways between the first two regions, one kind of break after the other. One lasts so long that a
// region counts as gone.
func (a *act) parts(w *world) error {
	for _, p := range []struct {
		name        string
		there, back faultproxy.Mode
		breaks      bool
		lasts       time.Duration
	}{
		{"nothing comes there", faultproxy.Stall(), faultproxy.Pass(), false, forwardedFor},
		{"no answer comes back", faultproxy.StallReplies(), faultproxy.Pass(), false, forwardedFor},
		{"nothing comes through", faultproxy.Stall(), faultproxy.Stall(), false, goneAfter},
		{"connections break", faultproxy.Reset(), faultproxy.Reset(), true, forwardedFor},
		{"connections are refused", faultproxy.Refuse(), faultproxy.Refuse(), true, forwardedFor},
	} {
		var over []func()
		if us, eu := w.regions[0], w.regions[1]; p.breaks {
			over = append(over, w.mayBreak(us, eu), w.mayBreak(eu, us))
		}
		err := w.setWires(p.there, p.back)
		for _, over := range over { // what is sent now is answered only after they were mended
			over()
		}
		if err == nil {
			err = a.unreachable(w, p.lasts)
		}
		if err == nil {
			err = w.setWires(faultproxy.Pass(), faultproxy.Pass())
		}
		if err == nil {
			err = a.forwards(w, "between")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// slow has everything that the second region answers come a second late, and what it asks for. Such a region gets
// nothing, and what it has got is answered later.
func slow(a *act, w *world) error {
	if err := w.setWires(faultproxy.Delay(time.Second, 0), faultproxy.Delay(time.Second, 0)); err != nil {
		return err
	}
	if err := a.unreachable(w, forwardedFor); err != nil {
		return err
	}
	return w.setWires(faultproxy.Pass(), faultproxy.Pass())
}
