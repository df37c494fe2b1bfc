package main

import (
	"context"
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
	// It is believed that it has room, and fails what is sent there: that is served at home.
	w.liar.tell(truth)
	if err := a.until(30*time.Second, func() error {
		if _, n := w.liar.told(); n < 10 {
			return fmt.Errorf("%s: %d requests were sent there", truth.name, n)
		}
		return nil
	}); err != nil {
		return err
	}
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
