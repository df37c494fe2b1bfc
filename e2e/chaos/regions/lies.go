package regions

import (
	"context"
	"net/http"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/lab"
	lbregion "github.com/warmgate/warmgate/lb/region"
)

// withLiar is the configuration of a region that has the liar for a peer, too.
func withLiar(name string) string {
	return regionConfig(name, append([]string{liarName}, regionNames...)...)
}

// lying has a region that has the secret answer probes with lies: nothing may be sent there. It also asks as another
// region does, and then again with the same words.
func (w *world) lying(a *lab.Act) {
	us := w.regions[0]
	us.push(a, withLiar(us.name))
	for _, next := range lies {
		w.liar.tell(next)
		enough := 3
		if next.name == again.name {
			enough = 20
		}
		lab.About(next.name, func() {
			a.Until(func() {
				n, _ := w.liar.told()
				lab.FailIf(n < enough, "only %d probes", n)
			})
			_, n := w.liar.told()
			lab.FailIf(n > 0 || us.stat(a.Ctx, "available;region="+liarName+"$") > 0, "%d requests were sent there", n)
		})
	}
	a.Note("lies", float64(len(lies)))
	lab.About(truth.name, func() { w.claimRoom(a) })
	askTwice(a, us)
	us.push(a, regionConfig(us.name))
}

// claimRoom has the region say that it has room, and fail what is sent there: that is served at home, and once a few
// have come home no more is sent than now and then a trial.
func (w *world) claimRoom(a *lab.Act) {
	const failed, trials = 5, 4 // in 15 s; each doubles the pause
	us := w.regions[0]
	had := us.stat(a.Ctx, "returned_total")
	us.push(a, allow(withLiar(us.name), liarName))
	w.liar.tell(truth)
	a.Until(func() {
		n := us.stat(a.Ctx, "returned_total") - had
		lab.FailIf(n < failed, "%v requests have come home", n)
	})
	n := grown(a, func() float64 { return us.forwarded(a.Ctx, liarName) })
	lab.FailIf(n > trials, "%v requests were sent there later, want %d at most", n, trials)
}

// askTwice sends probes, each of them twice: the second time it is no probe.
func askTwice(a *lab.Act, to *region) {
	const probes = 20
	key := lbregion.NewKey(regionSecret)
	answered := [2]int{}
	sender := a.Rand.Uint64() << 32
	for n := range uint64(probes) {
		h := http.Header{}
		h.Set(probeHeader, key.SignProbe(liarName, to.name, wall(), sender+n+1))
		for i := range answered { // any worker may get it
			if lab.Must(audit.Ask(a.Ctx, to.Gateway.URL()+probePath, false, h)).Header.Get(answerHeader) != "" {
				answered[i]++
			}
		}
	}
	lab.FailIf(answered != [2]int{probes, 0}, "of %d probes that were sent twice, %d and then %d were answered", probes,
		answered[0], answered[1])
}

// forgedHops has clients pass for another region. Each is served as any client, and may be forwarded, with a hop that
// is genuine; no server sees either.
func (w *world) forgedHops(a *lab.Act) {
	us := w.regions[0]
	hops := forgeries(us.name)
	a.AskAll(a.Forged, func(k int) { forge(a, us, hops[k%len(hops)]) })
	a.Until(func() {
		n := w.since(a.Ctx, "hops_forged_total")
		lab.FailIf(int(n) != a.Forged, "%v of %d forged hops were counted", n, a.Forged)
	})
	a.Note("forged", float64(a.Forged))
	a.Until(func() { w.trusted(a.Ctx, us, 0) })
	w.replayHops(a)
}

// trusted checks that a region takes as many requests for others' as these have forwarded to it, and as were replayed
// there.
func (w *world) trusted(ctx context.Context, to *region, replayed int) {
	served, forwarded := to.since(ctx, "served_total"), w.since(ctx, "forwarded_total;region="+to.name+";")
	lab.FailIf(served != forwarded+float64(replayed),
		"%s takes %v requests for forwarded ones, of which there are %v, and %d replayed ones", to.name, served,
		forwarded, replayed)
}

// replayHops has someone who has read a hop send it again, which docs/regions.md describes: such a request stays where
// it arrives although that region is full. It counts as forwarded only in time, and in the region that the hop is for.
func (w *world) replayHops(a *lab.Act) {
	us, ap := w.regions[0], w.regions[2]
	const subject, most = "GET /v1/models", 1000
	key, times := lbregion.NewKey(regionSecret), min(max(a.Forged/100, 8), most)
	lab.Check(us.SetSpeed(0.3))
	atLeast(a, 10, "requests were forwarded by a region that is slow", func() float64 {
		return us.forwarded(a.Ctx, "")
	})
	genuine, old := key.SignHop("eu", us.name, wall(), subject), key.SignHop("eu", us.name, wall()-time.Hour, subject)
	for _, p := range []struct {
		to  *region
		hop string
	}{{us, genuine}, {us, old}, {ap, genuine}} {
		lab.All(times, func(int) {
			h := forge(a, p.to, p.hop)
			lab.FailIf(h.Get("x-warmgate-reason") != "chosen" || h.Get("x-warmgate-region") != "",
				"a request with a replayed hop left the region: %v", h)
		})
		a.Result.Requests += times
	}
	a.Note("replayed", float64(3*times))
	lab.Check(us.SetSpeed(1))
	a.Until(func() {
		odd, forged := w.since(a.Ctx, "hops_odd_total"), w.since(a.Ctx, "hops_forged_total")
		lab.FailIf(int(odd) != 2*times || int(forged) != a.Forged,
			"%v hops count as late or for another region, %v as forged", odd, forged)
		w.trusted(a.Ctx, us, times)
		w.trusted(a.Ctx, ap, 0)
	})
}

// forge sends a request with a hop and returns the headers of the answer.
func forge(a *lab.Act, to *region, hop string) http.Header {
	h := http.Header{}
	h.Set(hopHeader, hop)
	return a.Ask(to.Gateway.URL()+"/v1/models", true, h).Header
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
