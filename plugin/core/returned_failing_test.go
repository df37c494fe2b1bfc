package core

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/plugin/stats"
)

// failures are ways in which another region fails a request; the last one is a retry that has come home.
var failures = map[string]func(us *fakeDriver, c *fakeStream){
	"500":   func(_ *fakeDriver, c *fakeStream) { c.Head(500); c.Finish() },
	"429":   func(_ *fakeDriver, c *fakeStream) { c.Head(429); c.Finish() },
	"503":   func(_ *fakeDriver, c *fakeStream) { c.Head(503); c.Finish() },
	"reset": func(_ *fakeDriver, c *fakeStream) { c.ResetByUpstream() },
	"hangs": func(us *fakeDriver, c *fakeStream) {
		us.after(6*time.Second, c.leave)
	},
	"unreachable": func(_ *fakeDriver, c *fakeStream) {
		c.served = ""
		c.moveTo(-1)
		c.answer(503, "no_healthy_upstream")
	},
	"home": func(_ *fakeDriver, c *fakeStream) { c.moveTo(0); c.Head(200); c.Finish() },
}

// A region that says it has room, and fails all that it gets, gets three requests, with what is sent before these have
// failed, and then one after each pause. The others wait at home. Once it serves one, it gets more.
func TestRegionThatFailsEverything(t *testing.T) {
	for name, fail := range failures {
		f := startFailing(t, fail)
		for range 600 {
			f.send()
			pass(100*time.Millisecond, f.us, f.eu)
			for _, c := range f.waits {
				if c.cluster == "eu-or-home" && !c.Ended {
					f.away++
					fail(f.us, c)
				}
			}
		}
		// After 1, 2, 4, 8, 16 and 30 s: five trials. What hangs for 6 s has all the room there is in that time.
		most := 3 + 5
		if name == "hangs" {
			most = 6*10 + 10 + 5
		}
		if f.away < 3 || f.away > most {
			t.Errorf("%s: %d of 600 requests were sent there, want at most %d", name, f.away, most)
		}
		if got := f.us.Gauge(stats.PeerOpen + ";region=eu"); got != 0 {
			t.Errorf("%s: it is shown as available", name)
		}
		f.fail = (*fakeDriver).finish
		pass(time.Minute, f.us, f.eu)
		for i, before := range [10]int{} {
			before = f.away
			if f.send(); f.away == before {
				t.Fatalf("%s: request %d after it has recovered is not sent there", name, i)
			}
			pass(100*time.Millisecond, f.us, f.eu)
		}
		f.end()
	}
}

// failing is two regions of which eu has room and fails what it gets, while us is full.
type failing struct {
	us, eu *fakeDriver
	fail   func(us *fakeDriver, c *fakeStream)
	busy   *fakeStream
	waits  []*fakeStream
	away   int // requests that were sent there
}

func startFailing(t *testing.T, fail func(us *fakeDriver, c *fakeStream)) *failing {
	us, eu := startReturning(t, 1, nil)
	return &failing{us: us, eu: eu, fail: fail, busy: us.client(0, regionChat)}
}

func (d *fakeDriver) finish(c *fakeStream) { c.Finish() }

// send sends a request. Of those that wait, which they do for seconds, the clients leave.
func (f *failing) send() {
	c := f.us.client(f.us.rand.IntN(2), regionChat)
	if c.cluster == "eu-or-home" {
		f.away++
		f.fail(f.us, c)
		return
	}
	if f.waits = append(f.waits, c); len(f.waits) > 4 {
		f.waits[0].leave()
		f.waits = f.waits[1:]
	}
}

// end ends what is still under way, after which nothing remains.
func (f *failing) end() {
	for _, c := range append(f.waits, f.busy) {
		if !c.Ended {
			c.ResetByClient()
		}
	}
	pass(10*time.Second, f.us, f.eu)
	f.us.emptiedInside()
	f.us.wantNoneWaits()
}

// What only a request or its client is to blame for does not keep others from another region.
func TestRegionThatFailsNothing(t *testing.T) {
	us, eu := startReturning(t, 1, nil)
	busy := us.client(0, regionChat)
	for i := range 60 {
		c := us.client(i%2, regionChat)
		if c.cluster != "eu-or-home" {
			t.Fatalf("request %d is sent to %q", i, c.cluster)
		}
		switch i % 3 {
		case 0:
			c.Head(400)
			c.Finish()
		case 1:
			c.ResetByClient()
		case 2:
			c.moveTo(-1)
			c.answer(503, "later_filter")
		}
		pass(200*time.Millisecond, us, eu)
	}
	busy.Finish()
	us.emptiedInside()
}
