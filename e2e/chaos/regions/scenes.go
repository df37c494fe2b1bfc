// Package regions has the scenes in which regions that forward to each other fail, and the ways between them. What a
// region alone would have served must be served.
package regions

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/chaos/waiting"
	"github.com/warmgate/warmgate/e2e/faultproxy"
	"github.com/warmgate/warmgate/e2e/lab"
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

// Stage returns three regions with their scenes.
func Stage() lab.Stage {
	w := new(world)
	return lab.Stage{
		Open: w.open, Heal: w.heal, Close: w.close,
		Scenes: []lab.Scene{
			w.scene("region partitioned", rateAbove, w.partitioned),
			w.scene("regions alone", rateAbove, w.lone),
			w.scene("region cut off", rateAbove, func(a *lab.Act) { w.isolated(a, true) }),
			w.scene("gateways cut off", rateAbove, func(a *lab.Act) { w.isolated(a, false) }),
			w.scene("region slow by 1 s", rateAbove, w.slow),
			w.scene("region frozen and adopted", rateAbove, w.frozen),
			w.scene("region killed and adopted", rateAbove, w.killed),
			w.scene("hops forged", rateBelow, w.forgedHops),
			w.scene("region lies", rateAbove, w.lying),
		},
	}
}

// scene is one in which a fault hits while requests are forwarded. All that a region alone would have served must be
// served, and every region counts what it has, whether it got it from clients or from another region.
func (w *world) scene(name string, rate float64, fault func(*lab.Act)) lab.Scene {
	return lab.Scene{Name: name, Bare: true, Play: func(a *lab.Act) {
		defer w.release()
		w.begin(a.Ctx)
		w.little = rate < rateAbove
		for _, r := range w.regions {
			r.streams = lab.Must(r.OpenStreams(a.Ctx, regionStreams, lab.LongAnswer))
		}
		steps := []func(){func() { w.skewed(a, rate, fault) }}
		for _, r := range w.regions[1:] { // the watch of the first is the scene's
			watch := r.Watch(a.Ctx, 1<<14)
			steps = append(steps, func() { lab.Must(watch.Stop()) })
		}
		lab.Each(steps...)
		w.audit(a)
	}}
}

// clients is the traffic of a region's clients at a rate, and what ends them.
func (w *world) clients(a *lab.Act, r *region, rate float64) (t *audit.Traffic, end func()) {
	client := audit.Client(r.Gateway, "", 2*time.Minute)
	t = audit.NewTraffic(client, rate, a.Rand.Uint64(), talk)
	t.Excuse, t.Most = w.excused(r), mostUnderWay
	t.Start(a.Ctx)
	return t, func() {
		t.Pause()
		client.Close()
		a.Count(t.Tally(), nil)
	}
}

// skewed has requests forwarded to each region before the fault, and again after it.
func (w *world) skewed(a *lab.Act, most float64, fault func(*lab.Act)) {
	w.traffic = nil
	steps := []func(){func() {
		w.forwards(a, "before")
		fault(a)
		w.forwards(a, "after")
	}}
	for i, r := range w.regions {
		rate := rateOfFew
		if i == 0 {
			rate = most
		}
		t, end := w.clients(a, r, rate)
		w.traffic, steps = append(w.traffic, t), append(steps, end)
	}
	lab.Each(steps...)
	forwarded := w.since(a.Ctx, "forwarded_total;")
	a.Note("forwarded", forwarded)
	lab.FailIf((forwarded > 0) == w.alone, "%v requests were forwarded", forwarded)
}

// talk is a request that takes 0.3 s, with one of a few beginnings.
func talk(r *rand.Rand, id int) loadgen.Request {
	q := loadgen.Request{ID: id, MaxTokens: 3, Stream: r.IntN(2) == 0}
	text := loadgen.Text(rand.New(rand.NewPCG(uint64(r.IntN(20)), 1)), 200) + loadgen.Text(r, 20)
	q.Body = lab.Body(text, &q)
	return q
}

// atLeast waits until a number has grown by so much, for what is counted.
func atLeast(a *lab.Act, more float64, what string, count func() float64) {
	had := count()
	a.Until(func() {
		n := count() - had
		lab.FailIf(n < more, "%v %s", n, what)
	})
}

// forwards waits until the first region forwards to each of the others, where it has enough to forward.
func (w *world) forwards(a *lab.Act, when string) {
	start := time.Now()
	if w.little {
		return
	}
	for _, to := range w.regions[1:] {
		atLeast(a, 3, when+" requests were forwarded to "+to.name, func() float64 {
			return w.regions[0].forwarded(a.Ctx, to.name)
		})
	}
	a.NoteMS("forwards_ms_"+when, time.Since(start))
}

// audit compares all counts in each region, first with its streams open.
func (w *world) audit(a *lab.Act) {
	for _, r := range w.regions {
		if r.streams == nil {
			continue
		}
		lab.About(r.name, func() {
			took, complete, cut, err := r.EndStreams(a.Ctx, r.streams)
			a.Result.AgreeMS = max(a.Result.AgreeMS, took.Milliseconds())
			a.Result.Requests += complete + cut
			a.Result.Failed += cut
			lab.Check(err)
			lab.FailIf(cut > 0, "%d streams were cut", cut)
		})
	}
	for _, r := range w.regions {
		lab.About(r.name, func() {
			took, err := r.Drained(a.Ctx)
			a.Result.DrainMS = max(a.Result.DrainMS, took.Milliseconds())
			lab.Check(err)
			waiting.Await(a, 0, r.Gateway)
		})
	}
	w.auditHops(a)
}

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
func unheard(a *lab.Act, by, from *region, least time.Duration) {
	a.Sleep(lbregion.Timeout)
	a.Until(func() {
		age := by.age(a.Ctx, from)
		lab.FailIf(age < least, "%s has heard %s %v ago", by.name, from.name, age)
	})
}

// grown returns by how much a number grows while nothing should happen.
func grown(a *lab.Act, count func() float64) float64 {
	before := count()
	a.Sleep(watched)
	return count() - before
}

// unreachable waits until the first region has not heard the second for so long, after which it must know that it
// cannot be reached, and checks that nothing is sent there any more.
func (w *world) unreachable(a *lab.Act, silence time.Duration) {
	us, eu := w.regions[0], w.regions[1]
	unheard(a, us, eu, silence)
	n := grown(a, func() float64 { return us.forwarded(a.Ctx, eu.name) })
	lab.FailIf(n > 0, "%v requests were forwarded to a region that does not answer", n)
}

// partitioned has nothing come through to the second region, or nothing come back, or neither, or breaks connections.
// Each may cost the answers that have begun, since a connection on which nothing comes is closed. The third region
// hears both all the time: so neither adopts the other's servers.
func (w *world) partitioned(a *lab.Act) {
	us, eu, ap := w.regions[0], w.regions[1], w.regions[2]
	var late []*atomic.Bool // two ways by which us hears of eu, then two by which eu hears of us
	for _, way := range [][2]*region{{us, ap}, {ap, eu}, {eu, ap}, {ap, us}} {
		seen, stop := watchLate(a, way[0], way[1])
		defer stop()
		late = append(late, seen)
	}
	steps := []func(){func() { w.parted(a) }}
	for i, r := range []*region{us, eu} {
		steps = append(steps, func() {
			n := r.since(a.Ctx, "adopted_requests_total")
			lab.FailIf(n > 0 && !late[2*i].Load() && !late[2*i+1].Load(),
				"%s sent %v requests to adopted servers of a region that %s hears", r.name, n, ap.name)
		})
	}
	lab.Each(steps...)
}

// parted breaks the ways between the first two regions, one kind of break after the other. One lasts so long that a
// region counts as gone.
func (w *world) parted(a *lab.Act) {
	for _, p := range []struct {
		name        string
		there, back faultproxy.Mode
		lasts       time.Duration
	}{
		{"nothing comes there", faultproxy.Stall(), faultproxy.Pass(), forwardedFor},
		{"no answer comes back", faultproxy.StallReplies(), faultproxy.Pass(), forwardedFor},
		{"nothing comes through", faultproxy.Stall(), faultproxy.Stall(), goneAfter},
		{"connections break", faultproxy.Reset(), faultproxy.Reset(), forwardedFor},
		{"connections are refused", faultproxy.Refuse(), faultproxy.Refuse(), forwardedFor},
	} {
		lab.About(p.name, func() {
			us, eu := w.regions[0], w.regions[1]
			over := []func(){w.mayBreak(us, eu), w.mayBreak(eu, us)}
			w.setWires(p.there, p.back)
			for _, over := range over { // what is sent now is answered only after they were mended
				over()
			}
			w.unreachable(a, p.lasts)
			w.setWires(faultproxy.Pass(), faultproxy.Pass())
			w.forwards(a, "between")
		})
	}
}

// slow has everything that the second region answers come a second late, and what it asks for. Such a region gets
// nothing, and what it has got is answered later.
func (w *world) slow(a *lab.Act) {
	w.setWires(faultproxy.Delay(time.Second, 0), faultproxy.Delay(time.Second, 0))
	w.unreachable(a, forwardedFor)
	w.setWires(faultproxy.Pass(), faultproxy.Pass())
}
