package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/warmgate/warmgate/e2e/wait"
	lbregion "github.com/warmgate/warmgate/lb/region"
)

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
		enough := 3
		if next.name == again.name {
			enough = 20
		}
		err := a.until(patience, func() error {
			if n, _ := w.liar.told(); n < enough {
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
	if err := a.claimRoom(w); err != nil {
		return fmt.Errorf("%s: %w", truth.name, err)
	}
	if err := a.askTwice(us); err != nil {
		return err
	}
	return us.Gateway.PushPlugin(a.ctx, regionConfig(us.name, regionNames...))
}

// claimRoom has the region say that it has room, and fail what is sent there: that is served at home, and once a few
// have come home no more is sent than now and then a trial.
func (a *act) claimRoom(w *world) error {
	const failed, trials = 5, 4 // in 15 s; each doubles the pause
	us := w.regions[0]
	had, err := us.stat(a.ctx, "returned_total")
	if err != nil {
		return err
	}
	config := regionConfig(us.name, append([]string{liarName}, regionNames...)...)
	if err := us.Gateway.PushPlugin(a.ctx, allow(config, liarName)); err != nil {
		return err
	}
	w.liar.tell(truth)
	if err := a.until(patience, func() error {
		n, err := us.stat(a.ctx, "returned_total")
		if err == nil && n < had+failed {
			err = fmt.Errorf("%v requests have come home", n-had)
		}
		return err
	}); err != nil {
		return err
	}
	before, err := us.forwarded(a.ctx, liarName)
	if err != nil {
		return err
	}
	a.sleep(watched)
	after, err := us.forwarded(a.ctx, liarName)
	if err == nil && after > before+trials {
		err = fmt.Errorf("%v requests were sent there later, want %d at most", after-before, trials)
	}
	return err
}

// askTwice sends probes, each of them twice: the second time it is no probe.
func (a *act) askTwice(to *region) error {
	const probes = 20
	key := lbregion.NewKey(regionSecret)
	answered := [2]int{}
	sender := a.rand.Uint64() << 32
	for n := range uint64(probes) {
		text := key.SignProbe(liarName, to.name, wall(), sender+n+1)
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
	hops := forgeries(us.name)
	const clients = 16
	var done atomic.Int64
	err := wait.All(clients, func(i int) error {
		for n := i; n < a.forged; n += clients {
			if _, err := a.forge(us, hops[n%len(hops)]); err != nil {
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
	if err := a.until(patience, func() error {
		n, err := w.since(a.ctx, "hops_forged_total")
		if err == nil && int(n) != a.forged {
			err = fmt.Errorf("%v of %d forged hops were counted", n, a.forged)
		}
		return err
	}); err != nil {
		return err
	}
	a.result.Figures["forged"] = float64(a.forged)
	if err := a.until(patience, func() error { return w.trusted(a.ctx, us, 0) }); err != nil {
		return err
	}
	return a.replayHops(w)
}

// trusted returns an error unless a region takes as many requests for others' as these have forwarded to it, and as
// were replayed there.
func (w *world) trusted(ctx context.Context, to *region, replayed int) error {
	served, err := to.since(ctx, "served_total")
	if err != nil {
		return err
	}
	forwarded, err := w.since(ctx, "forwarded_total;region="+to.name+";")
	if err == nil && served != forwarded+float64(replayed) {
		err = fmt.Errorf("%s takes %v requests for forwarded ones, of which there are %v, and %d replayed ones",
			to.name, served, forwarded, replayed)
	}
	return err
}

// replayHops has someone who has read a hop send it again, which docs/regions.md describes: such a request stays where
// it arrives although that region is full. It counts as forwarded only in time, and in the region that the hop is for.
func (a *act) replayHops(w *world) error {
	us, ap := w.regions[0], w.regions[2]
	const subject, most = "GET /v1/models", 1000
	key, times := lbregion.NewKey(regionSecret), min(max(a.forged/100, 8), most)
	if err := us.SetSpeed(0.3); err != nil {
		return err
	}
	had, err := us.forwarded(a.ctx, "")
	if err != nil {
		return err
	}
	if err := a.until(patience, func() error {
		n, err := us.forwarded(a.ctx, "")
		if err == nil && n < had+10 {
			err = fmt.Errorf("%v requests were forwarded by a region that is slow", n-had)
		}
		return err
	}); err != nil {
		return err
	}
	genuine, old := key.SignHop("eu", us.name, wall(), subject), key.SignHop("eu", us.name, wall()-time.Hour, subject)
	for _, p := range []struct {
		to  *region
		hop string
	}{{us, genuine}, {us, old}, {ap, genuine}} {
		if err := wait.All(times, func(int) error {
			h, err := a.forge(p.to, p.hop)
			if err == nil && (h.Get("x-warmgate-reason") != "chosen" || h.Get("x-warmgate-region") != "") {
				err = fmt.Errorf("a request with a replayed hop left the region: %v", h)
			}
			return err
		}); err != nil {
			return err
		}
		a.result.Requests += times
	}
	a.result.Figures["replayed"] = float64(3 * times)
	return errors.Join(us.SetSpeed(1), a.until(patience, func() error {
		odd, err := w.since(a.ctx, "hops_odd_total")
		forged, err2 := w.since(a.ctx, "hops_forged_total")
		if int(odd) != 2*times || int(forged) != a.forged {
			err = errors.Join(err, fmt.Errorf("%v hops count as late or for another region, %v as forged", odd, forged))
		}
		return errors.Join(err, err2, w.trusted(a.ctx, us, times), w.trusted(a.ctx, ap, 0))
	}))
}

// forge sends a request with a hop and returns the headers of the answer.
func (a *act) forge(to *region, hop string) (http.Header, error) {
	r, err := http.NewRequestWithContext(a.ctx, http.MethodGet, to.Gateway.URL()+"/v1/models", nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set(hopHeader, hop)
	resp, err := getClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s, reason %s", resp.Status, resp.Header.Get("x-warmgate-reason"))
	}
	return resp.Header, nil
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
