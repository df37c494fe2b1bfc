package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/faultproxy"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/wait"
	lbregion "github.com/warmgate/warmgate/lb/region"
)

// What clients send in a region, in requests a second. The first region's servers take 26 and the others' as many, so
// that requests are forwarded all the time.
const (
	rateAbove = 40.0 // in the first region, in most scenes
	rateBelow = 20.0 // there, in the scene in which it gets many others
	rateOfFew = 6.0
)

// inRegions is a scene in which a fault hits while requests are forwarded. All that a region alone would have served
// must be served, and every region counts what it has, whether it got it from clients or from another region.
func inRegions(name string, rate float64, fault func(*act, *world) error) scene {
	return scene{name: name, at: regional, bare: true, play: func(a *act) error {
		w := a.place.world
		defer w.release()
		for _, r := range w.regions {
			var err error
			if r.streams, err = r.OpenStreams(a.ctx, regionStreams, 1200); err != nil {
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
	before, err := w.sum(a.ctx, "forwarded_total")
	if err != nil {
		return err
	}
	var all []*audit.Traffic
	for i, r := range w.regions {
		client := r.Client(0, "", 2*time.Minute)
		defer client.Close()
		rate := rateOfFew
		if i == 0 {
			rate = most
		}
		all = append(all, audit.NewTraffic(client, rate, a.rand.Uint64(), talk))
	}
	for _, t := range all {
		t.Start(a.ctx)
	}
	err = a.forwards(w, "before")
	if err == nil {
		err = fault(a, w)
	}
	if err == nil {
		err = a.forwards(w, "after")
	}
	for _, t := range all {
		t.Pause()
		err = errors.Join(err, a.count(t.Tally(), none))
	}
	after, err2 := w.sum(a.ctx, "forwarded_total")
	a.result.Figures["forwarded"] = after - before
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

// forwards waits until the first region forwards to each of the others.
func (a *act) forwards(w *world, when string) error {
	start, had := time.Now(), map[string]float64{}
	us := w.regions[0]
	for _, to := range w.regions[1:] {
		n, err := us.forwarded(a.ctx, to.name)
		if err != nil {
			return err
		}
		had[to.name] = n
	}
	err := a.until(30*time.Second, func() error {
		for _, to := range w.regions[1:] {
			n, err := us.forwarded(a.ctx, to.name)
			if err != nil {
				return err
			}
			if n < had[to.name]+3 {
				return fmt.Errorf("%s: %v requests were forwarded to %s", when, n-had[to.name], to.name)
			}
		}
		return nil
	})
	took := float64(time.Since(start).Milliseconds())
	a.result.Figures["forwards_ms_"+when] = took
	return err
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
	if n := w.leaked.Swap(0); n > 0 {
		return fmt.Errorf("%d hops have reached a server", n)
	}
	return nil
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
}

// setWires changes the wires between the first region and the second: to it, and back.
func (w *world) setWires(there, back faultproxy.Mode) error {
	return errors.Join(w.wires[0][1].Set(there), w.wires[1][0].Set(back))
}

// noticed is after what time a gateway knows that a peer does not answer: after two probes, at most a second.
const noticed = 2 * time.Second

// unreachable waits until the first region must know that the second cannot be reached, and checks that nothing is
// sent there any more.
func (a *act) unreachable(w *world, span time.Duration) error {
	us, eu := w.regions[0], w.regions[1]
	a.sleep(noticed)
	before, err := us.forwarded(a.ctx, eu.name)
	if err != nil {
		return err
	}
	a.sleep(span)
	after, err := us.forwarded(a.ctx, eu.name)
	if err == nil && after > before {
		err = fmt.Errorf("%v requests were forwarded to a region that does not answer", after-before)
	}
	return err
}

// partitioned has nothing come through to the second region, or nothing come back, or neither.
func partitioned(a *act, w *world) error {
	for _, p := range []struct {
		name        string
		there, back faultproxy.Mode
	}{
		{"nothing comes there", faultproxy.Stall(), faultproxy.Pass()},
		{"no answer comes back", faultproxy.StallReplies(), faultproxy.Pass()},
		{"nothing comes through", faultproxy.Stall(), faultproxy.Stall()},
	} {
		err := w.setWires(p.there, p.back)
		if err == nil {
			err = a.unreachable(w, a.span/10)
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
	if err := a.unreachable(w, a.span/5); err != nil {
		return err
	}
	return w.setWires(faultproxy.Pass(), faultproxy.Pass())
}

// lying has a region that has the secret answer probes with lies: nothing may be sent there. It also asks as another
// region does, and then again with the same words.
func lying(a *act, w *world) error {
	us := w.regions[0]
	peers := append([]string{liarName}, regionNames...)
	if err := us.Gateway.PushPlugin(a.ctx, regionConfig(us.name, peers...)); err != nil {
		return err
	}
	for _, next := range lies {
		w.liar.tell(next)
		err := a.until(20*time.Second, func() error {
			if n, _ := w.liar.told(); n < 3 {
				return fmt.Errorf("only %d probes", n)
			}
			return nil
		})
		if err == nil {
			_, n := w.liar.told()
			if available, err2 := us.stat(a.ctx, "available;region="+liarName+"$"); n > 0 || available > 0 {
				err = fmt.Errorf("%d requests were sent there", n)
			} else {
				err = err2
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", next.name, err)
		}
	}
	a.result.Figures["lies"] = float64(len(lies))
	if err := a.askTwice(us); err != nil {
		return err
	}
	return us.Gateway.PushPlugin(a.ctx, regionConfig(us.name, regionNames...))
}

// askTwice sends probes, each of them twice: the second time it is no probe.
func (a *act) askTwice(to *region) error {
	const probes = 20
	key := lbregion.NewKey(regionSecret)
	answered := [2]int{}
	for range probes {
		text := key.SignProbe(liarName, to.name, wall(), a.rand.Uint64())
		for i := range answered {
			r, err := http.NewRequestWithContext(a.ctx, http.MethodGet, to.Gateway.URL()+probePath, nil)
			if err != nil {
				return err
			}
			r.Header.Set(probeHeader, text)
			r.Close = true // so that any worker may get it
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				return err
			}
			resp.Body.Close()
			if resp.Header.Get(answerHeader) != "" {
				answered[i]++
			}
		}
	}
	if answered != [2]int{probes, 0} {
		return fmt.Errorf("of %d probes that were sent twice, %d and then %d were answered", probes, answered[0],
			answered[1])
	}
	return nil
}

// forgedHops has clients pass for another region. Each is served as any client, and may be forwarded, with a hop that
// is genuine; no server sees either.
func forgedHops(a *act, w *world) error {
	us := w.regions[0]
	before, err := w.sum(a.ctx, "hops_forged_total")
	if err != nil {
		return err
	}
	hops := forgeries(us.name)
	const clients = 16
	var done atomic.Int64
	err = wait.All(clients, func(i int) error {
		for n := i; n < a.forged; n += clients {
			if err := a.forge(us, hops[n%len(hops)]); err != nil {
				return err
			}
			done.Add(1)
		}
		return nil
	})
	a.result.Requests += int(done.Load())
	if err != nil {
		a.result.Failed++
		return err
	}
	if err := a.until(10*time.Second, func() error {
		after, err := w.sum(a.ctx, "hops_forged_total")
		if err == nil && int(after-before) != a.forged {
			err = fmt.Errorf("%v of %d forged hops were counted", after-before, a.forged)
		}
		return err
	}); err != nil {
		return err
	}
	a.result.Figures["forged"] = float64(a.forged)
	return a.until(10*time.Second, func() error { return w.trusted(a.ctx, us) })
}

// trusted returns an error unless a region takes as many requests for others' as these have forwarded to it.
func (w *world) trusted(ctx context.Context, to *region) error {
	served, err := to.stat(ctx, "served_total")
	if err != nil {
		return err
	}
	forwarded, err := w.sum(ctx, "forwarded_total;region="+to.name+";")
	if err == nil && served != forwarded {
		err = fmt.Errorf("%s takes %v requests for forwarded ones, of which there are %v", to.name, served, forwarded)
	}
	return err
}

// forge sends a request with a hop.
func (a *act) forge(to *region, hop string) error {
	r, err := http.NewRequestWithContext(a.ctx, http.MethodGet, to.Gateway.URL()+"/v1/models", nil)
	if err != nil {
		return err
	}
	r.Header.Set(hopHeader, hop)
	resp, err := getClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s, reason %s", resp.Status, resp.Header.Get("x-warmgate-reason"))
	}
	return nil
}

// forgeries are hops to a region that none of its peers has signed for a request of forge.
func forgeries(to string) []string {
	key, stranger, now := lbregion.NewKey(regionSecret), lbregion.NewKey("a stranger's secret"), wall()
	const subject = "GET /v1/models"
	genuine := key.SignHop("eu", to, now, subject)
	asked := key.SignProbe("eu", to, now, 1)
	return []string{
		"1", "eu", "1hZm9yZ2Vk", genuine[:len(genuine)-4], genuine + "AAAA", "2" + genuine[1:], "1H" + genuine[2:],
		stranger.SignHop("eu", to, now, subject),
		key.SignHop("eu", to, now, "GET /v1/other"), // of another request
		key.SignHop("eu", to, now, "POST /v1/models"),
		asked, "1h" + asked[2:], // no hop at all
	}
}
